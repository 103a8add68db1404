// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/agent"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/cache"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/source"
	"github.com/spokewire/sdk-go/codec"
)

// Outbox bounds how many works may wait to be published; see [SourceOptions] and [AgentOptions].
type Outbox int

const (
	// DefaultOutbox is the bound used for a zero Outbox. A queued work costs only its place in a
	// queue: its event is made from the cache when it is published.
	DefaultOutbox Outbox = 100_000
	// Disabled is an Outbox in which no write waits for a connection: without a connection, a write
	// fails with ServiceUnavailable. Works written just before the connection ended are published
	// on the next connection. While connected, at most 10,000 works may be unacknowledged. If the
	// broker is too slow, a write beyond this bound fails with TooManyRequests.
	Disabled Outbox = -1
)

// Defaults of [SourceOptions] and [AgentOptions].
const (
	DefaultTombstoneTTL       = 24 * time.Hour
	DefaultResyncInterval     = 10 * time.Minute
	DefaultDrainTimeout       = 2 * time.Second
	DefaultInitialSyncTimeout = 2 * time.Second
	DefaultWatchCacheBytes    = 16 << 20
	DefaultWatchCacheTTL      = 5 * time.Minute

	DefaultMaxClusterBytes = 16 << 20
	DefaultMaxBytes        = 256 << 20
	// DefaultMaxSourceBytes and DefaultMaxAgentBytes are larger: an agent keeps specs.
	DefaultMaxSourceBytes = 512 << 20
	DefaultMaxAgentBytes  = 1 << 30
	DefaultMaxStatusBytes = 1 << 20
)

// SourceOptions configures a [Source]. Only SourceID is required.
type SourceOptions struct {
	// SourceID identifies the source to agents: of two processes with one ID on a broker, only the
	// newer process writes, unless they are replicas (SharedGroup). It is one topic level: not
	// empty, without `/`, `+`, `#` and control characters. The function [SourceID] makes an ID for a
	// consumer on a hub cluster.
	SourceID string
	// Profile is the wire format. Defaults to [codec.ManifestWork]; [codec.ManifestBundle] is for
	// peers built on the OCM SDK.
	Profile codec.Profile
	// SharedGroup makes processes replicas of this source. They have the same SourceID and
	// SharedGroup, and each has a Store that opens the same [SharedStore]. SharedGroup is the name
	// of the shared subscription, one topic level. All replicas have the same works with the same
	// resourceVersions. A write, or a call of [Source.Lead], makes a replica the leader. Only the
	// leader publishes. The SDK does not elect a leader: write only at the replica that your own
	// leader election has chosen. If a replica has not noticed a new leader yet, its next write
	// returns ServiceUnavailable and may be lost: read the work again and retry. A write reads the
	// changes of other replicas before it returns NotFound. Reads at other replicas may lag, but a
	// read with a resourceVersion waits up to 3 s for this version. Writes before Start fail. If the
	// connection of a replica breaks, most brokers lose the messages that they sent to it. They are
	// repaired like any lost message.
	SharedGroup string
	// QPS limits published events per second, and Burst limits how many are published at once. 0
	// means no limit; Burst defaults to QPS, rounded up.
	QPS   float32
	Burst int
	// Outbox bounds how many works may wait to be published while the broker is away or slow. A
	// write beyond it fails with TooManyRequests and a delay after which to retry. Accepted writes
	// stay queued. 0 means [DefaultOutbox]; with [Disabled], no write waits for a connection.
	Outbox Outbox
	// Store keeps the works, their statuses and versions over restarts. A write of the clientset
	// that returned nil is durable. An event is published or acknowledged only after its change is
	// durable. With nil, the source keeps works only in memory: create them again after a restart.
	// A Store serves one source. Its owner closes it after Start has returned.
	Store Store
	// ResyncInterval is the time between two full comparisons of the works of source and agents. 0
	// means 10 min ([DefaultResyncInterval]) with peers without digests: those of the profile
	// ManifestBundle, and those with only the attributes of OCM's enhancement. Other agents send a
	// digest every minute, and only the differences are compared. A positive value applies to all
	// peers. With a negative value, full comparisons run only after connecting.
	ResyncInterval time.Duration
	// TombstoneTTL is how long the source repeats the deletion of an unknown work to an agent that
	// lists it. Defaults to 24 h. The deletion of a known work has no limit: only [Source.Forget]
	// and [Source.Abandon] end it without the agent. Deletions of unknown works count toward
	// MaxClusterBytes. If there is no room, an unknown work is deleted later, when the agent lists
	// it again.
	TombstoneTTL time.Duration
	// MaxClusterBytes bounds the memory for events from the agent of one cluster: statuses,
	// requests, incomplete lists, answers to them, and deletions of unknown works. MaxBytes bounds
	// the memory for all clusters together. They default to 16 MiB and 256 MiB. Each work adds
	// 16 KiB to both bounds, so a cluster with 25,000 works may use 406 MiB. A quarter of
	// MaxClusterBytes is for queued requests. Sizes are estimates.
	//
	// The source refuses an event beyond a bound and counts it as over_budget. A work with a
	// refused status has the condition Degraded, reason StatusRefused, and keeps its last accepted
	// status. Its agent receives no notice. The source requests a refused list again, and a refused
	// status once there is memory for it.
	MaxClusterBytes, MaxBytes int64
	// MaxStatusBytes bounds the size of one status. A larger status is refused in the same way.
	// Defaults to 1 MiB.
	MaxStatusBytes int
	// DrainTimeout bounds how long Start publishes queued works after its context has ended.
	// Defaults to 2 s. With a negative value, Start publishes no more works then.
	DrainTimeout time.Duration
	// WatchCacheBytes bounds three kinds of superseded versions, each separately: those that
	// watches resume from, the snapshots of paged lists, and the unread events of one watcher. Data
	// that a current version shares does not count. Beyond the bound the oldest are dropped, and
	// reads of dropped versions return Expired; a watcher that is too slow ends with Expired.
	// Defaults to 16 MiB. Sizes are estimates.
	WatchCacheBytes int
	// WatchCacheTTL is how long superseded versions are kept. The snapshot of a paged list is kept
	// for the same time after each page. Defaults to 5 min.
	WatchCacheTTL time.Duration
	// MetricsRegisterer registers the source's metrics, which METRICS.md lists, from NewSource
	// until Start has returned. Several sources and agents can share a registerer: each metric has
	// the ID as a label. Nil means no metrics.
	MetricsRegisterer prometheus.Registerer
	// Tracer creates the spans of the source. The Store keeps the trace context of each work. Nil
	// means no spans and no trace contexts.
	Tracer Tracer
	// Clock defaults to the real one.
	Clock clock.WithTicker
}

