// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher

import (
	"cmp"
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

// Options configures a [DynamicWatcher]. Only Reconciler is required; leave it empty for package
// source.
type Options struct {
	// Reconciler is called for a watcher after a change of an object that it watches. Required.
	Reconciler Reconciler

	// Config is the address and the credentials of the API server. Defaults to the configuration in
	// the cluster, otherwise to the files of the environment variable KUBECONFIG, or
	// ~/.kube/config. Its QPS, Burst and Timeout have no effect.
	Config *rest.Config
	// HTTPClient, if it is set, sends all requests to the server of Config and opens the
	// connections. By default about 90 watches share a connection.
	HTTPClient *http.Client
	// Metadata and Dynamic are clients for the watches. If both are set, the watches use Dynamic
	// with EnableCache, and Metadata without it. Set them only for tests with fake clients, because
	// such watches need more goroutines and memory. Set Mapper too. A fake client must set another
	// resourceVersion with each write: without one, the watcher sees no change.
	Metadata metadata.Interface
	Dynamic  dynamic.Interface
	// Mapper, if it is set, returns the resource of a kind. Defaults to discovery of a group
	// version when it is first needed.
	Mapper meta.RESTMapper

	// RateLimiter delays the retries of a watcher after a failed reconcile. Defaults to the greater
	// of an overall bucket (10 per second, 100 at once) and an exponential delay for each watcher
	// (5 ms to 1000 s).
	RateLimiter workqueue.TypedRateLimiter[ObjectIdentifier]
	// MaxConcurrentReconciles is how many watchers are reconciled at a time. Defaults to 1.
	MaxConcurrentReconciles int
	// RecoverPanic logs a panic in Reconcile and handles it as an error. Defaults to true.
	RecoverPanic *bool
	// Name is the queue's name in metrics and logs. Defaults to "dynamicwatcher".
	Name string

	// MinInterval is the minimum time from the start of a reconcile until a change starts another
	// one of the same watcher. Changes in that time lead to one reconcile at its end. 0 means no
	// minimum.
	MinInterval time.Duration
	// BatchWindow is the delay from a change to the reconcile of its watchers. Further changes in
	// that time do not extend it. 0 means no delay.
	BatchWindow time.Duration

	// MissingKind is the behavior for a kind that the server does not have. Defaults to [Error].
	MissingKind MissingKind
	// AccessLost is the behavior after the server has refused a watch. Defaults to
	// [RetryThenNotify].
	AccessLost AccessLost
	// Reconnect is the behavior after a watch was interrupted. Defaults to [NotifyIfChanged].
	Reconnect Reconnect

	// Consolidate replaces many watches on single objects of a namespace by one watch on the
	// namespace. An empty struct has the defaults. Nil means that each object has its own watch. It
	// cannot be combined with EnableCache, and has no effect with Metadata or Dynamic.
	Consolidate *ConsolidateOptions
	// EnableCache caches the watched objects for the query methods. The watches then receive whole
	// objects, not only metadata.
	EnableCache bool
	// ObjectCacheOptions configures the cache and how long the resources of kinds are cached.
	ObjectCacheOptions ObjectCacheOptions
	// DisableInitialReconcile disables the reconcile of a watcher when it begins to watch an object
	// that exists.
	DisableInitialReconcile bool

	// MetricsRegisterer receives the metrics, from New until Start returns. Nil means no metrics.
	MetricsRegisterer prometheus.Registerer
	// Clock is the source of time. Defaults to the real clock.
	Clock clock.WithTicker
}

// MissingKind is the behavior for a kind that the server does not have.
type MissingKind int

const (
	// Error makes the methods that add a watch return [ErrNoVersionedResource].
	Error MissingKind = iota
	// Wait begins to watch when the kind's CRD is established. That needs access to watch
	// customresourcedefinitions.apiextensions.k8s.io by name.
	Wait
)

// AccessLost is the behavior after the server has refused a watch with 401 or 403 for some seconds.
type AccessLost int

const (
	// RetryThenNotify reconciles the watchers once and retries the watch, which resumes when access
	// is back.
	RetryThenNotify AccessLost = iota
	// DropAndNotify reconciles the watchers once and ends the watch on the object.
	DropAndNotify
)

// Reconnect is the behavior after a watch was interrupted.
type Reconnect int

const (
	// NotifyIfChanged reconciles the watchers of an object that was created, changed or deleted
	// meanwhile.
	NotifyIfChanged Reconnect = iota
	// NotifyAlways reconciles all watchers of an object.
	NotifyAlways
)

// ObjectCacheOptions configures a cache of objects and how long the resources of kinds are cached.
type ObjectCacheOptions struct {
	// GVKToGVRCacheTTL is how long the resource of a kind is cached. Defaults to 10 minutes.
	GVKToGVRCacheTTL time.Duration
	// MissingAPIResourceCacheTTL is how long the absence of a kind is cached. 0 means that it is
	// not cached.
	MissingAPIResourceCacheTTL time.Duration
	// UnsafeDisableDeepCopy makes reads return the cache's own objects, which must not be changed.
	UnsafeDisableDeepCopy bool
	// MaxBytes limits the memory of an [ObjectCache], in bytes. Sizes of objects are estimates, up
	// to a quarter too high or too low. 0 means 256 MiB, a negative value no limit. The cache of a
	// [Watcher] has no limit.
	MaxBytes int64
}

// invalidOption returns an [ErrInvalidInput] for a field of Options.
func invalidOption(field string, value any, rule string) error {
	return fmt.Errorf("%w: Options.%s: %v: %s", ErrInvalidInput, field, value, rule)
}

func (o *Options) validate() error {
	if o == nil || o.Reconciler == nil {
		return invalidOption("Reconciler", nil, "must be set")
	}
	var limits ConsolidateOptions
	if o.Consolidate != nil {
		limits = *o.Consolidate
	}
	const negative = "must not be negative"
	cache := o.ObjectCacheOptions
	for _, option := range []struct {
		field   string
		value   any
		invalid bool
		rule    string
	}{
		{"MaxConcurrentReconciles", o.MaxConcurrentReconciles, o.MaxConcurrentReconciles < 0, negative},
		{"MinInterval", o.MinInterval, o.MinInterval < 0, negative},
		{"BatchWindow", o.BatchWindow, o.BatchWindow < 0, negative},
		{"MissingKind", o.MissingKind, o.MissingKind < Error || o.MissingKind > Wait, "must be Error or Wait"},
		{"AccessLost", o.AccessLost, o.AccessLost < RetryThenNotify || o.AccessLost > DropAndNotify,
			"must be RetryThenNotify or DropAndNotify"},
		{"Reconnect", o.Reconnect, o.Reconnect < NotifyIfChanged || o.Reconnect > NotifyAlways,
			"must be NotifyIfChanged or NotifyAlways"},
		{"ObjectCacheOptions.GVKToGVRCacheTTL", cache.GVKToGVRCacheTTL, cache.GVKToGVRCacheTTL < 0, negative},
		{"ObjectCacheOptions.MissingAPIResourceCacheTTL", cache.MissingAPIResourceCacheTTL,
			cache.MissingAPIResourceCacheTTL < 0, negative},
		{"Consolidate.MinObjects", limits.MinObjects, limits.MinObjects < 0, negative},
		{"Consolidate.MaxRatio", limits.MaxRatio, limits.MaxRatio < 0, negative},
		{"EnableCache", true, o.EnableCache && o.Consolidate != nil,
			"must be false with Options.Consolidate: one watch would receive the content of all objects in a namespace"},
	} {
		if option.invalid {
			return invalidOption(option.field, option.value, option.rule)
		}
	}
	return nil
}

func (o *Options) withDefaults() Options {
	out := *o
	out.Name = cmp.Or(out.Name, "dynamicwatcher")
	out.MaxConcurrentReconciles = cmp.Or(out.MaxConcurrentReconciles, 1)
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
	o.GVKToGVRCacheTTL = cmp.Or(o.GVKToGVRCacheTTL, 10*time.Minute)
	o.MaxBytes = cmp.Or(o.MaxBytes, 256<<20)
	return o
}

// ConsolidateOptions configures when one watch on a namespace replaces the watches on single
// objects in it. The limits apply to the watched objects of each kind in each namespace, or of each
// cluster-scoped kind. Selectors keep their own watches.
type ConsolidateOptions struct {
	// MinObjects is the minimum number of watched objects to share a watch. If fewer than half as
	// many are left, single watches replace the shared one. Defaults to 32.
	MinObjects int
	// MaxRatio is the maximum number of objects in the namespace for each watched object. Above
	// twice the ratio, single watches replace the shared one. Defaults to 50.
	MaxRatio int
}

func (c *ConsolidateOptions) withDefaults() *ConsolidateOptions {
	if c == nil {
		return nil
	}
	return &ConsolidateOptions{MinObjects: cmp.Or(c.MinObjects, 32), MaxRatio: cmp.Or(c.MaxRatio, 50)}
}
