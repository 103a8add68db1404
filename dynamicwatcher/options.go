// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher

import (
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
)

// Options configures a [DynamicWatcher]. Only Reconciler is required.
type Options struct {
	// Reconciler is called for a watcher when something that it watches has changed. Required.
	Reconciler Reconciler

	// Config is how to reach the API server. Defaults to the configuration in the cluster, and outside of one to what the
	// environment variable KUBECONFIG names. Its QPS, Burst and Timeout do not hold: watches last, and each group version is
	// looked up once.
	Config *rest.Config
	// HTTPClient, if it is set, makes all requests to the server of Config. Connections are then its own affair: without
	// it, about 90 watches share one.
	HTTPClient *http.Client
	// Metadata, if it is set, makes the watches in place of requests of the watcher's own; with EnableCache Dynamic does.
	// A watch then begins with a list, and takes more goroutines and memory. That is for tests with fake clients.
	Metadata metadata.Interface
	Dynamic  dynamic.Interface
	// Mapper, if it is set, finds the resource of a kind. By default discovery does, when it is first asked for one.
	Mapper meta.RESTMapper

	// RateLimiter delays watchers whose reconcile failed. Defaults to the greater of an overall bucket (10 per second, 100
	// at once) and an exponential delay for each watcher (5 ms to 1000 s).
	RateLimiter workqueue.TypedRateLimiter[ObjectIdentifier]
	// MaxConcurrentReconciles is how many watchers are reconciled at a time. Defaults to 1.
	MaxConcurrentReconciles int
	// RecoverPanic is whether a panic in Reconcile is logged and counts as an error. Defaults to true.
	RecoverPanic *bool
	// Name is the queue's name in metrics and logs. Defaults to "dynamicwatcher".
	Name string

	// MinInterval is the least time from the beginning of one reconcile of a watcher that changes cause to the next. What
	// changes meanwhile is one reconcile, at its end. 0 means none.
	MinInterval time.Duration
	// BatchWindow is how long the reconcile of a watcher waits after a change, so that further changes in that time are part of
	// the same reconcile. Later changes do not extend it. 0 means that the reconcile begins at once.
	BatchWindow time.Duration

	// MissingKind says what to do with a kind that the server does not have. Defaults to [Error].
	MissingKind MissingKind
	// AccessLost says what to do when the server refuses a watch. Defaults to [RetryThenNotify].
	AccessLost AccessLost
	// Reconnect says when watchers are told after a watch was interrupted. Defaults to [NotifyIfChanged].
	Reconnect Reconnect

	// Consolidate, if it is set, lets one watch on a namespace take the place of many on single objects in it; a pointer to an
	// empty struct does. Nil means that each object has a watch of its own. It cannot be set with EnableCache: one watch on the namespace would bring the
	// content of all objects in it, not only of those that are watched. It has no effect with Metadata or Dynamic: watches
	// take over from each other by their resource versions, and those of fake clients have no order.
	Consolidate *ConsolidateOptions
	// EnableCache keeps the watched objects, for the query methods. They are then watched as a whole.
	EnableCache bool
	// ObjectCacheOptions is about the cache and about how long kinds are remembered.
	ObjectCacheOptions ObjectCacheOptions
	// DisableInitialReconcile is whether a watcher is not reconciled for what exists when it begins to watch.
	DisableInitialReconcile bool

	// MetricsRegisterer takes the metrics, until Start has returned. Nil means none.
	MetricsRegisterer prometheus.Registerer
	// Clock defaults to the real one.
	Clock clock.WithTicker
}

// MissingKind says what to do with a kind that the server does not have.
type MissingKind int

const (
	// Error refuses to watch an object of such a kind, with [ErrNoVersionedResource].
	Error MissingKind = iota
	// Wait begins to watch when the kind's CRD is established. That needs access to watch
	// customresourcedefinitions.apiextensions.k8s.io by name.
	Wait
)

// AccessLost says what to do when the server refuses a watch for good: with 401 or 403, over and over for some seconds.
// Refusals that pass lose nothing and tell nobody.
type AccessLost int

