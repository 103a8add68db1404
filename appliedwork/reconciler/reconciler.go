// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

const defaultRetryAfter = 10 * time.Second

// Want is what a work wants on the cluster.
type Want struct {
	// Objects are its manifests; nil elements stand for those that could not be decoded.
	Objects []*unstructured.Unstructured
	// Removed says that the work is gone from the hub, which the hub has said: everything is torn down.
	Removed bool
	// Evicted says that the hub does not want anything of the work here: it is torn down after a grace period, which a Want
	// without it ends.
	Evicted bool
}

// Desired knows what works want.
type Desired interface {
	// Desired returns what a work wants, for each AppliedWork of the cluster that Options.Owns does not leave out: Removed for
	// one that the hub does not know deletes the objects of another hub's. After an error nothing is applied and nothing deleted, and it is asked again.
	// It may be called concurrently.
	Desired(ctx context.Context, work *v1alpha1.AppliedWork) (Want, error)
}

// DesiredFunc is a function as a Desired.
type DesiredFunc func(ctx context.Context, work *v1alpha1.AppliedWork) (Want, error)

// Desired calls f.
func (f DesiredFunc) Desired(ctx context.Context, work *v1alpha1.AppliedWork) (Want, error) {
	return f(ctx, work)
}

// Options are the options of a Reconciler. Options.Client, Options.Discovery and Desired are required.
type Options struct {
	appliedwork.Options
	// ControllerName is the name of the controller that SetupWithManager adds, in its logs and metrics: ASCII letters, digits and
	// underscores. Controllers of one process have different names, so that an agent of several hubs names the controller of each
	// of its Reconcilers. Defaults to "appliedwork".
	ControllerName string
	// Desired knows what works want.
	Desired Desired
	// Owns says which AppliedWorks are this agent's: those of others, as of the agent of another hub, are left alone, and Desired
	// is not asked about them. The spec does not name the hub; with the names of appliedwork.NameFor it is
	//
	//	work.Name == appliedwork.NameFor(hub, work.Spec.WorkNamespace, work.Spec.WorkName)
	//
	// Defaults to all on the cluster. It may be called concurrently.
	Owns func(work *v1alpha1.AppliedWork) bool
	// Apply, Prune and Evict are how it is done. An empty work prunes all only with Prune.AllowEmpty.
	Apply appliedwork.ApplyOptions
	Prune appliedwork.PruneOptions
	Evict appliedwork.EvictOptions
	// Teardown is how a work that is removed ends.
	Teardown appliedwork.TeardownOptions
	// RetryAfter is when to look again at what is pending. Defaults to 10 seconds.
	RetryAfter time.Duration
	// NoAudit leaves out the survey before the first work, which lists all objects of the cluster once: it finds what requests of
	// an earlier process have made after that had ended.
	NoAudit bool
}

// Reconciler reconciles AppliedWorks. It may be used concurrently.
type Reconciler struct {
	opts      Options
	tracker   *appliedwork.Tracker
	applier   *appliedwork.Applier
	pruner    *appliedwork.Pruner
	collector *appliedwork.Collector

	mu        sync.Mutex
	untracked map[types.UID][]v1alpha1.AppliedResourceMeta // by AppliedWork; nil until the cluster was looked at
}

// New returns a Reconciler. The error is an appliedwork.ErrInvalidInput.
func New(opts Options) (*Reconciler, error) {
	if opts.Desired == nil {
		return nil, fmt.Errorf("%w: Options.Desired is required", appliedwork.ErrInvalidInput)
	}
	if strings.ContainsFunc(opts.ControllerName, notInNames) {
		return nil, fmt.Errorf("%w: Options.ControllerName is %q: it has ASCII letters, digits and underscores only", appliedwork.ErrInvalidInput, opts.ControllerName)
	}
	if opts.ControllerName == "" {
		opts.ControllerName = "appliedwork"
	}
	if opts.RetryAfter < 0 {
		return nil, fmt.Errorf("%w: Options.RetryAfter is negative", appliedwork.ErrInvalidInput)
	}
	if opts.RetryAfter == 0 {
		opts.RetryAfter = defaultRetryAfter
	}
	tracker, err := appliedwork.NewTracker(opts.Options)
	if err != nil {
		return nil, err
	}
	return &Reconciler{
		opts: opts, tracker: tracker, applier: appliedwork.NewApplier(tracker), pruner: appliedwork.NewPruner(tracker),
		collector: appliedwork.NewCollector(tracker),
	}, nil
}

// notInNames is what controller-runtime does not want in names of controllers, since metrics have them.
func notInNames(r rune) bool {
	return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
}

// Tracker returns the tracker, to Ensure AppliedWorks with.
func (r *Reconciler) Tracker() *appliedwork.Tracker { return r.tracker }

// SetupWithManager adds a controller for AppliedWorks to a manager. It fails where the process has a controller of that name.
func (r *Reconciler) SetupWithManager(m manager.Manager) error {
	watched := &unstructured.Unstructured{} // no type of ours has to be in the manager's scheme
	watched.SetGroupVersionKind(v1alpha1.GroupVersionKind)
	// The status is what we write: it is no reason to reconcile.
	changed := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
	return builder.ControllerManagedBy(m).Named(r.opts.ControllerName).For(watched, builder.WithPredicates(changed)).Complete(r)
}

