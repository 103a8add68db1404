// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/hex"
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
	"github.com/spokewire/sdk-go/cloudevents/work/internal/cache"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/clientset"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/journal"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/quietlog"
)

// Source sends ManifestWorks to the agents of any number of clusters and shows their statuses. A hub controller
// uses its clientset in place of the one for the Kubernetes API.
//
// All methods may be called from any goroutine.
type Source struct {
	options      SourceOptions
	traits       codec.Traits
	engine       *cloudevents.Engine
	ids          *idSequence
	clientset    workclientset.Interface
	cache        *cache.Cache[*sourceWork]
	journal      *journal.Journal // nil without a Store
	replica      *replica         // nil without a SharedGroup
	presence     *presence        // nil with a SharedGroup
	metrics      *metrics         // nil without a registerer
	refusals     *quietlog.Log
	unknownWorks *quietlog.Log // works that agents have and this source does not
	requests     *requestQueue
	budget       *budget
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
	asked      bool // strict profile: all statuses were requested since the inventory was declared complete
	forgotten  forgottenClusters
	tombstones list.List // oldest first
	unknown    account   // charged for the records of clusters
	round      uint64    // counts disconnects and losses of leadership: answers of earlier rounds are dropped
	started    bool
	logger     klog.Logger
}

// workID identifies a work at a source. With the resource ID alone, one cluster could name the work
// of another.
type workID struct{ cluster, id string }

// sourceCluster is a source's record of one cluster.
type sourceCluster struct {
	source *Source
	name   string
	// highest is the highest V that the source has assigned or the cluster has reported.
	highest int64
	// session identifies the agent process that sent the last message.
	session string
	// modern is whether the agent uses our extensions, strict whether it does not. Both are false
	// before its first event.
	modern, strict bool
	// outdated is whether the agent has reported a version which proves that the Store is an older
	// copy. gap is the range of such versions. It is nil after the agent has listed all its works.
	outdated   bool
	gap        *protocol.Gap
	tombstones map[string]*sourceWork // by resource ID
	lists      map[string]*agentList  // incomplete chunked lists, by resync ID
	answers    answers                // in progress
	delivery   delivery
	hashes     *hashList          // of all works, for an agent without our extensions
	answered   int                // the last resync that it has answered, for the metrics
	reported   reports            // of works without a record, in a strict profile
	suspects   map[string]suspect // by resource ID
	unknownAsk *unknownAsk        // queued in the outbox, for a strict agent
	account    account            // charged for the events of its agent
	compares   *rate.Limiter      // limits comparisons of all works; see mayCompare
	dropped    bool               // a list of its agent was dropped and must be requested again
}

