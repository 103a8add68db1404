// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package source implements work.Source.
package source

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/klog/v2"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/internal/engine"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/cache"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/clientset"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/journal"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/quietlog"
)

// Options configures a [Source]. Package work documents and checks them.
type Options struct {
	peer.Options
	SourceID                  string
	SharedGroup               string
	MaxClusterBytes, MaxBytes int64
	MaxStatusBytes            int
}

// Source is the implementation of work.Source. It accepts writes and owns the parts of the source.
// Each part uses those after it in this list, never those before it:
//
//   - replica acquires leadership among replicas, and mirrors their Store;
//   - rivals reacts to other processes with the same ID;
//   - exchange begins resyncs and receives events;
//   - records has the works and clusters, and loads and saves them;
//   - link makes and queues events.
//
// Each [sourceCluster] has parts too. One mutex guards all parts: the source's mutex, that of its
// cache. It is locked before the mutexes of the engine, the budget and the logs, which call nothing
// of the source while they are locked.
type Source struct {
	*records
	exchange  exchange
	rivals    rivals
	replica   *replica // nil without a SharedGroup
	requests  *peer.RequestQueue
	clientset workclientset.Interface
}

// New loads the store, claims the transport and returns a source that is not started.
func New(transport cloudevents.Transport, options Options) (*Source, error) {
	c := cache.New[*sourceWork](options.Clock, false, options.Cache)
	budget := &peer.Budget{
		PerPeer: options.MaxClusterBytes, Total: options.MaxBytes, Options: "SourceOptions", Peer: "MaxClusterBytes",
	}
	r := &records{
		shared: newShared(),
		link: &link{
			options: options, traits: options.Profile.Traits(), ids: peer.NewIDSequence(),
			refusals: quietlog.New("Refused an event", "topic", options.Clock),
			budget:   budget,
			mu:       &c.RWMutex,
			logger:   klog.Background(),
		},
		cache:        c,
		unknownWorks: quietlog.NewInfo("Requested the deletion of an unknown work", "cluster", options.Clock),
		works:        map[workID]*sourceWork{},
		spans:        map[*sourceWork]func(error){},
		clusters:     map[string]*sourceCluster{},
		unknown:      peer.Account{Budget: budget, Allowed: options.MaxBytes / 4}, // some 30,000 clusters
		leads:        true,
	}
	s := &Source{records: r, exchange: exchange{records: r}}
	s.rivals = rivals{records: r, exchange: &s.exchange}
	s.replica = newReplica(r, &s.exchange)
	s.requests = peer.NewRequestQueue(budget, s.take, s.dropped)
	s.rivals.detect()
	if err := s.load(); err != nil {
		return nil, err
	}
	if err := s.measure(); err != nil {
		return nil, err
	}
	e, err := engine.New(transport, engine.Options{
		Name:     options.SourceID,
		Filters:  codec.SharedFilters(options.SharedGroup, options.Profile.SourceFilters(options.SourceID)),
		Optional: s.presence.Filters(), Denied: s.presence.Refused,
		Binary:       s.traits.Binary,
		Handler:      s,
		Commit:       s.replica.beforeAck(s.journal.Commit()),
		QPS:          options.QPS,
		Burst:        options.Burst,
		DrainTimeout: options.DrainTimeout,
		Clock:        options.Clock,

		Kind: peer.KindSource, MetricsRegisterer: options.MetricsRegisterer,
	})
	if err != nil {
		s.metrics.Unregister()
		return nil, err
	}
	s.engine = e
	s.presence.Use(e)
	s.clientset = clientset.New(&sourceBackend{s, clientset.Reader[*sourceWork]{Store: s.cache}})
	return s, nil
}

// load loads the Store, and begins the journal.
func (s *Source) load() error {
	if s.options.Store == nil {
		return nil
	}
	from := journal.Loader(s.options.Store)
	if s.replica != nil {
		from = s.replica
	}
	if err := s.records.load(context.Background(), from); err != nil {
		return fmt.Errorf("load SourceOptions.Store: %w", err)
	}
	s.journal = journal.New(s.journalOptions())
	for _, c := range s.clusters {
		c.reported.sweepLocked(s.now())
	}
	s.keepMetaLocked()
	return nil
}

// journalOptions returns the options of the journal. The store rejects the batches of a replica
// after another replica has become the leader.
func (s *Source) journalOptions() journal.Options {
	options := journal.Options{
		Store: s.options.Store, Lock: s.mu, Meta: (*sourceMeta)(s.records), Clock: s.options.Clock,
		DrainTimeout: s.options.DrainTimeout, Wrote: func(began time.Time, err error) { s.metrics.StoreWrote(began, err) },
	}
	if s.replica != nil {
		options.Leader, options.Replaced = s.replica.leaderLocked, s.replica.stopLeadingLocked
	}
	return options
}

