// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
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

	"github.com/spokewire/sdk-go/examples/hub/internal/status"
	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/customization/kinds"
	"github.com/spokewire/sdk-go/interpreter/native"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/manifestwork"
)

// workers is the number of works that are evaluated concurrently, because webhooks may be slow.
const workers = 8

// Deadline is how long an object may be Progressing until it is Degraded, as in the agent's default
// for --degraded-after.
const Deadline = 5 * time.Minute

// ReasonClusterUnreachable is the reason of a condition that the agent reports while the API server
// of its cluster does not answer.
const ReasonClusterUnreachable = "ClusterUnreachable"

// Verdict is the status of an object. Its reason contains no content of the object.
type Verdict struct {
	Object appcontext.Object
	status.Status

	evaluated   bool   // by an interpreter
	manifest    string // that was evaluated
	report      report
	degraded    bool // by its agent
	interpreted bool // not by the native kinds
	healthy     bool // by its interpreter
}

// At returns the status at a time: an object that is Progressing for too long is Degraded.
func (v *Verdict) At(now time.Time) status.Status {
	s := v.Status
	if s.Health == status.Progressing && now.Sub(s.Since) > Deadline {
		s.Health = status.Degraded
		s.Reason = strings.TrimPrefix(fmt.Sprintf("%s, for longer than 5 minutes", s.Reason), ", ")
	}
	return s
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
	pending := k.looked != w
	k.verdicts, k.looked = after, w
	t.mu.Unlock()
	if pending || !slices.Equal(before, after) {
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
	for _, i := range []Interpreter{t.own, t.native, t.kinds} {
		healthy, err = i.Health(ctx, object)
		if errors.Is(err, interpreter.ErrNotInterpreted) {
			continue
		}
		if v.interpreted = i != t.native; !v.interpreted && err == nil && v.report.status == "" {
			v.Sync, v.Reason = status.Synced, "its agent has not reported its status"
			return v, nil
		}
		break
	}
	v.Status, v.evaluated, v.healthy = status.Status{Sync: status.Synced, Health: status.Healthy}, true, healthy
	switch {
	case errors.Is(err, interpreter.ErrNotInterpreted):
		v.interpreted, err = false, nil
	case err != nil:
		v.Health, v.Reason = status.Unknown, fmt.Sprintf("its interpreter failed: %v", err)
	case !healthy:
		v.Health, v.Reason = progress(object)
		if v.degraded && v.Health == status.Progressing {
			v.Health = status.Degraded
		}
	}
	if v.Health != status.Degraded && isSuspended(object) {
		v.Health, v.Reason = status.Suspended, "it is paused by its manifest"
	}
	return v, err
}

// reportedTrouble returns the status of an object that its agent reports as not applied, missing, or
// not readable; otherwise it is empty.
func reportedTrouble(c *workv1.ManifestCondition) status.Status {
	applied := meta.FindStatusCondition(c.Conditions, workv1.ManifestApplied)
	available := meta.FindStatusCondition(c.Conditions, workv1.ManifestAvailable)
	switch {
	case available != nil && available.Reason == ReasonClusterUnreachable:
		return status.Status{Sync: status.SyncUnknown, Health: status.Unknown, Reason: "its cluster cannot be read"}
	case applied != nil && applied.Status == metav1.ConditionFalse:
		return status.Status{Sync: status.OutOfSync, Health: status.Degraded,
			Reason: applied.Reason + ": " + applied.Message}
	case available != nil && available.Status == metav1.ConditionFalse:
		return status.Status{Sync: status.Synced, Health: status.Missing, Reason: "it does not exist on the cluster"}
	}
	return status.Status{}
}
