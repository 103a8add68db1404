// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"errors"
	"net/http"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
)

// Livez implements the method of work.Source.
func (s *Source) Livez(*http.Request) error {
	s.cache.Lock()
	closed := s.cache.Closed()
	s.cache.Unlock()
	return peer.Live(closed, s.Healthy())
}

// Readyz implements the method of work.Source.
func (s *Source) Readyz(*http.Request) error {
	return peer.CheckReady(errors.Join(s.serving(), s.rival(true), s.engine.Refused()), s.Ready())
}