// AgentOptions configures an [Agent]. Only ClusterName is required.
type AgentOptions struct {
	// ClusterName is the managed cluster, and the namespace of its works. It is one topic level:
	// not empty, without `/`, `+`, `#` and control characters. Only one agent of a cluster may run
	// at a time. If several processes stand by for a cluster, each starts its agent after it has
	// won the leader election. It calls [Agent.Readyz] only from then on: see Probes in METRICS.md.
	// With two agents at a time, an agent that applied nothing may report works as gone before the
	// other agent has cleaned up. [Agent.Healthy] returns an error then.
	ClusterName string
	// AgentID identifies the agent in its events. Defaults to `<ClusterName>-work-agent`.
	AgentID string
	// Profile is the wire format. Defaults to [codec.ManifestWork]; [codec.ManifestBundle] is for
	// peers built on the OCM SDK.
	Profile codec.Profile
	// Sources are the sources to serve. With nil, the agent serves all sources, and a list may lack
	// the works of an offline source. With named sources, informers sync as soon as all of them have
	// answered. Lists and [Agent.Readyz] wait for a named source while it is offline, or while its
	// [Source.Healthy] reports an incomplete inventory. Until [Source.InventoryComplete] is called,
	// they also wait for a source without a Store, or with a new Store that has no works of this
	// cluster. The CacheSyncTimeout of controller-runtime, 2 min by default, counts during that time.
	// NewAgent refuses Sources that are empty but not nil. If Sources no longer names a source, its
	// works in the Store stay, and no other source can use their names, until that source deletes
	// them. Start logs their number. To remove them, delete them at their source. If that source no
	// longer exists, run a source with its ID and without works, and call its InventoryComplete.
	Sources []string
	// InitialSyncTimeout is the time without an event after which a source counts as complete. It
	// applies to sources that are not in Sources, and to those that cannot mark the end of their
	// answer: sources built on the OCM SDK, and sources that support only OCM's enhancement. If a part
	// of their answer is missing, the agent requests it again before that. The other named sources
	// have no timeout: lists, the initial events of watches and the Get of a missing work wait for all
	// their works. Only the call's context ends that wait; the error names the missing sources.
	// Defaults to 2 s. With a negative value nothing waits, and lists are partial: see
	// PartialSyncTimeout.
	InitialSyncTimeout time.Duration
	// PartialSyncTimeout lets the initial sync end this long after the first connection, even if
	// works are missing: it prefers availability over complete lists. A controller that prunes
	// objects of unlisted works then deletes the workloads of works that have not arrived yet.
	// 0 means never.
	PartialSyncTimeout time.Duration
	// Store keeps works, statuses and tombstones over restarts. If an earlier process with this Store
	// received all works of a source, the agent does not wait for that source again. Lists and watches
	// begin immediately with the stored works, unless Sources has new names. With nil, the agent
	// receives its works again from the sources. A work that is being deleted then has no spec. A
	// Store serves one agent. Its owner closes it after Start has returned.
	Store Store
	// MaxSourceBytes bounds the memory for the data of one source: specs, tombstones, requests and
	// lists that answer them. MaxBytes is the same for all sources together. They default to 512 MiB
	// and 1 GiB. The agent refuses a spec that would bring usage above 15/16 of a bound, and counts it
	// as over_budget. The previous spec stays applied, and the work has the condition Degraded, reason
	// SpecRefused, at its source too. The agent requests the spec when there is room. If there is no
	// memory for this condition, the agent drops the spec without a report. The source sends the spec
	// again and sets Delivered to False. With Sources named, the first list waits until every refused
	// work has been accepted; see PartialSyncTimeout. Deletions of existing works are never refused,
	// and works in the Store are always loaded. A quarter of MaxSourceBytes is for queued requests.
	// Sizes are estimates, and statuses do not count.
	MaxSourceBytes, MaxBytes int64
	// QPS, Burst, Outbox, ResyncInterval, DrainTimeout, WatchCacheBytes, WatchCacheTTL,
	// MetricsRegisterer and Clock have the meanings of [SourceOptions].
	QPS            float32
	Burst          int
	Outbox         Outbox
	ResyncInterval time.Duration
	// TombstoneTTL is how long the agent keeps the tombstone of a work. During that time, a late
	// event does not create the work again. Defaults to 24 h.
	TombstoneTTL      time.Duration
	DrainTimeout      time.Duration
	WatchCacheBytes   int
	WatchCacheTTL     time.Duration
	MetricsRegisterer prometheus.Registerer
	// Tracer creates the spans of the agent. Without it, a status carries the trace context of its
	// spec.
	Tracer Tracer
	Clock  clock.WithTicker
}

