// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/hub/internal/document"
	"github.com/spokewire/sdk-go/examples/hub/internal/status"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
)

// State is the function for manifestwork.Options, for one cluster. An object with an interpreter
// other than the native one is ready when that interpreter reports it as healthy.
func (t *Tracker) State(cluster string) func(*connector.State, workv1.ManifestCondition) {
	return func(s *connector.State, condition workv1.ManifestCondition) {
		if !s.Ready {
			return
		}
		v, known := t.verdict(cluster, s.Object)
		switch {
		case !known || v.manifest == "" || v.report != reportOf(&condition):
			s.Ready, s.Message = false, "its interpreter has not answered yet" // Watching reports the result
		case v.interpreted && !v.healthy:
			s.Ready, s.Message = false, "its interpreter reports that it is not healthy"
			if v.Health == status.Unknown {
				s.Message = v.Reason
			}
		}
	}
}

func (t *Tracker) verdict(cluster string, o appcontext.Object) (v Verdict, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, known := t.places[appcontext.Identity{Cluster: document.ClusterID(cluster), Object: o}]
	if known {
		v = t.works[at.key].verdicts[at.index]
	}
	return v, known
}

// Watching returns a connector of a cluster that also notifies the engine when the health of an
// object becomes known or changes.
func (t *Tracker) Watching(cluster string, c connector.Connector) connector.Connector {
	return &watching{c, t, cluster}
}

type watching struct {
	connector.Connector
	tracker *Tracker
	cluster string
}

// WatchStatus implements [connector.StatusWatcher].
func (w *watching) WatchStatus(ctx context.Context, changed func()) error {
	defer w.tracker.watch(w.cluster, changed)()
	return w.Connector.(connector.StatusWatcher).WatchStatus(ctx, changed)
}

// watch registers a function that is called on changes of a cluster, until end is called.
func (t *Tracker) watch(cluster string, changed func()) (end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.watchers[cluster] == nil {
		t.watchers[cluster] = map[*func()]bool{}
	}
	t.watchers[cluster][&changed] = true
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if delete(t.watchers[cluster], &changed); len(t.watchers[cluster]) == 0 {
			delete(t.watchers, cluster)
		}
	}
}

// written is a version of a work.
type written struct {
	uid        types.UID
	generation int64
}

// Writing returns a client for works that reports writes to the tracker. Otherwise an outdated work
// of the informer could be mistaken for the current one: see [Work].Behind.
func (t *Tracker) Writing(works worktyped.ManifestWorksGetter) worktyped.ManifestWorksGetter {
	return &writer{ManifestWorksGetter: works, tracker: t}
}

// writer is a client for all works, and for those of one namespace.
type writer struct {
	worktyped.ManifestWorksGetter
	worktyped.ManifestWorkInterface
	tracker   *Tracker
	namespace string
}

// ManifestWorks implements [worktyped.ManifestWorksGetter].
func (w *writer) ManifestWorks(namespace string) worktyped.ManifestWorkInterface {
	return &writer{nil, w.ManifestWorksGetter.ManifestWorks(namespace), w.tracker, namespace}
}

// Create records the created work.
func (w *writer) Create(
	ctx context.Context, work *workv1.ManifestWork, o metav1.CreateOptions,
) (*workv1.ManifestWork, error) {
	return w.note(w.ManifestWorkInterface.Create(ctx, work, o))
}

// Update records the updated work.
func (w *writer) Update(
	ctx context.Context, work *workv1.ManifestWork, o metav1.UpdateOptions,
) (*workv1.ManifestWork, error) {
	return w.note(w.ManifestWorkInterface.Update(ctx, work, o))
}

// Delete removes the record: the informer may never receive the work.
func (w *writer) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	err := w.ManifestWorkInterface.Delete(ctx, name, o)
	if err == nil {
		t := w.tracker
		t.mu.Lock()
		delete(t.written, w.namespace+"/"+name)
		t.mu.Unlock()
	}
	return err
}

func (w *writer) note(work *workv1.ManifestWork, err error) (*workv1.ManifestWork, error) {
	if err != nil {
		return work, err
	}
	t, key := w.tracker, work.Namespace+"/"+work.Name
	t.mu.Lock()
	defer t.mu.Unlock()
	if k := t.works[key]; k == nil || k.work.UID != work.UID || k.work.Generation < work.Generation {
		t.written[key] = written{work.UID, work.Generation}
	}
	return work, nil
}
