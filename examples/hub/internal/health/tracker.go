// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package health

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
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/customization/kinds"
	"github.com/spokewire/sdk-go/interpreter/native"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/manifestwork"
)

// workers is the number of works that are evaluated concurrently, because webhooks may be slow.
const workers = 8

// Health is the health of an object.
type Health string

// The values of [Health].
const (
	Healthy   Health = "Healthy"
	Unhealthy Health = "Unhealthy"
	// Unknown means that the agent has not reported its status, or the interpreter failed.
	Unknown Health = "Unknown"
	// Applied and NotApplied are for kinds without an interpreter. NotApplied is also for all
	// objects that the agent could not apply.
	Applied    Health = "Applied"
	NotApplied Health = "NotApplied"
)

// Verdict is the health of an object, with its reason.
type Verdict struct {
	Object appcontext.Object
	Health Health
	// Message is an explanation, or empty. It contains no content of the object.
	Message string
	Since   time.Time

	reported    bool   // its agent has reported it
	manifest    string // that was evaluated
	report      report
	interpreted bool // not by the native kinds
}

// Interpreter reports whether an object is healthy, as in connector/kube of rsync.
type Interpreter interface {
	Health(ctx context.Context, object *unstructured.Unstructured) (bool, error)
}

// Tracker tracks the health of all objects in works. Its methods may be called concurrently.
type Tracker struct {
	own     Interpreter
	native  Interpreter
	kinds   Interpreter
	factory workinformers.SharedInformerFactory
	synced  cache.InformerSynced // Works has all works that existed at the start
	queue   workqueue.TypedRateLimitingInterface[string]
	changed func()

	mu       sync.Mutex
	works    map[string]*known             // by namespace/name
	written  map[string]written            // newer than the informer, by namespace/name
	places   map[appcontext.Identity]place // of the manifests in works
	round    int                           // incremented when all must be evaluated again
	watchers map[string]map[*func()]bool   // by cluster
}

// New returns a tracker of the works of a manager (manifestwork.Options) in a clientset. It calls
// own first, then package native, then package kinds. The results of own and kinds also decide about
// readiness. changed is called after changes, and must return at once.
func New(works workclientset.Interface, manager string, own Interpreter, changed func()) (*Tracker, error) {
	t := &Tracker{
		own: own, native: native.New(), kinds: kinds.New(), changed: changed,
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second,
			time.Minute)),
		works: map[string]*known{}, written: map[string]written{}, places: map[appcontext.Identity]place{},
		watchers: map[string]map[*func()]bool{},
	}
	t.factory = workinformers.NewSharedInformerFactoryWithOptions(works, 0,
		workinformers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.LabelSelector = manifestwork.LabelManager + "=" + manager
		}))
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

// Start runs the tracker until ctx ends.
func (t *Tracker) Start(ctx context.Context) error {
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

// Refresh evaluates all objects again, after a change of the interpreters.
func (t *Tracker) Refresh() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.round++
	for key, k := range t.works {
		k.verdicts = slices.Clone(k.verdicts)
		for i := range k.verdicts {
			k.verdicts[i].manifest = "" // matches no manifest
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
	w, before := k.work, k.verdicts
	t.mu.Unlock()
	var failures []error
	after := make([]Verdict, len(before))
	for i := range after {
		v, err := t.judge(ctx, w, &k.manifests[i], &before[i])
		if err != nil {
			failures = append(failures, err)
			v.manifest = "" // evaluated again next time
		}
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
	k.verdicts = after
	t.mu.Unlock()
	if !slices.Equal(before, after) {
		t.notify(w.Namespace)
	}
	return errors.Join(failures...)
}

// notify calls the watchers of a cluster, after a change.
func (t *Tracker) notify(cluster string) {
	t.mu.Lock()
	watchers := slices.Collect(maps.Keys(t.watchers[cluster]))
	t.mu.Unlock()
	for _, f := range watchers {
		(*f)()
	}
	t.changed()
}

// judge evaluates one object. It returns an error if the interpreter must be called again.
func (t *Tracker) judge(ctx context.Context, w *workv1.ManifestWork, m *manifest, was *Verdict) (Verdict, error) {
	v := unreported(m.object)
	v.manifest = m.text
	condition := conditionOf(w, m.object, m.index)
	if condition == nil {
		return v, nil
	}
	applied := meta.FindStatusCondition(condition.Conditions, workv1.ManifestApplied)
	v.reported, v.report = true, reportOf(condition)
	if applied != nil && applied.Status == metav1.ConditionFalse {
		v.Health, v.Message = NotApplied, applied.Reason+": "+applied.Message
		return v, nil
	}
	if was.manifest == v.manifest && was.report == v.report && was.reported && was.Health != NotApplied {
		return *was, nil
	}
	object, err := objectWith([]byte(m.text), v.report)
	if err != nil {
		v.Message = "its status is invalid"
		return v, nil
	}
	var healthy bool
	for _, i := range []Interpreter{t.own, t.native, t.kinds} {
		healthy, err = i.Health(ctx, object)
		if errors.Is(err, interpreter.ErrNotInterpreted) {
			continue
		}
		if v.interpreted = i != t.native; !v.interpreted && err == nil && v.report.status == "" {
			v.Message = "its agent has not reported its status"
			return v, nil
		}
		break
	}
	switch {
	case errors.Is(err, interpreter.ErrNotInterpreted):
		v.Health, v.Message, err = Applied, "", nil
	case err != nil:
		v.Message = fmt.Sprintf("its interpreter failed: %v", err)
	case healthy:
		v.Health, v.Message = Healthy, ""
	default:
		v.Health, v.Message = Unhealthy, ""
	}
	return v, err
}
