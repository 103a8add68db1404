// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package source implements work.Source.
package source

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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
)

// Source is the implementation of work.Source.
type Source struct {
	options      Options
	traits       codec.Traits
	engine       *engine.Engine
	ids          *peer.IDSequence
	clientset    workclientset.Interface
	cache        *cache.Cache[*sourceWork]
	journal      *journal.Journal // nil without a Store
	replica      *replica         // nil without a SharedGroup
	presence     *peer.Presence   // nil with a SharedGroup
	metrics      *peer.Metrics    // nil without a registerer
	refusals     *quietlog.Log
	unknownWorks *quietlog.Log // works that agents have and this source does not
	requests     *peer.RequestQueue
	budget       *peer.Budget
	asks         atomic.Int64 // counts the requests to all agents
	alarms       alarms       // guarded by the source's mutex

	// The source's mutex, which is that of its cache, guards the following fields.
	works      map[workID]*sourceWork // tombstones included
	clusters   map[string]*sourceCluster
	complete   bool // the inventory is complete: unknown works may be deleted
	restored   bool // the Store was used by an earlier process
	inherited  bool // the inventory was complete in the Store when it was loaded
	outranked  bool // a newer process with this ID is connected
	replaced   bool // outranked was true at some time since the inventory was declared complete
	withheld   bool // unknown works were kept, because a rival may have created them
	asked      bool // ManifestBundle: all statuses were requested since the inventory was declared complete
	forgotten  forgottenClusters
	tombstones list.List    // oldest first
	unknown    peer.Account // charged for the records of clusters
	round      uint64       // counts disconnects and losses of leadership: answers of earlier rounds are dropped
	started    bool
	logger     klog.Logger
}

// workID identifies a work at a source. A resource ID alone would let a cluster name works of
// others.
type workID struct{ cluster, id string }

// sourceCluster is a source's record of one cluster.
type sourceCluster struct {
	source *Source
	name   string
	// highest is the highest V that the source has assigned or the cluster has reported.
	highest int64
	// session identifies the agent process that sent the last message.
	session string
	dialect peer.Dialect // of its agent
	// outdated is whether the agent has reported a version of gap, which proves that the Store is
	// an older copy. gap is nil after the agent has listed all its works.
	outdated   bool
	gap        *protocol.Gap
	tombstones map[string]*sourceWork // by resource ID
	lists      map[string]*agentList  // incomplete chunked lists, by resync ID
	answers    answers                // in progress
	delivery   delivery
	hashes     *hashList          // of all works, for an agent without our extensions
	answered   int                // the last resync that it has answered, for the metrics
	reported   reports            // of works without a record, in the profile ManifestBundle
	suspects   map[string]suspect // by resource ID
	unknownAsk *unknownAsk        // queued in the outbox, for an agent without our extensions
	account    peer.Account       // charged for the events of its agent
	compares   *rate.Limiter      // limits comparisons of all works; see mayCompare
	dropped    bool               // a list of its agent was dropped and must be requested again
}