// room returns the options with their defaults.
func (o SourceOptions) room() source.Options {
	return source.Options{
		Options: withDefaults(peer.Options{
			Profile: o.Profile, Store: o.Store, QPS: o.QPS, Burst: o.Burst, Outbox: int(o.Outbox),
			ResyncInterval: o.ResyncInterval, TombstoneTTL: o.TombstoneTTL, DrainTimeout: o.DrainTimeout,
			Cache:             cache.Limits{Bytes: o.WatchCacheBytes, Age: o.WatchCacheTTL},
			MetricsRegisterer: o.MetricsRegisterer, Tracer: tracer(o.Tracer), Clock: o.Clock,
		}),
		SourceID:        o.SourceID,
		SharedGroup:     o.SharedGroup,
		MaxClusterBytes: cmp.Or(o.MaxClusterBytes, DefaultMaxClusterBytes),
		MaxBytes:        cmp.Or(o.MaxBytes, DefaultMaxBytes),
		MaxStatusBytes:  cmp.Or(o.MaxStatusBytes, DefaultMaxStatusBytes),
	}
}

func (o SourceOptions) validate() error {
	return errors.Join(
		codec.ValidateName("SourceOptions.SourceID", o.SourceID),
		o.validateGroup(),
		o.validateBytes(),
		validateCommon("SourceOptions", o.QPS, o.Burst, o.Outbox, o.TombstoneTTL),
		validateWatchCache("SourceOptions", o.WatchCacheBytes, o.WatchCacheTTL),
	)
}

func (o SourceOptions) validateBytes() error {
	if err := errors.Join(
		notNegative("SourceOptions.MaxClusterBytes", o.MaxClusterBytes),
		notNegative("SourceOptions.MaxBytes", o.MaxBytes),
		notNegative("SourceOptions.MaxStatusBytes", o.MaxStatusBytes),
	); err != nil {
		return err
	}
	return validateTotal("SourceOptions.MaxBytes", cmp.Or(o.MaxBytes, DefaultMaxBytes),
		"MaxClusterBytes", cmp.Or(o.MaxClusterBytes, DefaultMaxClusterBytes))
}

func validateTotal(total string, bytes int64, part string, partBytes int64) error {
	if bytes < partBytes {
		return fmt.Errorf("invalid %s: %d: must be at least %s, which is %d", total, bytes, part, partBytes)
	}
	return nil
}

func (o SourceOptions) validateGroup() error {
	if o.SharedGroup == "" {
		return nil
	}
	if err := codec.ValidateName("SourceOptions.SharedGroup", o.SharedGroup); err != nil {
		return err
	}
	if _, ok := o.Store.(SharedStore); !ok {
		return fmt.Errorf("invalid SourceOptions.SharedGroup: %q: needs a Store that is a SharedStore", o.SharedGroup)
	}
	return nil
}

