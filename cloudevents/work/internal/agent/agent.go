// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package agent implements work.Agent.
package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
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

// Agent is the implementation of work.Agent.
type Agent struct {
	options   Options
	traits    codec.Traits
	engine    *engine.Engine
	presence  *peer.Presence
	ids       *peer.IDSequence
	clientset workclientset.Interface
	cache     *cache.Cache[*agentWork]
	journal   *journal.Journal // nil without a Store
	metrics   *peer.Metrics    // nil without a registerer
	refusals  *quietlog.Log
	requests  *peer.RequestQueue
	session   string        // of this process
	synced    chan struct{} // closed when the initial sync is over
	stopped   chan struct{} // closed when Start has returned
	asks      atomic.Int64  // number of requests to all sources

	// The agent's mutex, that of cache, guards the following fields.
	sources    map[string]*agentSource
	covered    []string                // sources from which an earlier process received all works
	waiting    map[string][]*agentWork // by name: works blocked by another source's work
	tombstones []tombstone             // oldest first
	budget     *peer.Budget
	names      peer.Account // of the records of sources
	refused    int          // number of works with refused specs
	sync       syncState
	own        ownRequests
	started    bool
	logger     klog.Logger
}

// agentSource is an agent's record of one source. Its account is charged for works, tombstones, the
// requests in ask, the events of an answer, and lists and digests until they are published, but not
// for statuses. The fixed cost of a work includes its entries in confirm, ownRequests.recent,
// Agent.waiting and Agent.tombstones, and one answer in the outbox. Agent.names is charged for the
// record of the source and its entry in syncState, requestQueue charges requests, and maxRivals
// limits presence.
type agentSource struct {
	name  string
	works map[string]*agentWork // by resource ID, tombstones included
	ask   map[string]int64      // resource IDs to request, each with the version that caused the request
	// confirm has the works with a version to confirm: the source must learn that it has arrived.
	confirm  map[*agentWork]struct{}
	dialect  peer.Dialect
	answered string // ID of the last resync that was answered with a list
	account  peer.Account
	asked    int64               // the charge for ask
	used     bool                // it had a work
	refused  map[*agentWork]bool // works with refused specs; the value is whether the spec fits now
}