// Reconcile brings one AppliedWork to what its work wants.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	raw, err := r.opts.Client.Resource(v1alpha1.GroupVersionResource).Get(ctx, request.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && !appliedwork.IsTypeNotServed(err) {
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	work := &v1alpha1.AppliedWork{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw.Object, work); err != nil {
		return reconcile.Result{}, reconcile.TerminalError(err)
	}
	switch {
	case work.Labels[v1alpha1.LabelShardOf] != "":
		return reconcile.Result{}, nil // it is part of another
	case r.opts.Owns != nil && !r.opts.Owns(work):
		return reconcile.Result{}, nil
	case work.Annotations[v1alpha1.AnnotationTerminating] == "Release":
		changes, err := r.collector.Release(ctx, work, appliedwork.ReleaseOptions{})
		return r.result(ctx, work, changes, err)
	case work.Annotations[v1alpha1.AnnotationTerminating] != "" && work.Annotations[v1alpha1.AnnotationEvictionStart] != "":
		return r.teardown(ctx, work, r.opts.Evict.Teardown) // as it was begun
	case work.Annotations[v1alpha1.AnnotationTerminating] != "":
		return r.teardown(ctx, work, r.opts.Teardown)
	case work.DeletionTimestamp != nil:
		return reconcile.Result{}, nil // Kubernetes' collector does it
	}
	return r.reconcile(ctx, work)
}

func (r *Reconciler) reconcile(ctx context.Context, work *v1alpha1.AppliedWork) (reconcile.Result, error) {
	want, err := r.opts.Desired.Desired(ctx, work)
	switch {
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("what work %s/%s wants: %w", work.Spec.WorkNamespace, work.Spec.WorkName, err)
	case want.Evicted && !want.Removed:
		eviction, err := r.collector.Evict(ctx, work, r.opts.Evict)
		if eviction == nil || eviction.Changes == nil {
			if err != nil {
				return reconcile.Result{}, err
			}
			return reconcile.Result{RequeueAfter: eviction.Remaining}, nil
		}
		return r.result(ctx, work, eviction.Changes, err)
	}
	if work.Annotations[v1alpha1.AnnotationEvictionStart] != "" {
		if err := r.collector.CancelEviction(ctx, work); err != nil {
			return reconcile.Result{}, err
		}
	}
	if want.Removed {
		return r.teardown(ctx, work, r.opts.Teardown)
	}
	if err := r.audit(ctx, work); err != nil {
		return reconcile.Result{}, err
	}
	applied, applyErr := r.applier.Apply(ctx, work, want.Objects, r.opts.Apply)
	pruned, pruneErr := r.pruner.Prune(ctx, work, want.Objects, r.opts.Prune)
	both := &appliedwork.ChangeSet{Entries: append(applied.Entries, pruned.Entries...)}
	return r.result(ctx, work, both, errors.Join(applyErr, pruneErr))
}

func (r *Reconciler) teardown(ctx context.Context, work *v1alpha1.AppliedWork, opts appliedwork.TeardownOptions) (reconcile.Result, error) {
	changes, err := r.collector.Teardown(ctx, work, opts)
	return r.result(ctx, work, changes, err)
}

// audit records what an earlier process has left untracked of a work, once for each that there was when this process began.
func (r *Reconciler) audit(ctx context.Context, work *v1alpha1.AppliedWork) error {
	if r.opts.NoAudit {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.untracked == nil {
		survey, err := r.collector.Survey(ctx, appliedwork.SurveyOptions{})
		if err != nil {
			return fmt.Errorf("look for what an earlier process has left untracked: %w", err)
		}
		if n := len(survey.Unread); n > 0 {
			klog.FromContext(ctx).Info("Could not look everywhere for what an earlier process has left untracked", "unread", n, "err", first(survey.Unread))
		}
		r.untracked = survey.Untracked
	}
	objects := r.untracked[work.UID]
	if len(objects) == 0 {
		return nil
	}
	if err := r.tracker.RecordApplied(ctx, work, objects...); err != nil {
		return fmt.Errorf("record what is untracked of %s: %w", work.Name, err)
	}
	klog.FromContext(ctx).Info("Recorded objects that an earlier process has left untracked", "appliedWork", work.Name, "objects", len(objects))
	delete(r.untracked, work.UID)
	return nil
}

// first returns one of the errors, the same each time.
func first(errs map[string]error) error {
	name := slices.Min(slices.Collect(maps.Keys(errs)))
	return fmt.Errorf("%s: %w", name, errs[name])
}

// result retries errors with the controller's backoff, and looks again at what is pending.
func (r *Reconciler) result(ctx context.Context, work *v1alpha1.AppliedWork, changes *appliedwork.ChangeSet, err error) (reconcile.Result, error) {
	klog.FromContext(ctx).V(2).Info("Reconciled an AppliedWork", "appliedWork", work.Name, "changes", changes.String())
	if err != nil || changes.Done() {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: r.opts.RetryAfter}, nil
}