// New loads the store, claims the transport and returns a source that is not started.
func New(transport cloudevents.Transport, options Options) (*Source, error) {
	s := &Source{
		options:  options,
		traits:   options.Profile.Traits(),
		ids:      peer.NewIDSequence(),
		cache:    cache.New[*sourceWork](options.Clock, false, options.Cache),
		works:    map[workID]*sourceWork{},
		clusters: map[string]*sourceCluster{},
		logger:   klog.Background(),
		refusals: quietlog.New("Refused an event", "topic", options.Clock),

		unknownWorks: quietlog.New("Requested the deletion of an unknown work", "cluster", options.Clock),
	}
	s.budget = &peer.Budget{
		PerPeer: options.MaxClusterBytes, Total: options.MaxBytes, Options: "SourceOptions", Peer: "MaxClusterBytes",
	}
	s.unknown = peer.Account{Budget: s.budget, Allowed: options.MaxBytes / 4} // some 30,000 clusters
	s.requests = peer.NewRequestQueue(s.budget, s.take, s.dropped)
	s.detectRivals()
	if options.Store != nil {
		if err := s.load(context.Background()); err != nil {
			return nil, fmt.Errorf("load SourceOptions.Store: %w", err)
		}
		s.journal = journal.New(s.journalOptions())
		for _, c := range s.clusters {
			c.reported.sweep(options.Clock.Now())
		}
		s.keepMeta()
	}
	if err := s.measure(); err != nil {
		return nil, err
	}
	e, err := engine.New(transport, engine.Options{
		Name:     options.SourceID,
		Filters:  codec.SharedFilters(options.SharedGroup, options.Profile.SourceFilters(options.SourceID)),
		Optional: s.presence.Filters(), Denied: s.presence.Refused,
		Binary:       s.traits.Binary,
		Handler:      (*sourceHandler)(s),
		Commit:       s.beforeAck(),
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

// Clientset implements the method of work.Source.
func (s *Source) Clientset() workclientset.Interface { return s.clientset }

// Start implements the method of work.Source.
func (s *Source) Start(ctx context.Context) error {
	s.cache.Lock()
	if s.started {
		s.cache.Unlock()
		return cloudevents.ErrStarted
	}
	s.started = true
	s.logger = klog.FromContext(ctx).WithValues("source", s.options.SourceID)
	s.presence.Started(s.options.Clock.Now(), s.logger)
	s.cache.Unlock()
	err := peer.Run(ctx, s.engine, s.cache, s.journal, s.presence,
		s.journal.Run,
		s.follow,
		peer.Every(s.options.Clock, s.options.ResyncInterval, s.resyncPeers),
		s.runAlarms)
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
	return errors.Join(s.serving(), s.rival(false), s.inventoryProblems())
}

// serving returns an error if the source is not connected, its Store fails, or it cannot follow a
// shared Store.
func (s *Source) serving() error {
	return errors.Join(s.engine.Healthy(), s.journal.Healthy(), s.following())
}

// InventoryComplete implements the method of work.Source.
func (s *Source) InventoryComplete(ctx context.Context) error {
	if err := s.lead(ctx); err != nil {
		return err
	}
	term, err := s.inventoryComplete()
	if err != nil {
		return err
	}
	if err := s.stored(ctx, term); err != nil {
		return err
	}
	s.askLists()
	return nil
}

func (s *Source) inventoryComplete() (term uint64, err error) {
	s.cache.Lock()
	defer s.cache.Unlock()
	if err := s.writableLocked(false); err != nil {
		return 0, err
	}
	s.declareLocked()
	s.keepMeta()
	return s.termLocked(), nil
}

// clusterLocked returns the record of a cluster, and makes a new one if needed.
func (s *Source) clusterLocked(name string) *sourceCluster {
	c := s.clusters[name]
	if c == nil {
		c = &sourceCluster{
			source: s, name: name, delivery: newDelivery(), compares: rate.NewLimiter(comparesEachSecond, comparesAtOnce),
			tombstones: map[string]*sourceWork{}, lists: map[string]*agentList{},
		}
		c.answers.source, c.answers.account = s, &c.account
		c.account.Budget = s.budget
		s.unknown.Set(0, peer.ClusterCost+int64(len(name)))
		c.reported.keep, c.reported.account = c.keepPast, &c.account
		s.clusters[name] = c
		s.remember(c)
		if s.inherited {
			c.openGap()
		}
	}
	return c
}

// clusterOfLocked is clusterLocked for an event of an agent. The cluster may have no works, so a
// new record must fit the budget.
func (s *Source) clusterOfLocked(name string) (*sourceCluster, error) {
	if s.clusters[name] == nil {
		size := peer.ClusterCost + int64(len(name))
		if !s.unknown.Charge(size) {
			return nil, peer.Unusable(peer.RefusedBudget, "record cluster %q, which has no works: %w",
				name, s.unknown.ErrFull())
		}
		s.unknown.Set(size, 0) // clusterLocked charges it
	}
	c := s.clusterLocked(name)
	c.delivery.lastReport = s.options.Clock.Now()
	return c, nil
}

// next returns the V for a new version in the cluster.
func (c *sourceCluster) next(now time.Time) int64 {
	c.highest = protocol.Next(c.highest, now)
	if c.gap != nil && c.gap.Before == 0 && !c.source.traits.Bundle {
		c.gap.Before = c.highest
	}
	c.source.keepCluster(c)
	return c.highest
}

// saw records a V that the cluster has reported.
func (c *sourceCluster) saw(v int64) {
	if c.highest < v || c.highest > protocol.Horizon(c.source.options.Clock.Now()) {
		c.highest = v
		c.source.keepCluster(c)
	}
}

// speaks records the dialect of the cluster's agent.
func (c *sourceCluster) speaks(d peer.Dialect) {
	if c.dialect != d {
		c.dialect = d
		c.source.keepCluster(c)
	}
}

// sourceWork is a source's record of one work: an object, or a tombstone of an unknown work.
type sourceWork struct {
	cache.Entry
	source      *Source
	cluster     *sourceCluster
	id          string
	name        string // empty for a tombstone if no event had the name
	trace       string // traceparent of the write that made this version
	statusTrace string // traceparent of the last status
	uid         types.UID
	// session is that of the agent when the work was created. Other processes of the agent request
	// the work first, because that one may have applied it.
	session string

	version          int64
	createV, deleteV int64
	seq              int64
	statusTime       time.Time
	hash             string // of the status; empty until it is needed
	delivered
	bundle bundleWork
	// problem is a condition of the source's own, shown in addition to the reported status.
	problem *problem
	deleted metav1.Time
	// charged is the size that the cluster is charged for, own whether the record raises its
	// bounds.
	charged int64
	own     bool
	phase   protocol.SourcePhase
	saving  peer.Saving
	// raises counts how often in a row the version was raised above that of the agent, the last
	// time at raisedAt.
	raises   int8
	raisedAt time.Time
	// offered is whether an event was made since the problem began.
	offered bool
	// troubled is whether a problem prevents publishing. It can be read without the mutex.
	troubled atomic.Bool
	// place is the position of a tombstone in Source.tombstones.
	place *list.Element
	// parked has the answers that wait until the record is stored.
	parked *specAnswer
}

// view returns the fields that the protocol's decisions need. A nil record is an unknown work.
func (w *sourceWork) view() protocol.SourceWork {
	if w == nil {
		return protocol.SourceWork{}
	}
	return protocol.SourceWork{
		Version: protocol.Version{V: w.version, UID: string(w.uid)},
		Phase:   w.phase,
		Seq:     w.seq,
		Time:    w.statusTime,
		CreateV: w.createV,
		DeleteV: w.deleteV,

		Unversioned: w.bundle.unversioned,
		Reported:    w.bundle.reported,
	}
}

// TraceParent implements the method of work.Source.
func (s *Source) TraceParent(cluster, name string) string {
	s.cache.Lock()
	defer s.cache.Unlock()
	if w := s.cache.Get(cluster, name); w != nil {
		return w.statusTrace
	}
	return ""
}