// Clientset implements the method of work.Source.
func (s *Source) Clientset() workclientset.Interface { return s.clientset }

// NeedLeaderElection implements the method of work.Source.
func (s *Source) NeedLeaderElection() bool { return s.replica == nil }

// Start implements the method of work.Source.
func (s *Source) Start(ctx context.Context) error {
	s.mu.Lock()
	if s.started {
		s.mu.Unlock()
		return cloudevents.ErrStarted
	}
	s.started = true
	s.logger = klog.FromContext(ctx).WithValues("source", s.options.SourceID)
	s.presence.Started(s.now(), s.logger)
	s.mu.Unlock()
	err := peer.Run(ctx, s.engine, s.cache, s.journal, s.presence,
		s.journal.Run,
		s.replica.follow,
		peer.Every(s.options.Clock, s.options.ResyncInterval, s.exchange.comparePeers),
		s.exchange.run)
	if err == nil {
		s.requests.Drop()
		s.refusals.Flush(s.logger)
		s.unknownWorks.Flush(s.logger)
		s.metrics.Unregister()
	}
	return err
}

// Ready implements the method of work.Source.
func (s *Source) Ready() <-chan struct{} { return s.engine.Ready() }

// Healthy implements the method of work.Source.
func (s *Source) Healthy() error {
	return errors.Join(s.serving(), s.rivals.check(false), s.inventoryProblems())
}

// serving returns an error if the source is not connected, its Store fails, or it cannot follow a
// shared Store.
func (s *Source) serving() error {
	return errors.Join(s.engine.Healthy(), s.journal.Healthy(), s.replica.following())
}

// Connected begins a resync with all agents. A replica that is not the leader makes the leader
// resync.
func (s *Source) Connected(context.Context) {
	s.presence.Connected()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writingLocked() {
		s.exchange.beginLocked()
	}
	s.replica.tellOfGapLocked()
}

// Disconnected drops incomplete lists and answers: the next connection begins a new resync.
func (s *Source) Disconnected() {
	s.requests.Drop()
	s.presence.Disconnected()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.round++
	for _, c := range s.clusters {
		c.resetLocked()
	}
}

// Received queues a list, and handles any other message at once.
func (s *Source) Received(m cloudevents.Message) {
	if codec.IsResync(m.Event) {
		s.requests.Add(m)
	} else {
		s.take(m)
	}
}

// dropped refuses a request that does not fit the budget. Its agent must then send another list.
func (s *Source) dropped(m cloudevents.Message, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuseLocked(m.Topic, err, peer.RefusalReason(err), 1)
	name, _ := m.Event.Extensions()["clustername"].(string)
	if c := s.clusters[name]; c != nil {
		c.droppedLocked()
	}
}

func (s *Source) take(m cloudevents.Message) {
	if s.replica.handOver(m) {
		return
	}
	msg, err := s.options.Profile.Decode(m.Topic, m.Event)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.metrics.CountEvent(m.Event)
		err = s.exchange.receiveLocked(msg)
	}
	if err != nil {
		s.refuseLocked(m.Topic, err, peer.RefusalReason(err), 1)
	}
}

// Refused reports a message that is not a CloudEvent.
func (s *Source) Refused(topic string, err error) {
	reason, n := peer.RefusedMessages(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuseLocked(topic, err, reason, n)
}

// InventoryComplete implements the method of work.Source.
func (s *Source) InventoryComplete(ctx context.Context) error {
	err := s.write(ctx, func() error {
		s.declareLocked()
		s.keepMetaLocked()
		return nil
	})
	if err == nil {
		s.exchange.askLists()
	}
	return err
}

// InventoryDeclared reports whether InventoryComplete was called.
func (s *Source) InventoryDeclared() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.complete
}

// write acquires leadership, calls change with the source's mutex, and waits until the changes are
// durable.
func (s *Source) write(ctx context.Context, change func() error) error {
	if err := s.replica.lead(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	term, err := s.term, s.writableLocked(false)
	if err == nil {
		err = change()
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.stored(ctx, term)
}

// Lead implements the method of work.Source.
func (s *Source) Lead(ctx context.Context) error { return s.replica.confirmLead(ctx) }

// TraceContext implements the method of work.Source.
func (s *Source) TraceContext(cluster, name string) peer.TraceContext {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.cache.Get(cluster, name); w != nil {
		return w.statusTrace.Context()
	}
	return peer.TraceContext{}
}

// Livez implements the method of work.Source.
func (s *Source) Livez(*http.Request) error {
	s.mu.Lock()
	closed := s.cache.Closed()
	s.mu.Unlock()
	return peer.Live(closed, s.Healthy())
}

// Readyz implements the method of work.Source.
func (s *Source) Readyz(*http.Request) error {
	return peer.CheckReady(errors.Join(s.serving(), s.rivals.check(true), s.engine.Refused()), s.Ready())
}
