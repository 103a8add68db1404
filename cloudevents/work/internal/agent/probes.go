// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"net/http"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
)

// Livez implements the method of work.Agent.
func (a *Agent) Livez(*http.Request) error {
	a.cache.Lock()
	closed := a.cache.Closed()
	a.cache.Unlock()
	return peer.Live(closed, a.Healthy())
}

// Readyz implements the method of work.Agent.
func (a *Agent) Readyz(*http.Request) error {
	if err := peer.CheckReady(errors.Join(a.serving(), a.rival(true), a.engine.Refused()), a.Ready()); err != nil {
		return err
	}
	select {
	case <-a.synced:
		return nil
	default:
		return errors.New(a.syncProblem())
	}
}