// New loads the store, claims the transport and returns an agent that is not started.
func New(transport cloudevents.Transport, options Options) (*Agent, error) {
	a := &Agent{
		options: options,
		traits:  options.Profile.Traits(),
		ids:     peer.NewIDSequence(),
		cache:   cache.New[*agentWork](options.Clock, !options.PartialLists, options.Cache),
		session: uuid.NewString(),
		synced:  make(chan struct{}),
		stopped: make(chan struct{}),
		sources: map[string]*agentSource{},
		waiting: map[string][]*agentWork{},
		sync:    syncState{answers: map[string]*syncAnswer{}},
		own:     ownRequests{wake: wait.NewSignal()},
		logger:  klog.Background(),

		refusals: quietlog.New("Refused an event", "topic", options.Clock),
	}
	a.budget = &peer.Budget{
		PerPeer: options.MaxSourceBytes, Total: options.MaxBytes, Options: "AgentOptions", Peer: "MaxSourceBytes",
	}
	a.names = peer.Account{Budget: a.budget}
	a.requests = peer.NewRequestQueue(a.budget, a.take,
		func(m cloudevents.Message, err error) { a.refuse(m.Topic, err, peer.RefusalReason(err), 1) })
	a.presence = peer.NewPresence(peer.Presence{
		Lock: a.cache, Profile: options.Profile, Clock: options.Clock, IDs: a.ids,
		Header:  codec.Header{Cluster: options.ClusterName, Agent: options.AgentID},
		Self:    protocol.Process{Session: a.session},
		Changed: func() {},
	})
	if options.PartialLists {
		close(a.synced)
	}
	if err := a.openStore(); err != nil {
		return nil, fmt.Errorf("load AgentOptions.Store: %w", err)
	}
	if err := a.measure(); err != nil {
		return nil, err
	}
	e, err := engine.New(transport, engine.Options{
		Name:     options.AgentID,
		Filters:  options.Profile.AgentFilters(options.ClusterName),
		Optional: a.presence.Filters(), Denied: a.presence.Refused,
		Binary:       a.traits.Binary,
		Handler:      (*agentHandler)(a),
		Commit:       a.journal.Commit(),
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
	a.presence.Use(e)
	a.clientset = clientset.New(&agentBackend{a, clientset.Reader[*agentWork]{Store: a.cache}})
	return a, nil
}

func (a *Agent) openStore() error {
	options := &a.options
	if options.Store == nil {
		return nil
	}
	if err := a.load(context.Background()); err != nil {
		return err
	}
	a.journal = journal.New(journal.Options{
		Store: options.Store, Lock: a.cache, Meta: (*agentMeta)(a), Clock: options.Clock, DrainTimeout: options.DrainTimeout,
		Wrote: func(began time.Time, err error) { a.metrics.StoreWrote(began, err) },
	})
	a.keepMeta()
	return nil
}

// Clientset implements the method of work.Agent.
func (a *Agent) Clientset() workclientset.Interface { return a.clientset }

// Start implements the method of work.Agent.
func (a *Agent) Start(ctx context.Context) error {
	a.cache.Lock()
	if a.started {
		a.cache.Unlock()
		return cloudevents.ErrStarted
	}
	a.logger = klog.FromContext(ctx).WithValues("cluster", a.options.ClusterName)
	a.started = true
	a.presence.Started(a.options.Clock.Now(), a.logger)
	a.logUnservedLocked()
	a.cache.Unlock()
	err := peer.Run(ctx, a.engine, a.cache, a.journal, a.presence,
		a.journal.Run,
		peer.Every(a.options.Clock, a.options.ResyncInterval, a.resyncPeers),
		a.runRequests)
	if err == nil {
		a.requests.Drop()
		a.refusals.Flush(klog.FromContext(ctx).WithValues("cluster", a.options.ClusterName))
		a.metrics.Unregister()
		close(a.stopped)
	}
	return err
}

// Ready implements the method of work.Agent.
func (a *Agent) Ready() <-chan struct{} { return a.engine.Ready() }

// Healthy implements the method of work.Agent.
func (a *Agent) Healthy() error { return errors.Join(a.serving(), a.rival(false)) }

func (a *Agent) serving() error { return errors.Join(a.engine.Healthy(), a.journal.Healthy()) }

// rival returns an error while another agent of this cluster is connected. With outranked, it
// considers only a newer agent.
func (a *Agent) rival(outranked bool) error {
	a.cache.Lock()
	defer a.cache.Unlock()
	if outranked && !a.presence.OutrankedLocked() {
		return nil
	}
	const effect = "sources accept the reports of both: end one of them"
	return a.presence.DescribeLocked(effect, effect)
}

// sourceLocked returns the record of a source, and makes a new one if needed.
func (a *Agent) sourceLocked(name string) *agentSource {
	s := a.sources[name]
	if s == nil {
		a.names.Set(0, peer.SourceSize(name))
		s = &agentSource{
			name: name, works: map[string]*agentWork{}, ask: map[string]int64{}, confirm: map[*agentWork]struct{}{},
			refused: map[*agentWork]bool{}, account: peer.Account{Budget: a.budget},
		}
		a.sources[name] = s
	}
	return s
}

// sourceOf is sourceLocked for an event: it makes a new record only if there is room.
func (a *Agent) sourceOf(name string) (*agentSource, error) {
	if a.sources[name] == nil && !a.names.HasRoom(peer.SourceSize(name)) {
		return nil, peer.Unusable(peer.RefusedBudget, "record the unknown source %q: %w", name, a.names.ErrFull())
	}
	return a.sourceLocked(name), nil
}

// forgetUnused drops the records of sources that never had a work here.
func (a *Agent) forgetUnused() {
	if a.cache.Held() {
		return
	}
	for name, s := range a.sources {
		if !s.used && len(s.ask) == 0 && !slices.Contains(a.options.Sources, name) {
			a.sync.answers[name].release()
			delete(a.sync.answers, name)
			delete(a.sources, name)
			a.names.Set(peer.SourceSize(name), 0)
		}
	}
}

// serves reports whether the options name the source, or name no sources.
func (a *Agent) serves(source string) bool {
	return a.options.Sources == nil || slices.Contains(a.options.Sources, source)
}

// logUnservedLocked logs the number of stored works of each source that is no longer served.
func (a *Agent) logUnservedLocked() {
	for name, s := range a.sources {
		held := 0
		for _, w := range s.works {
			if w.State != protocol.Tombstone {
				held++
			}
		}
		if held > 0 && !a.serves(name) {
			a.logger.Info("Kept works of a source that Sources does not name, until the source deletes them",
				"source", name, "works", held)
		}
	}
}

// ends reports whether a message of a source that is no longer served can end its works, which
// still need a cleanup and keep their names: a deletion or a request for lists.
func (a *Agent) ends(m codec.Message) bool {
	a.cache.Lock()
	defer a.cache.Unlock()
	s := a.sources[m.Head().Source]
	if s == nil {
		return false
	}
	switch m := m.(type) {
	case *codec.Spec:
		return m.DeletionTimestamp != nil && s.works[m.ResourceID] != nil
	case *codec.StatusResync:
		return len(s.works) > 0
	}
	return false
}

// stateOf returns the protocol's view of a record. A nil record is an unknown work.
func stateOf(w *agentWork) protocol.AgentWork {
	if w == nil {
		return protocol.AgentWork{}
	}
	view := protocol.AgentWork{
		State:      w.State,
		Version:    protocol.Version{V: w.Version, UID: string(w.UID)},
		Seq:        w.Seq,
		Time:       w.Time,
		Refused:    w.Refused > 0,
		Finalizers: w.Relearned || w.Object != nil && len(w.Object.Finalizers) > 0,
	}
	if w.Next != nil && w.State == protocol.Deleting {
		view.NextV, view.NextTime = w.Next.Version, w.Next.Time
	}
	return view
}

// TraceParent implements the method of work.Agent.
func (a *Agent) TraceParent(name string) string {
	a.cache.Lock()
	defer a.cache.Unlock()
	if w := a.cache.Get(a.options.ClusterName, name); w != nil {
		return w.trace.spec
	}
	return ""
}
