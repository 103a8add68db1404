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
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/store"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/quietlog"
)

// Agent serves the works of one cluster: it shows what the sources want and reports what its clientset's user,
// a work controller, says of them.
//
// All methods may be called from any goroutine.
type Agent struct {
	options   AgentOptions
	traits    codec.Traits
	engine    *cloudevents.Engine
	ids       *idSequence
	clientset workclientset.Interface
	store     *store.Store[*agentWork]
	journal   *journal // nil without a Store
	metrics   *metrics // nil where nobody wants them
	refusals  *quietlog.Log
	requests  *requestQueue
	session   string        // of this process
	synced    chan struct{} // closed when the initial sync is over
	stopped   chan struct{} // closed when Start has returned
	wakeAsk   chan struct{} // has room for one token: there is something to ask
	asks      atomic.Int64  // how often all sources were asked

	// The store's lock guards what follows.
	sources map[string]*agentSource
	waiting map[string][]*agentWork // by name: works that another source's work is in the way of
	buried  []grave                 // oldest first
	sync    syncState
	started bool
	logger  klog.Logger
}

// agentSource is what an agent knows of one source.
type agentSource struct {
	name  string
	works map[string]*agentWork // by resource ID, graves included
	ask   map[string]int64      // resource IDs to ask for, with the versions that raised the questions
	// answered is the resync ID last answered with a list.
	answered string
}

// syncState follows the answers to the lists that were sent since the last connection.
type syncState struct {
	resyncID string                 // of the list that all sources got
	answers  map[string]*syncAnswer // by source
}

// syncAnswer is the answer of one source, to the list that it got last.
type syncAnswer struct {
	resyncID string
	received map[string]struct{} // by the IDs of its events, of which some may come twice; nil once it is complete
	expected int
	done     bool
	timed    int // the resync that it was complete in, for the metrics
}

func newSyncAnswer(resyncID string) *syncAnswer {
	return &syncAnswer{resyncID: resyncID, received: map[string]struct{}{}, expected: -1}
}

// got takes an event of the answer.
func (a *syncAnswer) got(id string) {
	if !a.done {
		a.received[id] = struct{}{}
	}
}

// complete reports whether the end marker and all events before it have come.
func (a *syncAnswer) complete() bool {
	if a == nil {
		return false
	}
	if !a.done && a.expected >= 0 && len(a.received) >= a.expected {
		a.done, a.received = true, nil
	}
	return a.done
}

