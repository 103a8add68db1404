// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work"
)

// probed is the common interface of the probes of a source and an agent.
type probed interface {
	starter
	Healthy() error
	Livez(*http.Request) error
	Readyz(*http.Request) error
}

// expectProbes checks the results of the probes: empty for no error, otherwise a part of the error.
func expectProbes(t *testing.T, when string, p probed, healthy, livez, readyz string) {
	t.Helper()
	for name, got := range map[string]struct {
		err  error
		want string
	}{"Healthy": {p.Healthy(), healthy}, "Livez": {p.Livez(nil), livez}, "Readyz": {p.Readyz(nil), readyz}} {
		switch {
		case got.want == "" && got.err == nil:
		case got.want == "" || got.err == nil || !strings.Contains(got.err.Error(), got.want):
			t.Errorf("%s, %s: %v, want %q", when, name, got.err, got.want)
		}
	}
}

// TestProbes checks the probes of a source and an agent in every state of the connection.
func TestProbes(t *testing.T) {
	for _, role := range []string{"source", "agent"} {
		t.Run(role, func(t *testing.T) {
			inScene(t, func(s *scene) {
				l := &link{Transport: s.bus.Transport()}
				var client probed
				var err error
				if role == "source" {
					client, err = work.NewSource(l, work.SourceOptions{SourceID: "hub"})
				} else {
					client, err = work.NewAgent(l, work.AgentOptions{ClusterName: "cluster1", InitialSyncTimeout: -1})
				}
				if err != nil {
					t.Fatal(err)
				}
				expectProbes(t, "before Start", client, "not started", "", "not started")
				l.setCut(true)
				process := s.run(client)
				s.settle()
				expectProbes(t, "without a broker", client, "the link is cut", "", "the link is cut")
				l.setCut(false)
				time.Sleep(10 * time.Second)
				expectProbes(t, "connected", client, "", "", "")
				l.setCut(true)
				s.settle()
				expectProbes(t, "connection lost", client, "not connected since", "", "not connected since")
				l.setCut(false)
				time.Sleep(20 * time.Second)
				expectProbes(t, "connected again", client, "", "", "")
				process.kill()
				expectProbes(t, "stopped", client, "stopped since", "stopped since", "stopped since")
			})
		})
	}
}

// TestProbesOfSubscriptions: a client is not healthy if the broker refuses its subscription, and
// the probes return the cause.
func TestProbesOfSubscriptions(t *testing.T) {
	inScene(t, func(s *scene) {
		denied := errors.New("subscription to /sources/+ refused: not authorized")
		a := s.agentOn(&refusing{s.bus.Transport(), &cloudevents.PermanentError{Err: denied}},
			work.AgentOptions{ClusterName: "cluster1"})
		s.settle()
		expectProbes(t, "not authorized", a, denied.Error(), "", denied.Error())
		if err := a.Healthy(); !errors.Is(err, denied) {
			t.Errorf("the cause is lost in %v", err)
		}
	})
}

// refusing is a transport that fails to connect with an error.
type refusing struct {
	cloudevents.Transport
	err error
}

func (r *refusing) Connect(context.Context, cloudevents.ConnectOptions) (cloudevents.Conn, error) {
	return nil, r.err
}

// TestProbesWhileConnecting: a slow connection attempt is reported as connecting.
func TestProbesWhileConnecting(t *testing.T) {
	inScene(t, func(s *scene) {
		h := s.sourceOn(hanging{s.bus.Transport()}, work.SourceOptions{SourceID: "hub"})
		s.settle()
		expectProbes(t, "connecting", h, "connecting since", "", "connecting since")
	})
}

// hanging is a transport to a broker that does not answer.
type hanging struct{ cloudevents.Transport }

func (hanging) Connect(ctx context.Context, _ cloudevents.ConnectOptions) (cloudevents.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestReadyzWaitsForInitialSync: an agent is ready when its initial sync has ended. A client is not
// ready before the broker has acknowledged its first requests.
func TestReadyzWaitsForInitialSync(t *testing.T) {
	inScene(t, func(s *scene) {
		a := s.agent(work.AgentOptions{Sources: []string{"hub"}, InitialSyncTimeout: time.Minute})
		s.settle()
		expectProbes(t, "without the source", a, "", "", "the initial sync has not ended")
		h := s.source(work.SourceOptions{})
		s.settle()
		expectProbes(t, "the source may lack works", a, "", "", "the initial sync has not ended")
		h.complete()
		s.settle()
		expectProbes(t, "with the source", a, "", "", "")
		h.kill()
		expectProbes(t, "the source went away", a, "", "", "")
		s.bus.Stall()
		second := s.source(work.SourceOptions{SourceID: "second"})
		s.settle()
		expectProbes(t, "stalled", second, "", "", "has not acknowledged the first requests")
		s.bus.Resume()
		s.settle()
		expectProbes(t, "resumed", second, "", "", "")
	})
}
