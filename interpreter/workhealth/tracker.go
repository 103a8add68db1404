// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package workhealth

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/internal/cut"
	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/customization/kinds"
	"github.com/spokewire/sdk-go/interpreter/native"
)

// workers is the number of works that are evaluated concurrently, because webhooks may be slow.
const workers = 8

// ReasonClusterUnreachable is the reason of a condition that the agent reports while the API server
// of its cluster does not answer.
const ReasonClusterUnreachable = "ClusterUnreachable"

// Interpreter reports whether an object is healthy. It returns [interpreter.ErrNotInterpreted] for a
// kind without an answer. The interpreters of this module implement it. It may be called concurrently.
type Interpreter interface {
	// Health reports whether an object with a status is healthy. It must not change the object.
	Health(ctx context.Context, object *unstructured.Unstructured) (bool, error)
}

// Options configures [New]; the zero value is useful.
type Options struct {
	// LabelSelector selects works. Defaults to all works of the clientset.
	LabelSelector string
	// Interpreter is called before packages native and customization/kinds. Defaults to no interpreter.
	Interpreter Interpreter
	// Changed is called after changes of works and of statuses. It must return at once, and may be
	// called concurrently.
	Changed func()
}

// Tracker tracks the health of all objects in works. Its methods may be called concurrently.
type Tracker struct {
	interpreters []Interpreter
	native       Interpreter
	factory      workinformers.SharedInformerFactory
	synced       cache.InformerSynced // Works has all works that existed at the start
	queue        workqueue.TypedRateLimitingInterface[string]
	changed      func()

	mu       sync.Mutex
	works    map[string]*known           // by namespace/name
	written  map[string]written          // newer than the informer, by namespace/name
	places   map[identity]place          // of the manifests in works
	round    int                         // incremented when all must be evaluated again
	watchers map[string]map[*func()]bool // by namespace
}

// New returns a tracker of the works of a clientset. The error is about an invalid LabelSelector.
func New(works workclientset.Interface, options Options) (*Tracker, error) {
	if _, err := labels.Parse(options.LabelSelector); err != nil {
		return nil, fmt.Errorf("invalid Options.LabelSelector: %q: %w", options.LabelSelector, err)
	}
	t := &Tracker{
		native: native.New(), changed: options.Changed,
		works: map[string]*known{}, written: map[string]written{}, places: map[identity]place{},
		watchers: map[string]map[*func()]bool{},
	}
	if options.Interpreter != nil {
		t.interpreters = append(t.interpreters, options.Interpreter)
	}
	t.interpreters = append(t.interpreters, t.native, kinds.New())
	if t.changed == nil {
		t.changed = func() {}
	}
	t.factory = workinformers.NewSharedInformerFactoryWithOptions(works, 0,
		workinformers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = options.LabelSelector }))
	handler, err := t.factory.Work().V1().ManifestWorks().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: t.note, UpdateFunc: func(_, now any) { t.note(now) }, DeleteFunc: t.forget,
	})
	if err != nil {
		return nil, err
	}
	t.synced = handler.HasSynced
	return t, nil
}

// Synced waits until all works that existed when Start was called are known. It returns false if
// ctx ends before.
func (t *Tracker) Synced(ctx context.Context) bool {
	return cache.WaitForCacheSync(ctx.Done(), t.synced)
}

// Start runs the tracker until ctx ends, and returns nil. Call it once.
func (t *Tracker) Start(ctx context.Context) error {
	// The informer is the first to add to the queue.
	t.queue = workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second,
		time.Minute))
	t.factory.Start(ctx.Done())
	defer t.factory.Shutdown()
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for t.Synced(ctx) && t.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	t.queue.ShutDown()
	group.Wait()
	return nil
}

// Refresh evaluates all objects again, after a change of the interpreters. Until then their works are
// [Work].Pending.
func (t *Tracker) Refresh() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.round++
	for key, k := range t.works {
		k.statuses, k.looked = slices.Clone(k.statuses), nil
		for i := range k.statuses {
			k.statuses[i].manifest = "" // matches no manifest
		}
		t.queue.Add(key)
	}
}

func (t *Tracker) next(ctx context.Context) bool {
	key, shutdown := t.queue.Get()
	if shutdown {
		return false
	}
	defer t.queue.Done(key)
	if err := t.look(ctx, key); err != nil {
		t.queue.AddRateLimited(key)
	} else {
		t.queue.Forget(key)
	}
	return true
}

// look evaluates the objects of a work. It returns an error if an interpreter must be called again.
func (t *Tracker) look(ctx context.Context, key string) error {
	t.mu.Lock()
	k, round := t.works[key], t.round
	if k == nil {
		t.mu.Unlock()
		return nil // it was deleted
	}
	w, before := k.work, k.statuses
	t.mu.Unlock()
	var failures []error
	after := make([]ObjectStatus, len(before))
	for i := range after {
		v, err := t.judge(ctx, w, &k.manifests[i], &before[i])
		if err != nil {
			failures = append(failures, err)
			v.manifest = "" // evaluated again next time
		}
		v.Reason = cut.Within(v.Reason, maxReason)
		if v.Since = before[i].Since; v.Health != before[i].Health || v.Since.IsZero() {
			v.Since = time.Now()
		}
		after[i] = v
	}
	t.mu.Lock()
	if t.works[key] != k || t.round != round { // it is queued again
		t.mu.Unlock()
		return nil
	}
	pending := k.looked != w
	k.statuses, k.looked = after, w
	t.mu.Unlock()
	if pending || !slices.Equal(before, after) {
		t.notify(w.Namespace)
	}
	return errors.Join(failures...)
}

