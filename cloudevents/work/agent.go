// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/agent"
)

// Agent serves the works of one cluster. Its clientset shows the works that the sources send, and
// the agent reports the statuses that a work controller writes with that clientset.
//
// All methods may be called from any goroutine.
type Agent struct{ agent *agent.Agent }

// NewAgent validates the options, loads the Store, claims the transport and returns an agent that
// is not started. It blocks until Load returns, and returns the same errors as [NewSource].
func NewAgent(transport cloudevents.Transport, options AgentOptions) (*Agent, error) {
	if transport == nil {
		return nil, errors.New("work.NewAgent: the transport must not be nil")
	}
	if err := options.validate(); err != nil {
		return nil, fmt.Errorf("work.NewAgent: %w", err)
	}
	a, err := agent.New(transport, options.room())
	if err != nil {
		return nil, fmt.Errorf("work.NewAgent: %w", err)
	}
	return &Agent{a}, nil
}

// Clientset returns the clientset of the agent. Its works are those of the agent's cluster, in the
// namespace of that name. Callers own the objects that it returns and that its watches deliver,
// except for the bytes of manifests in objects of watches.
func (a *Agent) Clientset() workclientset.Interface { return a.agent.Clientset() }

// Start connects and serves until ctx ends. It ends like [Source.Start]. A second call returns
// [cloudevents.ErrStarted].
func (a *Agent) Start(ctx context.Context) error { return a.agent.Start(ctx) }

// Ready returns a channel that is closed when the agent was first connected and subscribed and has
// requested its works from the sources. If the broker refuses a request, the agent retries with
// backoff, at least every 10 s, and [Agent.Readyz] returns the reason.
func (a *Agent) Ready() <-chan struct{} { return a.agent.Ready() }

// Healthy returns nil while the agent is connected and its Store works. Without a connection, the
// error has the cause and the time at which the connection ended. It also returns an error while
// another agent of this cluster is connected. For probes use [Agent.Livez] and [Agent.Readyz].
func (a *Agent) Healthy() error { return a.agent.Healthy() }

// Livez is a check for a liveness probe, like [Source.Livez].
func (a *Agent) Livez(r *http.Request) error { return a.agent.Livez(r) }

// Readyz is a check for a readiness probe. It returns nil while the agent is connected and
// subscribed, has requested its works from the sources, and has ended the initial sync. Lists do
// not wait then. Otherwise the error names the missing step, or the request that the broker
// refuses. Of two agents of one cluster only the newer agent is ready. With leader election, see
// [Source.Readyz].
func (a *Agent) Readyz(r *http.Request) error { return a.agent.Readyz(r) }

// TraceContext returns the trace context of the last step of the current version of a work: its
// receipt, until the condition Applied was written. A controller that reconciles the work can continue
// that trace; see [Tracer]. The result is empty if the source sent no trace context.
func (a *Agent) TraceContext(name string) TraceContext { return a.agent.TraceContext(name) }