// NewSource validates the options, loads the Store, claims the transport and returns a source that
// is not started. Its clientset works at once: writes wait in the outbox. NewSource blocks until
// Load returns, for example while a database starts. The context of Load does not end.
//
// Errors name the invalid option: MetricsRegisterer if it already has metrics of this ID, Store if
// Load fails. The error is [cloudevents.ErrClaimed] if another client uses the transport. A failed
// call leaves no registration and no claim, and can be repeated with the same options and
// transport.
func NewSource(transport cloudevents.Transport, options SourceOptions) (*Source, error) {
	if transport == nil {
		return nil, errors.New("work.NewSource: a transport is required")
	}
	if err := options.validate(); err != nil {
		return nil, fmt.Errorf("work.NewSource: %w", err)
	}
	options = options.withDefaults()
	s := &Source{
		options: options,
		traits:  options.Profile.Traits(),
		ids:     newIDSequence(),
		cache: cache.New[*sourceWork](options.Clock, false, cache.Limits{
			Bytes: options.WatchCacheBytes, Age: options.WatchCacheTTL,
		}),
		works:    map[workID]*sourceWork{},
		clusters: map[string]*sourceCluster{},
		logger:   klog.Background(),
		refusals: quietlog.New("Refused an event", "topic", options.Clock),

		unknownWorks: quietlog.New("Requested the deletion of an unknown work", "cluster", options.Clock),
	}
	s.budget = &budget{
		perPeer: options.MaxClusterBytes, total: options.MaxBytes, options: "SourceOptions", peer: "MaxClusterBytes",
	}
	s.unknown = account{budget: s.budget, allowed: options.MaxBytes / 4} // some 30,000 clusters
	s.requests = newRequestQueue(s.budget, s.take, s.dropped)
	s.detectRivals()
	if options.Store != nil {
		if err := s.load(context.Background()); err != nil {
			return nil, fmt.Errorf("work.NewSource: SourceOptions.Store: %w", err)
		}
		s.journal = journal.New(s.journalOptions())
		for _, c := range s.clusters {
			c.reported.sweep(options.Clock.Now())
		}
		s.keepMeta()
	}
	if err := s.measure(); err != nil {
		return nil, fmt.Errorf("work.NewSource: %w", err)
	}
	engine, err := cloudevents.NewEngine(transport, cloudevents.Options{
		Name:     options.SourceID,
		Filters:  codec.SharedFilters(options.SharedGroup, options.Profile.SourceFilters(options.SourceID)),
		Optional: s.presence.filters(), Denied: s.presence.refused,
		Binary:       s.traits.Binary,
		Handler:      (*sourceHandler)(s),
		Commit:       s.beforeAck(),
		QPS:          options.QPS,
		Burst:        options.Burst,
		DrainTimeout: options.DrainTimeout,
		Clock:        options.Clock,

		Kind: kindSource, MetricsRegisterer: options.MetricsRegisterer,
	})
	if err != nil {
		s.metrics.unregister()
		return nil, fmt.Errorf("work.NewSource: %w", err)
	}
	s.engine = engine
	s.presence.use(engine)
	s.clientset = clientset.New(&sourceBackend{s, clientset.Reader[*sourceWork]{Store: s.cache}})
	return s, nil
}

// Clientset returns the clientset of the source. Callers may change the objects that it returns and
// that its watches deliver, except the bytes of manifests in objects from watches.
func (s *Source) Clientset() workclientset.Interface { return s.clientset }

// Start connects and serves until ctx ends. It then refuses writes with ServiceUnavailable, flushes
// the outbox for at most DrainTimeout, ends all watches and returns nil. With a Store, every write
// that returned nil is stored. Without one, Start logs the number of works that it could not
// publish in that time. Start waits another 5 s for a Store that hangs; then pending writes return
// errors, and Start logs their number. A second call returns [cloudevents.ErrStarted].
func (s *Source) Start(ctx context.Context) error {
	s.cache.Lock()
	if s.started {
		s.cache.Unlock()
		return cloudevents.ErrStarted
	}
	s.started = true
	s.logger = klog.FromContext(ctx).WithValues("source", s.options.SourceID)
	s.presence.started(s.options.Clock.Now(), s.logger)
	s.cache.Unlock()
	err := start(ctx, s.engine, s.cache, s.journal, s.presence,
		s.journal.Run,
		s.follow,
		every(s.options.Clock, resyncInterval(s.options.ResyncInterval), s.resyncPeers),
		s.runAlarms)
	if err == nil {
		s.requests.drop()
		s.refusals.Flush(s.logger)
		s.unknownWorks.Flush(s.logger)
		s.metrics.unregister()
	}
	return err
}

// Ready is closed when the source was first connected and subscribed and has requested the lists of
// its agents. If the broker refuses the request, the source retries with backoff, at least every 10
// s, and [Source.Readyz] returns the reason.
func (s *Source) Ready() <-chan struct{} { return s.engine.Ready() }

// Healthy returns nil while the source is connected and its Store works. Without a connection, the error has
// the cause and the time at which the connection ended. It also returns an error while another process has
// the same SourceID, and while unknown works are kept because the Store is older than an agent's works, or
// another process may have created them. For probes use [Source.Livez] and [Source.Readyz].
func (s *Source) Healthy() error {
	return errors.Join(s.serving(), s.rival(false), s.inventoryProblems())
}

// serving returns an error if the source is not connected, its Store fails, or it cannot follow a
// shared Store.
func (s *Source) serving() error {
	return errors.Join(s.engine.Healthy(), s.journal.Healthy(), s.following())
}