// NewAgent validates the options, reads the Store, claims the transport and returns an agent that is not started. It
// returns when Load has: a Store whose Load waits, as for a database that is starting up, makes it wait, with a context
// that does not end.
//
// The errors name the option that is wrong, which MetricsRegisterer is where it has metrics of this ID, and Store where
// Load fails; a transport in use gives [cloudevents.ErrClaimed]. A call that fails leaves nothing behind, and can be
// repeated with the same options and transport.
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
		store:   store.New[*agentWork](options.Clock, hold),
		session: uuid.NewString(),
		synced:  make(chan struct{}),
		stopped: make(chan struct{}),
		wakeAsk: make(chan struct{}, 1),
		sources: map[string]*agentSource{},
		waiting: map[string][]*agentWork{},
		sync:    syncState{answers: map[string]*syncAnswer{}},
		logger:  klog.Background(),

		refusals: quietlog.New("Refused an event", options.Clock),
	}
	a.requests = newRequestQueue(&budget{perPeer: DefaultMaxClusterBytes, total: DefaultMaxBytes}, a.take,
		func(m cloudevents.Message, err error) { a.refuse(m.Topic, err, refusalReason(err), 1) })
	if !hold {
		close(a.synced)
	}
	if options.Store != nil {
		if err := a.load(context.Background()); err != nil {
			return nil, fmt.Errorf("work.NewAgent: AgentOptions.Store: %w", err)
		}
		a.journal = newJournal(options.Store, a.store, (*agentMeta)(a), options.Clock, nil, options.DrainTimeout)
		a.keepMeta()
	}
	if err := a.measure(); err != nil {
		return nil, fmt.Errorf("work.NewAgent: %w", err)
	}
	engine, err := cloudevents.NewEngine(transport, cloudevents.Options{
		Name:         options.AgentID,
		Filters:      options.Profile.AgentFilters(options.ClusterName),
		Binary:       a.traits.Binary,
		Handler:      (*agentHandler)(a),
		Commit:       a.journal.commit(),
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
	a.clientset = newClientset(a)
	return a, nil
}

// Clientset returns the clientset of the agent. Its works are those of the agent's cluster, in the namespace
// of that name. The objects that it returns and that its watches deliver are the caller's own, but for the bytes of
// manifests in those of watches.
func (a *Agent) Clientset() workclientset.Interface { return a.clientset }

// Start connects and serves until ctx ends; it then flushes the outbox for at most DrainTimeout, ends all
// watches and returns nil. A Store that does not answer has 5 s more; what it has not taken then is logged, and is as
// lost as the writes say that waited for it. A second call returns [cloudevents.ErrStarted].
func (a *Agent) Start(ctx context.Context) error {
	a.store.Lock()
	a.logger = klog.FromContext(ctx).WithValues("cluster", a.options.ClusterName)
	a.started = true
	a.logUnserved()
	a.store.Unlock()
	err := start(ctx, a.engine, a.store, a.journal,
		func(ctx context.Context) { a.journal.run(ctx, a.options.Clock) },
		every(a.options.Clock, a.options.ResyncInterval, a.resync), a.runAsks, a.limitSync)
	if err == nil {
		a.requests.drop()
		a.refusals.Flush(klog.FromContext(ctx).WithValues("cluster", a.options.ClusterName))
		a.metrics.unregister()
		close(a.stopped)
	}
	return err
}

// Ready is closed when the agent was first connected and subscribed and has asked the sources for its works. What the
// broker refuses is not asked: the agent asks again, every 10 s at last, and [Agent.Readyz] says so.
func (a *Agent) Ready() <-chan struct{} { return a.engine.Ready() }

// Healthy returns nil while the agent is connected and its Store, if it has one, takes what is written; else an
// error that says since when not and why. For probes there are [Agent.Livez] and [Agent.Readyz].
func (a *Agent) Healthy() error { return errors.Join(a.engine.Healthy(), a.journal.healthy()) }

// source returns what is known of a source. The store's lock is held.
func (a *Agent) source(name string) *agentSource {
	s := a.sources[name]
	if s == nil {
		s = &agentSource{name: name, works: map[string]*agentWork{}, ask: map[string]int64{}}
		a.sources[name] = s
	}
	return s
}

// serves reports whether the options name the source, or none.
func (a *Agent) serves(source string) bool {
	return a.options.Sources == nil || slices.Contains(a.options.Sources, source)
}

// logUnserved tells of works that the Store has of sources which are not served any more. The store's lock is held.
func (a *Agent) logUnserved() {
	for name, s := range a.sources {
		held := 0
		for _, w := range s.works {
			if w.state != protocol.Grave {
				held++
			}
		}
		if held > 0 && !a.serves(name) {
			a.logger.Info("Works of a source that Sources does not name stay until it deletes them", "source", name, "works", held)
		}
	}
}

// ends reports whether a source's message can end works that came when it was served, as a deletion or a request for
// lists: somebody has to clean up after them, and they keep their names from others.
func (a *Agent) ends(m codec.Message) bool {
	a.store.Lock()
	defer a.store.Unlock()
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

// askDelay is how long requests for unknown works gather.
const askDelay = 100 * time.Millisecond

// runAsks sends gathered requests until ctx ends.
func (a *Agent) runAsks(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.wakeAsk:
		}
		timer := a.options.Clock.NewTimer(askDelay)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
			a.sendAsks()
		}
	}
}

// endSync lets lists and watches go on without waiting. The store's lock is held.
func (a *Agent) endSync() {
	if a.store.Held() {
		a.store.Release()
		close(a.synced)
		a.keepMeta()
	}
}

// answerFrom returns what is known of a source's answer with this resync ID, nil where none is awaited.
func (a *Agent) answerFrom(source, resyncID string) *syncAnswer {
	answer := a.sync.answers[source]
	if answer == nil {
		answer = newSyncAnswer(a.sync.resyncID)
		a.sync.answers[source] = answer
	}
	if resyncID == "" || answer.resyncID != resyncID {
		return nil
	}
	return answer
}

// checkSync ends the initial sync when every source that the options name has answered in full. It is called when more
// of an answer has come.
func (a *Agent) checkSync(answer *syncAnswer) {
	if answer.complete() {
		a.metrics.answered(&answer.timed)
	}
	if !a.store.Held() || len(a.options.Sources) == 0 {
		return
	}
	for _, name := range a.options.Sources {
		if !a.sync.answers[name].complete() {
			return
		}
	}
	a.endSync()
}

// limitSync ends the initial sync after its timeout, which runs from the first connection on.
func (a *Agent) limitSync(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-a.synced:
		return
	case <-a.engine.Ready():
	}
	timer := a.options.Clock.NewTimer(a.options.InitialSyncTimeout)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-a.synced:
	case <-timer.C():
		a.store.Lock()
		defer a.store.Unlock()
		a.endSync()
	}
}

// stateOf is the protocol's view of a record; nil is an unknown work.
func stateOf(w *agentWork) protocol.AgentWork {
	if w == nil {
		return protocol.AgentWork{}
	}
	view := protocol.AgentWork{
		State:   w.state,
		Version: protocol.Version{V: w.version, UID: string(w.uid)},
		Seq:     w.seq,
		Time:    w.time,
	}
	if w.next != nil && w.state == protocol.Deleting {
		view.NextV, view.NextTime = w.next.Version, w.next.Time
	}
	view.Finalizers = w.relearned || w.Object != nil && len(w.Object.Finalizers) > 0
	return view
}
