// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work

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
	"github.com/spokewire/sdk-go/cloudevents/work/internal/cache"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/clientset"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/journal"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/quietlog"
	"github.com/spokewire/sdk-go/internal/wait"
)

// Agent serves the works of one cluster. Its clientset shows the works that the sources send, and
// the agent reports the statuses that a work controller writes with that clientset.
//
// All methods may be called from any goroutine.
type Agent struct {
	options   AgentOptions
	traits    codec.Traits
	engine    *cloudevents.Engine
	presence  *presence
	ids       *idSequence
	clientset workclientset.Interface
	cache     *cache.Cache[*agentWork]
	journal   *journal.Journal // nil without a Store
	metrics   *metrics         // nil without a registerer
	refusals  *quietlog.Log
	requests  *requestQueue
	session   string        // of this process
	synced    chan struct{} // closed when the initial sync is over
	stopped   chan struct{} // closed when Start has returned
	asks      atomic.Int64  // number of requests to all sources

	// The agent's mutex, that of cache, guards the following fields.
	sources    map[string]*agentSource
	covered    []string                // sources from which an earlier process received all works
	waiting    map[string][]*agentWork // by name: works blocked by another source's work
	tombstones []tombstone             // oldest first
	budget     *budget
	names      account // of the records of sources
	refused    int     // number of works with refused specs
	sync       syncState
	own        ownRequests
	started    bool
	logger     klog.Logger
}

// agentSource is an agent's record of one source. Its account is charged for works, tombstones, the
// requests in ask, the events of an answer, and lists and digests until they are published. The
// fixed cost of a work includes its entries in confirm, ownRequests.recent, Agent.waiting and
// Agent.tombstones. It also includes the answer of the work in the outbox, at most one. Statuses
// are not charged. Agent.names is charged for the record of the source and its entry in syncState.
// requestQueue charges requests, and maxRivals limits presence.
type agentSource struct {
	name  string
	works map[string]*agentWork // by resource ID, tombstones included
	ask   map[string]int64      // resource IDs to request, each with the version that caused the request
	// confirm has the works with a version to confirm: the source must learn that it has arrived.
	confirm map[*agentWork]struct{}
	// modern is whether the source has used our extensions, strict is whether it has omitted them.
	// Both are false before the first event.
	modern, strict bool
	// answered is the ID of the last resync that was answered with a list.
	answered string
	account  account
	asked    int64 // the charge for ask
	used     bool  // it had a work
	// refused has the works with refused specs. The value is whether there is room for the spec
	// now.
	refused map[*agentWork]bool
}