// InventoryComplete declares that all works of this source are created. Before the call, the source
// deletes only works that are deleted through its clientset. After it, the source also deletes
// unknown works on the clusters, 12 to 24 s after an agent has listed them. Without a Store, the
// first list of an agent that names this source waits for InventoryComplete. With a Store, it waits
// until the Store has a work for its cluster or was used by an earlier process. Create the works of
// a new Store before agents start: otherwise a first list may be partial.
//
// Without a Store, call it in each process, after all works are created again. A Store records the
// call, so one call is enough. If [Source.Healthy] reports that a backup was restored or that
// another process with the same ID was connected, create the missing works and call it again. Calls
// before that report do not count. After a call that is too early, agents delete works that are
// created again later, with their workloads.
//
// Without SharedGroup it may be called before Start. It returns ServiceUnavailable after Start has
// ended, or when another replica has become the leader; otherwise ctx's error, or an InternalError
// if the Store fails.
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
		c.account.budget = s.budget
		s.unknown.set(0, clusterCost+int64(len(name)))
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
		size := clusterCost + int64(len(name))
		if !s.unknown.charge(size) {
			return nil, unusable(refusedBudget, "cluster %q has no works and is not remembered: %w",
				name, s.unknown.errFull())
		}
		s.unknown.set(size, 0) // clusterLocked charges it
	}
	c := s.clusterLocked(name)
	c.delivery.lastReport = s.options.Clock.Now()
	return c, nil
}

// next returns the V for a new version in the cluster.
func (c *sourceCluster) next(now time.Time) int64 {
	c.highest = protocol.Next(c.highest, now)
	if c.gap != nil && c.gap.Before == 0 && !c.source.traits.Strict {
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

// shown records whether the cluster's agent uses our extensions.
func (c *sourceCluster) shown(modern bool) {
	if c.modern != modern || c.strict == modern {
		c.modern, c.strict = modern, !modern
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
	// session is that of the agent when the work was created. Only that agent process can be sure
	// that no other process has applied the work. Any other process requests the work first, unless
	// it has the work.
	session string

	version          int64
	createV, deleteV int64
	seq              int64
	statusTime       time.Time
	hash             string // of the status; empty until it is needed
	delivered
	strict strictWork
	// problem is a condition of the source's own, shown in addition to the reported status.
	problem *problem
	deleted metav1.Time
	// charged is the size of the record that the cluster is charged for, own whether the record
	// raises the cluster's bounds.
	charged int64
	own     bool
	// deleting is whether the work is being deleted. gone is whether its agent is done but other
	// finalizers still hold the object.
	deleting, gone bool
	// unsaved is whether the Store lacks the current record, toSend whether the work must be
	// published when it is stored.
	unsaved, toSend bool
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
		Known:    true,
		Version:  protocol.Version{V: w.version, UID: string(w.uid)},
		Deleting: w.deleting,
		Done:     w.gone,
		Seq:      w.seq,
		Time:     w.statusTime,
		CreateV:  w.createV,
		DeleteV:  w.deleteV,

		Unversioned: w.strict.unversioned,
		Reported:    w.strict.reported,
	}
}

// TraceParent returns the W3C traceparent of the last accepted status of a work. It is that of the
// agent's write, see [AgentOptions].TraceParent, or otherwise that of the spec that the status is
// about. It is empty if neither has a traceparent. The source does not keep it over a restart.
func (s *Source) TraceParent(cluster, name string) string {
	s.cache.Lock()
	defer s.cache.Unlock()
	if w := s.cache.Get(cluster, name); w != nil {
		return w.statusTrace
	}
	return ""
}

// SourceID makes the source ID that the enhancement describes for a consumer on a hub cluster: a hash of the
// hub's URL (the first 8 bytes of its SHA-256, in hex), a dash and the consumer's name.
func SourceID(hubURL, consumer string) string {
	sum := sha256.Sum256([]byte(hubURL))
	return hex.EncodeToString(sum[:8]) + "-" + consumer
}
