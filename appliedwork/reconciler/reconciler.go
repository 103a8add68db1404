// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

const (
	defaultRetryAfter = 10 * time.Second
	defaultResync     = 10 * time.Minute
)

// Want is the desired state of a work on the cluster.
type Want struct {
	// Objects are the manifests of the work. A nil element stands for a manifest that could not be
	// decoded.
	Objects []*unstructured.Unstructured
	// Removed reports that the hub has deleted the work. All its objects are torn down.
	Removed bool
	// Evicted reports that the work does not belong on this cluster any more. Its objects are torn
	// down after the grace period of Options.Evict. A later Want without Evicted cancels that.
	Evicted bool
	// Policies, if set, replace Options.Policies for this work.
	Policies *appliedwork.Policies
}

// Desired returns the desired state of works.
type Desired interface {
	// Desired returns the desired state of a work that Options.Hub or Options.Owns selects, also
	// while a removed work is torn down. After an error, nothing is applied or deleted, and Desired
	// is called again. It may be called concurrently.
	Desired(ctx context.Context, work *v1alpha1.AppliedWork) (Want, error)
}

// DesiredFunc is a function that implements [Desired].
type DesiredFunc func(ctx context.Context, work *v1alpha1.AppliedWork) (Want, error)

// Desired calls f.
func (f DesiredFunc) Desired(ctx context.Context, work *v1alpha1.AppliedWork) (Want, error) {
	return f(ctx, work)
}

// Watcher watches applied objects, and is a source of requests for the controller. To write one,
// embed a Source of package dynamicwatcher/source:
//
//	type watcher struct{ *source.Source }
//
//	func (w watcher) Watch(work *v1alpha1.AppliedWork, objects []v1alpha1.AppliedResourceMeta) error {
//		id := dynamicwatcher.ObjectIdentifier{
//			Group: v1alpha1.GroupName, Version: "v1alpha1", Kind: v1alpha1.Kind, Name: work.Name,
//		}
//		if len(objects) == 0 {
//			return w.Watcher().RemoveWatcher(id)
//		}
//		var watched []dynamicwatcher.ObjectIdentifier
//		for _, o := range objects {
//			watched = append(watched, dynamicwatcher.ObjectIdentifier{
//				Group: o.Group, Version: o.Version, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name,
//			})
//		}
//		return w.Watcher().AddOrUpdateWatcher(id, watched...)
//	}
//
// Set MissingKind of dynamicwatcher.Options to Wait: otherwise Watch fails for an entry of a kind
// that is not served. SetupWithManager adds the Watcher to the controller. With a builder of your
// own, add it with WatchesRawSource.
type Watcher interface {
	// Watch replaces the watched objects of an AppliedWork. Each change of such an object becomes a
	// request with the name of the AppliedWork. Without objects, the watches of the AppliedWork
	// end.
	Watch(work *v1alpha1.AppliedWork, objects []v1alpha1.AppliedResourceMeta) error
	source.Source
}