// OnChange calls a function after changes of statuses in a namespace, until end is called. The
// function must return at once, and may be called concurrently.
func (t *Tracker) OnChange(namespace string, changed func()) (end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.watchers[namespace] == nil {
		t.watchers[namespace] = map[*func()]bool{}
	}
	t.watchers[namespace][&changed] = true
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if delete(t.watchers[namespace], &changed); len(t.watchers[namespace]) == 0 {
			delete(t.watchers, namespace)
		}
	}
}

// notify reports a change of statuses in a namespace.
func (t *Tracker) notify(namespace string) {
	t.mu.Lock()
	watchers := slices.Collect(maps.Keys(t.watchers[namespace]))
	t.mu.Unlock()
	for _, f := range watchers {
		(*f)()
	}
	t.changed()
}

// Ready reports whether the interpreters permit that an object in a work of a namespace counts as
// ready, by an agent's report on it; otherwise why is the reason. It is for controllers that have
// rules of their own for built-in kinds, so it ignores the health that package native reports.
func (t *Tracker) Ready(namespace string, o Object, c *workv1.ManifestCondition) (ready bool, why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var s ObjectStatus
	at, known := t.places[identity{namespace, o}]
	if known {
		s = t.works[at.key].statuses[at.index]
	}
	switch {
	case s.manifest == "" || s.report != reportOf(c):
		return false, "its interpreter has not answered yet" // OnChange reports the result
	case s.interpreted && !s.healthy && s.Health == HealthUnknown:
		return false, s.Reason
	case s.interpreted && !s.healthy:
		return false, "its interpreter reports that it is not healthy"
	}
	return true, ""
}

// judge evaluates one object. It returns an error if the interpreter must be called again.
func (t *Tracker) judge(
	ctx context.Context, w *workv1.ManifestWork, m *manifest, was *ObjectStatus,
) (ObjectStatus, error) {
	v := unreported(m.object)
	v.manifest = m.text
	condition := conditionOf(w, m.object, m.index)
	if condition == nil {
		return v, nil
	}
	v.report = reportOf(condition)
	v.degraded = meta.IsStatusConditionTrue(condition.Conditions, workv1.ManifestDegraded)
	if found := reportedTrouble(condition); found.Health != "" {
		v.Status = found
		return v, nil
	}
	if was.evaluated && was.manifest == v.manifest && was.report == v.report && was.degraded == v.degraded {
		return *was, nil
	}
	object, err := objectWith([]byte(m.text), v.report)
	if err != nil {
		v.Reason = "its status is invalid"
		return v, nil
	}
	var healthy bool
	for _, i := range t.interpreters {
		healthy, err = i.Health(ctx, object)
		if errors.Is(err, interpreter.ErrNotInterpreted) {
			continue
		}
		if v.interpreted = i != t.native; !v.interpreted && err == nil && v.report.status == "" {
			v.Sync, v.Reason = SyncSynced, "its agent has not reported its status"
			return v, nil
		}
		break
	}
	v.Status, v.evaluated, v.healthy = Status{Sync: SyncSynced, Health: HealthHealthy}, true, healthy
	switch {
	case errors.Is(err, interpreter.ErrNotInterpreted):
		v.interpreted, err = false, nil
	case err != nil:
		v.Health, v.Reason = HealthUnknown, fmt.Sprintf("its interpreter failed: %v", err)
	case !healthy:
		v.Health, v.Reason = progress(object)
		if v.degraded && v.Health == HealthProgressing {
			v.Health = HealthDegraded
		}
	}
	if v.Health != HealthDegraded && isSuspended(object) {
		v.Health, v.Reason = HealthSuspended, "it is paused by its manifest"
	}
	return v, err
}

// reportedTrouble returns the status of an object that its agent reports as not applied, missing, or
// not readable; otherwise it is empty.
func reportedTrouble(c *workv1.ManifestCondition) Status {
	applied := meta.FindStatusCondition(c.Conditions, workv1.ManifestApplied)
	available := meta.FindStatusCondition(c.Conditions, workv1.ManifestAvailable)
	switch {
	case available != nil && available.Reason == ReasonClusterUnreachable:
		return Status{Sync: SyncUnknown, Health: HealthUnknown, Reason: "its cluster cannot be read"}
	case applied != nil && applied.Status == metav1.ConditionFalse:
		return Status{Sync: SyncOutOfSync, Health: HealthDegraded,
			Reason: applied.Reason + ": " + applied.Message}
	case available != nil && available.Status == metav1.ConditionFalse:
		return Status{Sync: SyncSynced, Health: HealthMissing, Reason: "it does not exist on the cluster"}
	}
	return Status{}
}