const (
	// RetryThenNotify reconciles the watchers once and goes on asking, so that the watch resumes when access is back.
	RetryThenNotify AccessLost = iota
	// DropAndNotify reconciles the watchers once and takes the object out of what they watch.
	DropAndNotify
)

// Reconnect says when watchers are told after a watch was interrupted.
type Reconnect int

const (
	// NotifyIfChanged reconciles when an object is not what it was, came or went.
	NotifyIfChanged Reconnect = iota
	// NotifyAlways reconciles all watchers of the object.
	NotifyAlways
)

// ObjectCacheOptions is about the cache and about how long kinds are remembered.
type ObjectCacheOptions struct {
	// GVKToGVRCacheTTL is how long a kind's resource is remembered. Defaults to 10 minutes.
	GVKToGVRCacheTTL time.Duration
	// MissingAPIResourceCacheTTL is how long the absence of a kind is remembered. 0 means not at all.
	MissingAPIResourceCacheTTL time.Duration
	// UnsafeDisableDeepCopy makes reads return the cache's own objects, which must not be changed.
	UnsafeDisableDeepCopy bool
	// MaxBytes is how much memory an [ObjectCache] may use, in bytes, by an estimate that is within a quarter of the heap that
	// the objects use. 0 means 256 MiB, a negative value no limit. The cache of a [Watcher] has no limit, like the informers
	// of client-go: it has each watched object, and ends with the watch.
	MaxBytes int64
}

func (o *Options) validate() error {
	switch {
	case o == nil || o.Reconciler == nil:
		return fmt.Errorf("%w: Options.Reconciler is required", ErrInvalidInput)
	case o.MaxConcurrentReconciles < 0:
		return fmt.Errorf("%w: Options.MaxConcurrentReconciles is negative", ErrInvalidInput)
	case o.MinInterval < 0 || o.BatchWindow < 0:
		return fmt.Errorf("%w: Options.MinInterval and Options.BatchWindow must not be negative", ErrInvalidInput)
	case o.MissingKind < Error || o.MissingKind > Wait:
		return fmt.Errorf("%w: Options.MissingKind %d is none of its constants", ErrInvalidInput, o.MissingKind)
	case o.AccessLost < RetryThenNotify || o.AccessLost > DropAndNotify:
		return fmt.Errorf("%w: Options.AccessLost %d is none of its constants", ErrInvalidInput, o.AccessLost)
	case o.Reconnect < NotifyIfChanged || o.Reconnect > NotifyAlways:
		return fmt.Errorf("%w: Options.Reconnect %d is none of its constants", ErrInvalidInput, o.Reconnect)
	case o.ObjectCacheOptions.GVKToGVRCacheTTL < 0 || o.ObjectCacheOptions.MissingAPIResourceCacheTTL < 0:
		return fmt.Errorf("%w: the times of Options.ObjectCacheOptions must not be negative", ErrInvalidInput)
	}
	return o.Consolidate.validate(o.EnableCache)
}

func (o *Options) withDefaults() Options {
	out := *o
	if out.Name == "" {
		out.Name = "dynamicwatcher"
	}
	if out.MaxConcurrentReconciles == 0 {
		out.MaxConcurrentReconciles = 1
	}
	if out.RecoverPanic == nil {
		out.RecoverPanic = new(true)
	}
	if out.RateLimiter == nil {
		out.RateLimiter = workqueue.DefaultTypedControllerRateLimiter[ObjectIdentifier]()
	}
	out.ObjectCacheOptions = out.ObjectCacheOptions.withDefaults()
	out.Consolidate = out.Consolidate.withDefaults()
	if out.Clock == nil {
		out.Clock = clock.RealClock{}
	}
	return out
}

func (o ObjectCacheOptions) withDefaults() ObjectCacheOptions {
	if o.GVKToGVRCacheTTL == 0 {
		o.GVKToGVRCacheTTL = 10 * time.Minute
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 256 << 20
	}
	return o
}
