// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"errors"
	"net/http"
)

// Livez is a check for a liveness probe: it fails when Start has returned, and does not return when the source is
// stuck, so that the probe runs into its timeout. It does not fail while the broker is away: a restart would not bring
// it back, and would lose what waits in the outbox. Before Start it returns nil. Like [Source.Readyz] it is a
// healthz.Checker of controller-runtime.
func (s *Source) Livez(*http.Request) error {
	s.cache.Lock()
	closed := s.cache.Closed()
	s.cache.Unlock()
	return live(closed, s.Healthy())
}

// Readyz is a check for a readiness probe. It returns nil while the source is connected and subscribed, once it
// has asked the agents for what they have; otherwise the error names what is missing, or what the broker
// refuses. Of two processes with one SourceID only the newer one is ready, so that a rolling update goes on.
// The clientset works meanwhile: writes wait in the outbox.
//
// It is an error also before Start. Where a manager elects a leader, a standby replica must be ready without it; see
// Probes in METRICS.md.
func (s *Source) Readyz(*http.Request) error {
	return inReadiness(errors.Join(s.serving(), s.rival(true), s.engine.Refused()), s.Ready())
}

// Livez is a check for a liveness probe, as [Source.Livez].
func (a *Agent) Livez(*http.Request) error {
	a.cache.Lock()
	closed := a.cache.Closed()
	a.cache.Unlock()
	return live(closed, a.Healthy())
}

// Readyz is a check for a readiness probe. It returns nil while the agent is connected and subscribed, once it
// has asked the sources for its works and the initial sync is over, so that lists do not wait; otherwise the
// error names what is missing, or what the broker refuses. Of two agents of one cluster only the newer one is
// ready. With leader election it is as [Source.Readyz].
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