// room returns the options with their defaults.
func (o AgentOptions) room() agent.Options {
	quiet := o.InitialSyncTimeout
	if quiet <= 0 {
		quiet = DefaultInitialSyncTimeout
	}
	return agent.Options{
		Options: withDefaults(peer.Options{
			Profile: o.Profile, Store: o.Store, QPS: o.QPS, Burst: o.Burst, Outbox: int(o.Outbox),
			ResyncInterval: o.ResyncInterval, TombstoneTTL: o.TombstoneTTL, DrainTimeout: o.DrainTimeout,
			Cache:             cache.Limits{Bytes: o.WatchCacheBytes, Age: o.WatchCacheTTL},
			MetricsRegisterer: o.MetricsRegisterer, Tracer: tracer(o.Tracer), Clock: o.Clock,
		}),
		ClusterName:        o.ClusterName,
		AgentID:            cmp.Or(o.AgentID, o.ClusterName+"-work-agent"),
		Sources:            slices.Clone(o.Sources),
		PartialLists:       o.InitialSyncTimeout < 0,
		QuietTime:          quiet,
		PartialSyncTimeout: o.PartialSyncTimeout,
		MaxSourceBytes:     cmp.Or(o.MaxSourceBytes, DefaultMaxSourceBytes),
		MaxBytes:           cmp.Or(o.MaxBytes, DefaultMaxAgentBytes),
	}
}

func (o AgentOptions) validate() error {
	errs := []error{
		codec.ValidateName("AgentOptions.ClusterName", o.ClusterName),
		validateCommon("AgentOptions", o.QPS, o.Burst, o.Outbox, o.TombstoneTTL),
		validateWatchCache("AgentOptions", o.WatchCacheBytes, o.WatchCacheTTL),
	}
	if err := errors.Join(
		notNegative("AgentOptions.MaxSourceBytes", o.MaxSourceBytes),
		notNegative("AgentOptions.MaxBytes", o.MaxBytes),
	); err != nil {
		errs = append(errs, err)
	} else {
		errs = append(errs, validateTotal("AgentOptions.MaxBytes", cmp.Or(o.MaxBytes, DefaultMaxAgentBytes),
			"MaxSourceBytes", cmp.Or(o.MaxSourceBytes, DefaultMaxSourceBytes)))
	}
	errs = append(errs, notNegative("AgentOptions.PartialSyncTimeout", o.PartialSyncTimeout))
	if o.AgentID != "" {
		errs = append(errs, codec.ValidateName("AgentOptions.AgentID", o.AgentID))
	}
	if o.Sources != nil && len(o.Sources) == 0 {
		errs = append(errs, errors.New("invalid AgentOptions.Sources: []: must name a source, or be nil for every source"))
	}
	for i, source := range o.Sources {
		errs = append(errs, codec.ValidateName(fmt.Sprintf("AgentOptions.Sources[%d]", i), source))
	}
	return errors.Join(errs...)
}

func withDefaults(o peer.Options) peer.Options {
	if o.Profile == nil {
		o.Profile = codec.ManifestWork
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	o.ResyncAll = o.ResyncInterval > 0
	o.ResyncInterval = cmp.Or(o.ResyncInterval, DefaultResyncInterval)
	o.Outbox = cmp.Or(o.Outbox, int(DefaultOutbox))
	o.TombstoneTTL = cmp.Or(o.TombstoneTTL, DefaultTombstoneTTL)
	o.DrainTimeout = cmp.Or(o.DrainTimeout, DefaultDrainTimeout)
	o.Cache.Bytes = cmp.Or(o.Cache.Bytes, DefaultWatchCacheBytes)
	o.Cache.Age = cmp.Or(o.Cache.Age, DefaultWatchCacheTTL)
	return o
}

func validateCommon(where string, qps float32, burst int, outbox Outbox, ttl time.Duration) error {
	errs := []error{
		notNegative(where+".QPS", qps), notNegative(where+".Burst", burst), notNegative(where+".TombstoneTTL", ttl),
	}
	if outbox < Disabled {
		errs = append(errs, fmt.Errorf("invalid %s.Outbox: %d: must be Disabled, 0 or a number of works", where, outbox))
	}
	return errors.Join(errs...)
}

func notNegative[T int | int64 | float32 | time.Duration](option string, value T) error {
	if value < 0 {
		return fmt.Errorf("invalid %s: %v: must not be negative", option, value)
	}
	return nil
}

func validateWatchCache(where string, bytes int, ttl time.Duration) error {
	return errors.Join(notNegative(where+".WatchCacheBytes", bytes), notNegative(where+".WatchCacheTTL", ttl))
}