// Options configures a [Reconciler]. Options.Client, Options.Discovery, Desired, and one of Hub and
// Owns are required.
type Options struct {
	appliedwork.Options
	// ControllerName is the name of the controller that SetupWithManager adds, in its logs and
	// metrics: ASCII letters, digits and underscores. The controllers of a process need different
	// names. Defaults to "appliedwork".
	ControllerName string
	// Desired returns the desired state of works.
	Desired Desired
	// Hub is the name of the hub. The Reconciler serves only the AppliedWorks with the names that
	// [appliedwork.NameFor] returns for the hub.
	Hub string
	// Owns selects AppliedWorks with other names, in place of Hub. An AppliedWork that is selected
	// by mistake is pruned or torn down. Owns may be called concurrently.
	Owns func(work *v1alpha1.AppliedWork) bool
	// Policies decide which objects stay when the work drops them. Apply, Prune, Evict and Teardown
	// use them: do not set the Policies of those.
	Policies appliedwork.Policies
	// Apply, Prune and Evict are the options of these calls. A work without objects is pruned only
	// with Prune.AllowEmpty.
	Apply appliedwork.ApplyOptions
	Prune appliedwork.PruneOptions
	Evict appliedwork.EvictOptions
	// PruneIncomplete prunes even if some objects of the work could not be applied. Use it if old
	// objects must be deleted before new ones can be applied. By default, a new version that fails
	// does not delete the old one.
	PruneIncomplete bool
	// Teardown are the options for a work that was removed.
	Teardown appliedwork.TeardownOptions
	// RetryAfter is the delay before pending objects are checked again. Defaults to 10 seconds.
	RetryAfter time.Duration
	// Resync is the period after which each AppliedWork is reconciled without a change, which
	// repairs changes by others. Each delay is up to a tenth longer. Defaults to 10 minutes. A
	// negative value disables it.
	Resync time.Duration
	// Watcher watches the applied objects, so that a change by others is repaired at once. With a
	// builder of your own, add it as a source too: see [Watcher]. Defaults to no Watcher.
	Watcher Watcher
	// NoAudit disables the survey before the first work. The survey lists all objects of the
	// cluster once, to find objects that late requests of an earlier process have created.
	NoAudit bool
}

func (o Options) withDefaults() (Options, error) {
	invalid := func(format string, args ...any) (Options, error) {
		return o, fmt.Errorf("%w: "+format, append([]any{appliedwork.ErrInvalidInput}, args...)...)
	}
	switch {
	case o.Desired == nil:
		return invalid("Options.Desired is required")
	case o.Hub == "" && o.Owns == nil:
		return invalid("Options.Hub is required: set it to the name of the hub, or set Options.Owns")
	case o.Hub != "" && o.Owns != nil:
		return invalid("Options.Hub: %q: must be empty if Options.Owns is set", o.Hub)
	case strings.ContainsFunc(o.ControllerName, notInNames):
		return invalid("Options.ControllerName: %q: must have only ASCII letters, digits and underscores", o.ControllerName)
	case o.RetryAfter < 0:
		return invalid("Options.RetryAfter: %v: must not be negative", o.RetryAfter)
	}
	for name, p := range map[string]appliedwork.Policies{
		"Apply": o.Apply.Policies, "Prune": o.Prune.Policies,
		"Evict.Teardown": o.Evict.Teardown.Policies, "Teardown": o.Teardown.Policies,
	} {
		if !reflect.ValueOf(p).IsZero() {
			return invalid("Options.%s.Policies must be empty: set Options.Policies", name)
		}
	}
	if o.Owns == nil {
		o.Owns = func(work *v1alpha1.AppliedWork) bool {
			return work.Name == appliedwork.NameFor(o.Hub, work.Spec.WorkNamespace, work.Spec.WorkName)
		}
	}
	o.ControllerName = cmp.Or(o.ControllerName, "appliedwork")
	o.RetryAfter = cmp.Or(o.RetryAfter, defaultRetryAfter)
	o.Resync = cmp.Or(o.Resync, defaultResync)
	return o, nil
}

func (o *Options) use(p appliedwork.Policies) {
	o.Apply.Policies, o.Prune.Policies, o.Teardown.Policies, o.Evict.Teardown.Policies = p, p, p, p
}

// Reconciler reconciles AppliedWorks. It may be used concurrently.
type Reconciler struct {
	opts      Options
	tracker   *appliedwork.Tracker
	applier   *appliedwork.Applier
	pruner    *appliedwork.Pruner
	collector *appliedwork.Collector
	earlier   earlier
}

// New returns a Reconciler. The error is an appliedwork.ErrInvalidInput.
func New(opts Options) (*Reconciler, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	tracker, err := appliedwork.NewTracker(opts.Options)
	if err != nil {
		return nil, err
	}
	if opts.Inventory == nil {
		opts.Inventory = opts.Client
	}
	opts.use(opts.Policies)
	return &Reconciler{
		opts: opts, tracker: tracker, applier: appliedwork.NewApplier(tracker), pruner: appliedwork.NewPruner(tracker),
		collector: appliedwork.NewCollector(tracker),
	}, nil
}