// NewAgent validates the options, loads the Store, claims the transport and returns an agent that
// is not started. It returns only after the Load of the Store: a Load that waits, for example for a
// database that is starting up, delays it. The context of Load does not end.
//
// NewAgent returns the same errors as [NewSource].
func NewAgent(transport cloudevents.Transport, options AgentOptions) (*Agent, error) {
	if transport == nil {
		return nil, errors.New("work.NewAgent: a transport is required")
	}
	if err := options.validate(); err != nil {
		return nil, fmt.Errorf("work.NewAgent: %w", err)
	}
	options = options.withDefaults()
	hold := options.InitialSyncTimeout > 0
	a := &Agent{
		options: options,
		traits:  options.Profile.Traits(),
		ids:     newIDSequence(),
		cache: cache.New[*agentWork](options.Clock, hold, cache.Limits{
			Bytes: options.WatchCacheBytes, Age: options.WatchCacheTTL,
		}),
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
	a.budget = &budget{
		perPeer: options.MaxSourceBytes, total: options.MaxBytes, options: "AgentOptions", peer: "MaxSourceBytes",
	}
	a.names = account{budget: a.budget}
	a.requests = newRequestQueue(a.budget, a.take,
		func(m cloudevents.Message, err error) { a.refuse(m.Topic, err, refusalReason(err), 1) })
	a.presence = newPresence(presence{
		lock: a.cache, profile: options.Profile, clock: options.Clock, ids: a.ids,
		header:  codec.Header{Cluster: options.ClusterName, Agent: options.AgentID},
		self:    protocol.Process{Session: a.session},
		changed: func() {},
	})
	if !hold {
		close(a.synced)
	}
	if options.Store != nil {
		if err := a.load(context.Background()); err != nil {
			return nil, fmt.Errorf("work.NewAgent: AgentOptions.Store: %w", err)
		}
		a.journal = journal.New(journal.Options{
			Store: options.Store, Lock: a.cache, Meta: (*agentMeta)(a), Clock: options.Clock, DrainTimeout: options.DrainTimeout,
			Wrote: func(began time.Time, err error) { a.metrics.wrote(began, err) },
		})
		a.keepMeta()
	}
	if err := a.measure(); err != nil {
		return nil, fmt.Errorf("work.NewAgent: %w", err)
	}
	engine, err := cloudevents.NewEngine(transport, cloudevents.Options{
		Name:     options.AgentID,
		Filters:  options.Profile.AgentFilters(options.ClusterName),
		Optional: a.presence.filters(), Denied: a.presence.refused,
		Binary:       a.traits.Binary,
		Handler:      (*agentHandler)(a),
		Commit:       a.journal.Commit(),
		QPS:          options.QPS,
		Burst:        options.Burst,
		DrainTimeout: options.DrainTimeout,
		Clock:        options.Clock,

		Kind: kindAgent, MetricsRegisterer: options.MetricsRegisterer,
	})
	if err != nil {
		a.metrics.unregister()
		return nil, fmt.Errorf("work.NewAgent: %w", err)
	}
	a.engine = engine
	a.presence.use(engine)
	a.clientset = clientset.New(&agentBackend{a, clientset.Reader[*agentWork]{Store: a.cache}})
	return a, nil
}

// Clientset returns the clientset of the agent. Its works are those of the agent's cluster, in the
// namespace of that name. Callers own the objects that it returns and that its watches deliver,
// except for the bytes of manifests in objects of watches.
func (a *Agent) Clientset() workclientset.Interface { return a.clientset }

// Start connects and serves until ctx ends. It ends like [Source.Start]. A second call returns
// [cloudevents.ErrStarted].
func (a *Agent) Start(ctx context.Context) error {
	a.cache.Lock()
	if a.started {
		a.cache.Unlock()
		return cloudevents.ErrStarted
	}
	a.logger = klog.FromContext(ctx).WithValues("cluster", a.options.ClusterName)
	a.started = true
	a.presence.started(a.options.Clock.Now(), a.logger)
	a.logUnservedLocked()
	a.cache.Unlock()
	err := start(ctx, a.engine, a.cache, a.journal, a.presence,
		a.journal.Run,
		every(a.options.Clock, resyncInterval(a.options.ResyncInterval), a.resyncPeers),
		a.runRequests)
	if err == nil {
		a.requests.drop()
		a.refusals.Flush(klog.FromContext(ctx).WithValues("cluster", a.options.ClusterName))
		a.metrics.unregister()
		close(a.stopped)
	}
	return err
}

// Ready returns a channel that is closed when the agent was first connected and subscribed and has
// requested its works from the sources. If the broker refuses a request, the agent retries with
// backoff, at least every 10 s, and [Agent.Readyz] returns the reason.
func (a *Agent) Ready() <-chan struct{} { return a.engine.Ready() }

// Healthy returns nil while the agent is connected and its Store works. Without a connection, the error has the
// cause and the time at which the connection ended. It also returns an error while another agent of this
// cluster is connected. For probes use [Agent.Livez] and [Agent.Readyz].
func (a *Agent) Healthy() error { return errors.Join(a.serving(), a.rival(false)) }

func (a *Agent) serving() error { return errors.Join(a.engine.Healthy(), a.journal.Healthy()) }

// rival returns an error while another agent of this cluster is connected. With outranked, it
// considers only a newer agent.
func (a *Agent) rival(outranked bool) error {
	a.cache.Lock()
	defer a.cache.Unlock()
	if outranked && !a.presence.outrankedLocked() {
		return nil
	}
	const effect = "sources accept the reports of both: end one of them"
	return a.presence.describeLocked(effect, effect)
}

// sourceLocked returns the record of a source, and makes a new one if needed.
func (a *Agent) sourceLocked(name string) *agentSource {
	s := a.sources[name]
	if s == nil {
		a.names.set(0, sourceSize(name))
		s = &agentSource{name: name, works: map[string]*agentWork{}, ask: map[string]int64{}, account: account{budget: a.budget}}
		a.sources[name] = s
	}
	return s
}

// sourceOf is sourceLocked for an event: it makes a new record only if there is room.
func (a *Agent) sourceOf(name string) (*agentSource, error) {
	if a.sources[name] == nil && !a.names.room(sourceSize(name)) {
		return nil, unusable(refusedBudget, "source %q is unknown: %w", name, a.names.errFull())
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
			a.names.set(sourceSize(name), 0)
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
			if w.state != protocol.Tombstone {
				held++
			}
		}
		if held > 0 && !a.serves(name) {
			a.logger.Info("Works of a source that Sources does not name stay until it deletes them", "source", name, "works", held)
		}
	}
}

// ends reports whether a message of a source that is no longer served can end its works: a deletion
// or a request for lists. These works still need a cleanup, and they keep their names from other
// works.
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
		State:   w.state,
		Version: protocol.Version{V: w.version, UID: string(w.uid)},
		Seq:     w.seq,
		Time:    w.time,
		Refused: w.refused > 0,
	}
	if w.next != nil && w.state == protocol.Deleting {
		view.NextV, view.NextTime = w.next.Version, w.next.Time
	}
	view.Finalizers = w.relearned || w.Object != nil && len(w.Object.Finalizers) > 0
	return view
}

// TraceParent returns the W3C traceparent of the write at the source that a work shows; see
// [SourceOptions].TraceParent. A controller that reconciles the work can continue that trace. The
// result is empty without a traceparent. Traceparents are not kept over a restart.
func (a *Agent) TraceParent(name string) string {
	a.cache.Lock()
	defer a.cache.Unlock()
	if w := a.cache.Get(a.options.ClusterName, name); w != nil {
		return w.trace.spec
	}
	return ""
}
