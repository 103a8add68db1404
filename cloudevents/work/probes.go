// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"errors"
	"net/http"
)

// Livez is a check for a liveness probe: it returns an error when Start has returned. If the source
// is stuck, Livez does not return, and the probe times out. It returns nil while the broker is
// away: a restart would not bring the broker back, and would lose the outbox. Before Start it
// returns nil. Like [Source.Readyz], it is a healthz.Checker of controller-runtime.
func (s *Source) Livez(*http.Request) error {
	s.cache.Lock()
	closed := s.cache.Closed()
	s.cache.Unlock()
	return live(closed, s.Healthy())
}

// Readyz is a check for a readiness probe. It returns nil while the source is connected and
// subscribed, once it has requested the lists of the agents. Otherwise the error names the missing
// step, or the request that the broker refuses. Of two processes with one SourceID only the newer
// process is ready, so a rolling update proceeds. The clientset works meanwhile: writes are queued
// in the outbox.
//
// Readyz also returns an error before Start. If a manager elects a leader, a standby replica must
// be ready without Readyz; see Probes in METRICS.md.
func (s *Source) Readyz(*http.Request) error {
	return inReadiness(errors.Join(s.serving(), s.rival(true), s.engine.Refused()), s.Ready())
}

// Livez is a check for a liveness probe, like [Source.Livez].
func (a *Agent) Livez(*http.Request) error {
	a.cache.Lock()
	closed := a.cache.Closed()
	a.cache.Unlock()
	return live(closed, a.Healthy())
}

// Readyz is a check for a readiness probe. It returns nil while the agent is connected and
// subscribed, once it has requested its works from the sources and the initial sync is over: then
// lists do not wait. Otherwise the error names the missing step, or the request that the broker
// refuses. Of two agents of one cluster only the newer agent is ready. With leader election, see
// [Source.Readyz].
func (a *Agent) Readyz(*http.Request) error {
	if err := inReadiness(errors.Join(a.serving(), a.rival(true), a.engine.Refused()), a.Ready()); err != nil {
		return err
	}
	select {
	case <-a.synced:
		return nil
	default:
		return errors.New(a.syncProblem())
	}
}