// notInNames reports whether controller-runtime forbids a character in names of controllers.
func notInNames(r rune) bool {
	return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
}

// Tracker returns the tracker. Call its Ensure for each new work of the hub.
func (r *Reconciler) Tracker() *appliedwork.Tracker { return r.tracker }

// SetupWithManager adds a controller for AppliedWorks to a manager, whose scheme needs no types of
// this module. The CRD must be installed before the manager starts: see [v1alpha1.EnsureCRD]. It
// returns an error if the process has another controller named [Options].ControllerName.
func (r *Reconciler) SetupWithManager(m manager.Manager) error {
	watched := &unstructured.Unstructured{} // the manager's scheme needs no types of this module
	watched.SetGroupVersionKind(v1alpha1.GroupVersionKind)
	// A change of the status is no reason to reconcile: only we write it.
	changed := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
	b := builder.ControllerManagedBy(m).Named(r.opts.ControllerName).For(watched, builder.WithPredicates(changed))
	if r.opts.Watcher != nil {
		b = b.WatchesRawSource(r.opts.Watcher)
	}
	return b.Complete(r)
}

// Reconcile applies, prunes or tears down one AppliedWork, as its [Want] requires.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	raw, err := r.opts.Inventory.Resource(v1alpha1.GroupVersionResource).Get(ctx, request.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && !appliedwork.IsTypeNotServed(err) {
		return reconcile.Result{}, r.watch(&v1alpha1.AppliedWork{ObjectMeta: metav1.ObjectMeta{Name: request.Name}}, nil)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	work := &v1alpha1.AppliedWork{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw.Object, work); err != nil {
		return reconcile.Result{}, reconcile.TerminalError(err)
	}
	opts := r.opts // of this work
	switch {
	case work.Labels[v1alpha1.LabelShardOf] != "", !r.opts.Owns(work): // the AppliedWork of a shard has its own requests
		return reconcile.Result{}, nil
	case work.Annotations[v1alpha1.AnnotationTerminating] == "Release":
		changes, err := r.collector.Release(ctx, work, appliedwork.ReleaseOptions{})
		return r.end(ctx, work, changes, err)
	case work.DeletionTimestamp != nil && work.Annotations[v1alpha1.AnnotationTerminating] == "":
		return reconcile.Result{}, r.watch(work, nil) // Kubernetes' garbage collector deletes the objects
	}
	want, err := r.opts.Desired.Desired(ctx, work)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("get the desired objects of work %s/%s: %w",
			work.Spec.WorkNamespace, work.Spec.WorkName, err)
	}
	if want.Policies != nil {
		opts.use(*want.Policies)
	}
	if work.Annotations[v1alpha1.AnnotationTerminating] != "" { // finish the teardown, with the policies of the work
		if work.Annotations[v1alpha1.AnnotationEvictionStart] != "" {
			return r.teardown(ctx, work, opts.Evict.Teardown)
		}
		return r.teardown(ctx, work, opts.Teardown)
	}
	return r.reconcile(ctx, work, want, opts)
}

