// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package agent implements work.Agent. Each part of an [Agent] uses only the parts before it:
//
//   - shared: options, cache, engine, metrics, and schedule: when requests are due
//   - records: the sources and works, their room, names, tombstones and Store
//   - answers: the answers of the sources, and the end of the initial sync
//   - requests: the requests, confirmations and digests to send
//   - resync: the lists to sources, and the answers to theirs
//   - intake: the events of sources
//   - backend: the clientset
package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
	"k8s.io/klog/v2"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/internal/engine"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/cache"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/clientset"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/journal"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/quietlog"
	"github.com/spokewire/sdk-go/internal/wait"
)

// Options configures an [Agent]. Package work documents and checks them.
type Options struct {
	peer.Options
	ClusterName, AgentID string
	Sources              []string
	// PartialLists is whether lists and watches do not wait for the initial sync.
	PartialLists bool
	// QuietTime is how long a source that marks no end of its answers must send no event before it
	// counts as complete.
	QuietTime                time.Duration
	PartialSyncTimeout       time.Duration // 0 is never
	MaxSourceBytes, MaxBytes int64
}

// Agent is the implementation of work.Agent.
type Agent struct {
	shared
	schedule  schedule
	records   records
	answers   answers
	requests  requests
	resync    resync
	intake    intake
	clientset workclientset.Interface
	stopped   chan struct{} // closed when Start has returned
}

// New loads the store, claims the transport and returns an agent that is not started.
func New(transport cloudevents.Transport, options Options) (*Agent, error) {
	a := &Agent{
		shared: shared{
			options:  options,
			traits:   options.Profile.Traits(),
			session:  uuid.NewString(),
			ids:      peer.NewIDSequence(),
			cache:    cache.New[*agentWork](options.Clock, !options.PartialLists, options.Cache),
			refusals: quietlog.New("Refused an event", "topic", options.Clock),
			logger:   klog.Background(),
		},
		stopped: make(chan struct{}),
	}
	a.connect()
	if err := a.openStore(); err != nil {
		return nil, fmt.Errorf("load AgentOptions.Store: %w", err)
	}
	if err := a.measure(); err != nil {
		return nil, err
	}
	e, err := engine.New(transport, engine.Options{
		Name:     options.AgentID,
		Filters:  options.Profile.AgentFilters(options.ClusterName),
		Optional: a.intake.presence.Filters(), Denied: a.intake.presence.Refused,
		Binary:       a.traits.Binary,
		Handler:      &a.intake,
		Commit:       a.records.journal.Commit(),
		QPS:          options.QPS,
		Burst:        options.Burst,
		DrainTimeout: options.DrainTimeout,
		Clock:        options.Clock,

		Kind: peer.KindAgent, MetricsRegisterer: options.MetricsRegisterer,
	})
	if err != nil {
		a.metrics.Unregister()
		return nil, err
	}
	a.engine = e
	a.intake.presence.Use(e)
	a.clientset = clientset.New(&backend{
		shared: &a.shared, records: &a.records, answers: &a.answers, stopped: a.stopped,
		Reader: clientset.Reader[*agentWork]{Store: a.cache},
	})
	return a, nil
}

// connect makes the parts of the agent.
func (a *Agent) connect() {
	s, options := &a.shared, &a.options
	a.schedule = schedule{shared: s, wake: wait.NewSignal()}
	budget := &peer.Budget{
		PerPeer: options.MaxSourceBytes, Total: options.MaxBytes, Options: "AgentOptions", Peer: "MaxSourceBytes",
	}
	a.records = records{
		shared: s, schedule: &a.schedule, budget: budget, names: peer.Account{Budget: budget},
		synced: make(chan struct{}), sources: map[string]*agentSource{}, waiting: map[string][]*agentWork{},
		spans: map[*agentWork]func(error){},
	}
	if options.PartialLists {
		close(a.records.synced)
	}
	a.answers = answers{shared: s, schedule: &a.schedule, records: &a.records, bySource: map[string]*answer{}}
	a.requests = requests{shared: s, schedule: &a.schedule, records: &a.records, answers: &a.answers}
	a.resync = resync{shared: s, records: &a.records, answers: &a.answers, requests: &a.requests}
	in := &a.intake
	*in = intake{shared: s, records: &a.records, answers: &a.answers, requests: &a.requests, resync: &a.resync}
	in.queue = peer.NewRequestQueue(budget, in.take, func(m cloudevents.Message, err error) { a.refuse(m.Topic, err) })
	in.presence = peer.NewPresence(peer.Presence{
		Lock: a.cache, Profile: options.Profile, Clock: options.Clock, IDs: a.ids,
		Header:  codec.Header{Cluster: options.ClusterName, Agent: options.AgentID},
		Self:    protocol.Process{Session: a.session},
		Changed: func() {},
	})
}

func (a *Agent) openStore() error {
	options := &a.options
	if options.Store == nil {
		return nil
	}
	if err := a.records.load(context.Background()); err != nil {
		return err
	}
	a.records.journal = journal.New(journal.Options{
		Store: options.Store, Lock: a.cache, Meta: (*agentMeta)(&a.records), Clock: options.Clock,
		DrainTimeout: options.DrainTimeout,
		Wrote:        func(began time.Time, err error) { a.metrics.StoreWrote(began, err) },
	})
	a.records.keepMetaLocked()
	return nil
}

// Clientset implements the method of work.Agent.
func (a *Agent) Clientset() workclientset.Interface { return a.clientset }

// Start implements the method of work.Agent.
func (a *Agent) Start(ctx context.Context) error {
	logger := klog.FromContext(ctx).WithValues("cluster", a.options.ClusterName)
	a.cache.Lock()
	if a.started {
		a.cache.Unlock()
		return cloudevents.ErrStarted
	}
	a.started, a.logger = true, logger
	a.intake.presence.Started(a.options.Clock.Now(), logger)
	a.records.logUnservedLocked()
	a.cache.Unlock()
	journal := a.records.journal
	err := peer.Run(ctx, a.engine, a.cache, journal, a.intake.presence,
		journal.Run,
		peer.Every(a.options.Clock, a.options.ResyncInterval, a.resync.atInterval),
		a.requests.run)
	if err == nil {
		a.intake.queue.Drop()
		a.refusals.Flush(logger)
		a.metrics.Unregister()
		close(a.stopped)
	}
	return err
}

// Ready implements the method of work.Agent.
func (a *Agent) Ready() <-chan struct{} { return a.engine.Ready() }

// Healthy implements the method of work.Agent.
func (a *Agent) Healthy() error { return errors.Join(a.serving(), a.rival(false)) }

func (a *Agent) serving() error { return errors.Join(a.engine.Healthy(), a.records.journal.Healthy()) }

// rival returns an error while another agent of this cluster is connected. With outranked, it
// considers only a newer agent.
func (a *Agent) rival(outranked bool) error {
	a.cache.Lock()
	defer a.cache.Unlock()
	if outranked && !a.intake.presence.OutrankedLocked() {
		return nil
	}
	const effect = "sources accept the reports of both: end one of them"
	return a.intake.presence.DescribeLocked(effect, effect)
}

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
	case <-a.records.synced:
		return nil
	default:
		return errors.New(a.answers.problem())
	}
}

// TraceContext implements the method of work.Agent.
func (a *Agent) TraceContext(name string) peer.TraceContext {
	a.cache.Lock()
	defer a.cache.Unlock()
	if w := a.cache.Get(a.options.ClusterName, name); w != nil {
		return w.Trace.Context()
	}
	return peer.TraceContext{}
}