func (r *Reconciler) reconcile(
	ctx context.Context, work *v1alpha1.AppliedWork, want Want, opts Options,
) (reconcile.Result, error) {
	if want.Evicted && !want.Removed {
		eviction, err := r.collector.Evict(ctx, work, opts.Evict)
		if eviction == nil || eviction.Changes == nil {
			if err != nil {
				return reconcile.Result{}, err
			}
			return reconcile.Result{RequeueAfter: eviction.Remaining}, nil
		}
		return r.end(ctx, work, eviction.Changes, err)
	}
	if work.Annotations[v1alpha1.AnnotationEvictionStart] != "" {
		if err := r.collector.CancelEviction(ctx, work); err != nil {
			return reconcile.Result{}, err
		}
	}
	if want.Removed {
		return r.teardown(ctx, work, opts.Teardown)
	}
	audited, err := r.audit(ctx, work)
	if err != nil {
		return reconcile.Result{}, err
	}
	changes, err := r.applier.Apply(ctx, work, want.Objects, opts.Apply)
	if opts.PruneIncomplete || err == nil && changes.Done() {
		opts.Prune.ByKey = opts.Apply.ByKey
		pruned, pruneErr := r.pruner.Prune(ctx, work, want.Objects, opts.Prune)
		changes.Entries, err = append(changes.Entries, pruned.Entries...), errors.Join(err, pruneErr)
	}
	if r.opts.Watcher != nil {
		entries, entriesErr := r.tracker.Entries(ctx, work)
		if entriesErr == nil {
			entriesErr = r.watch(work, append(entries, unmanaged(changes)...))
		}
		err = errors.Join(err, entriesErr)
	}
	return r.result(ctx, work, changes, audited, err)
}

func (r *Reconciler) teardown(
	ctx context.Context, work *v1alpha1.AppliedWork, opts appliedwork.TeardownOptions,
) (reconcile.Result, error) {
	changes, err := r.collector.Teardown(ctx, work, opts)
	return r.end(ctx, work, changes, err)
}

// end is result for a work that ends. Only the objects that block a Namespace are watched.
func (r *Reconciler) end(
	ctx context.Context, work *v1alpha1.AppliedWork, changes *appliedwork.ChangeSet, err error,
) (reconcile.Result, error) {
	err = errors.Join(err, r.watch(work, unmanaged(changes)))
	result, err := r.result(ctx, work, changes, true, err)
	if changes.Done() {
		result.RequeueAfter = 0
	}
	return result, err
}

func (r *Reconciler) watch(work *v1alpha1.AppliedWork, entries []v1alpha1.AppliedResourceMeta) error {
	if r.opts.Watcher == nil {
		return nil
	}
	if err := r.opts.Watcher.Watch(work, entries); err != nil {
		return fmt.Errorf("watch the objects of %s: %w", work.Name, err)
	}
	return nil
}

func unmanaged(changes *appliedwork.ChangeSet) (objects []v1alpha1.AppliedResourceMeta) {
	for _, c := range changes.Entries {
		if blocked, ok := errors.AsType[*appliedwork.PruneBlockedError](c.Err); ok {
			objects = append(objects, blocked.Objects...)
		}
	}
	return objects
}

// onlyContent reports whether an error is only about content of Namespaces: a retry is no help.
func onlyContent(err error) bool {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(many.Unwrap(), func(err error) bool { return !onlyContent(err) })
	}
	blocked, ok := errors.AsType[*appliedwork.PruneBlockedError](err)
	return ok && (blocked.Reason == appliedwork.BlockReasonNamespaceNotEmpty ||
		blocked.Reason == appliedwork.BlockReasonNamespaceUnreadable)
}

// result retries errors with the controller's backoff, and pending objects after RetryAfter.
// Otherwise, the work is reconciled at the next change or resync.
func (r *Reconciler) result(
	ctx context.Context, work *v1alpha1.AppliedWork, changes *appliedwork.ChangeSet, audited bool, err error,
) (reconcile.Result, error) {
	klog.FromContext(ctx).V(2).Info("Reconciled an AppliedWork", "appliedWork", work.Name, "changes", changes.String())
	resync := r.opts.Resync
	switch {
	case err != nil && changes.Count(appliedwork.ActionPending) == 0 && audited && onlyContent(err):
		klog.FromContext(ctx).Info("Kept Namespaces with unmanaged objects", "appliedWork", work.Name, "err", err)
		if resync < 0 {
			resync = defaultResync
		}
	case err != nil:
		return reconcile.Result{}, err
	case !changes.Done() || !audited:
		return reconcile.Result{RequeueAfter: r.opts.RetryAfter}, nil
	case resync < 0:
		return reconcile.Result{}, nil
	}
	return reconcile.Result{RequeueAfter: wait.Jitter(resync, 0.1)}, nil
}
