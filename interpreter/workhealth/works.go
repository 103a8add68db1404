// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package workhealth

import (
	"bytes"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	workv1 "open-cluster-management.io/api/work/v1"
)

// unreported returns the status of an object that the agent has not reported.
func unreported(o Object) ObjectStatus {
	return ObjectStatus{Object: o, Status: Status{
		Sync: SyncOutOfSync, Health: HealthUnknown, Reason: "its agent has not reported it yet",
	}}
}

// Work is a work with the health of its objects. It is shared, and must not be changed.
type Work struct {
	*workv1.ManifestWork
	Objects []ObjectStatus
	// Behind is whether a newer version of the work was written, and Pending whether the statuses of
	// its objects are those of an earlier report, or from before a [Tracker.Refresh].
	Behind, Pending bool
}

// Progress is the progress of an agent with a work.
type Progress string

// The values of [Progress].
const (
	// ProgressWaiting means that the agent has not reported this generation, or the work is being deleted.
	ProgressWaiting Progress = "Waiting"
	// ProgressRefused means that the agent could not apply all of this generation. It retries.
	ProgressRefused Progress = "Refused"
	// ProgressDegraded means that all is applied, and the agent reports the work as degraded.
	ProgressDegraded Progress = "Degraded"
	// ProgressCurrent means that all is applied.
	ProgressCurrent Progress = "Current"
)

// Progress returns the progress of the agent, with its message if there is a problem.
func (w *Work) Progress() (p Progress, message string) {
	applied := meta.FindStatusCondition(w.Status.Conditions, workv1.WorkApplied)
	if w.Behind || w.DeletionTimestamp != nil || applied == nil || applied.ObservedGeneration < w.Generation {
		return ProgressWaiting, ""
	}
	if applied.Reason == ReasonClusterUnreachable {
		return ProgressWaiting, applied.Message
	}
	if applied.Status != metav1.ConditionTrue {
		for i := range w.Objects { // the object has a better message than the work
			if v := &w.Objects[i]; v.Sync == SyncOutOfSync && v.Health == HealthDegraded {
				return ProgressRefused, v.Object.String() + ": " + v.Reason
			}
		}
		return ProgressRefused, applied.Reason + ": " + applied.Message
	}
	degraded := meta.FindStatusCondition(w.Status.Conditions, workv1.WorkDegraded)
	if degraded != nil && degraded.Status == metav1.ConditionTrue && degraded.ObservedGeneration >= w.Generation {
		return ProgressDegraded, degraded.Reason + ": " + degraded.Message
	}
	return ProgressCurrent, ""
}

// Joined reports whether an agent has ever reported the work.
func (w *Work) Joined() bool {
	return meta.FindStatusCondition(w.Status.Conditions, workv1.WorkApplied) != nil
}

// Unreachable returns the message of an agent if its cluster does not answer, or "".
func (w *Work) Unreachable() string {
	c := meta.FindStatusCondition(w.Status.Conditions, workv1.WorkAvailable)
	if c == nil || c.Reason != ReasonClusterUnreachable {
		return ""
	}
	return c.Message
}

// known is a work of the informer. Its manifests never change.
type known struct {
	work      *workv1.ManifestWork
	manifests []manifest
	statuses  []ObjectStatus       // of the manifests; shared, and replaced by a change
	looked    *workv1.ManifestWork // the version that was evaluated; nil after Refresh
}

// manifest is a valid manifest of a work: its object, its text, and its index in the work.
type manifest struct {
	object Object
	text   string
	index  int
}

// identity is an object on the cluster of a namespace.
type identity struct {
	namespace string
	object    Object
}

// place is the work that has an object, and the index of its manifest.
type place struct {
	key   string
	index int
}

// note records a work of the informer. Manifests are parsed only when they have changed. Calls are
// not concurrent.
func (t *Tracker) note(obj any) {
	w, ok := obj.(*workv1.ManifestWork)
	if !ok {
		return
	}
	key := w.Namespace + "/" + w.Name
	t.mu.Lock()
	before := t.works[key]
	t.mu.Unlock()
	k := before
	if before == nil || !slices.EqualFunc(before.work.Spec.Workload.Manifests, w.Spec.Workload.Manifests,
		func(a, b workv1.Manifest) bool { return bytes.Equal(a.Raw, b.Raw) }) {
		k = &known{manifests: manifestsOf(w)}
	}
	t.mu.Lock()
	k.work = w
	if k != before {
		t.replace(key, before, k)
	}
	if last := t.written[key]; last.uid == w.UID && last.generation <= w.Generation {
		delete(t.written, key)
	}
	t.mu.Unlock()
	t.queue.Add(key)
	t.changed()
}

func manifestsOf(w *workv1.ManifestWork) (out []manifest) {
	for i, m := range w.Spec.Workload.Manifests {
		if o, ok := objectOf(m.Raw); ok {
			out = append(out, manifest{o, string(m.Raw), i})
		}
	}
	return out
}

// replace replaces a work; nil is no work. Statuses of objects that stay in it are kept. The caller holds
// t.mu.
func (t *Tracker) replace(key string, before, after *known) {
	kept := map[Object]ObjectStatus{}
	if before != nil {
		for _, v := range before.statuses {
			kept[v.Object] = v
			if id := (identity{before.work.Namespace, v.Object}); t.places[id].key == key {
				delete(t.places, id)
			}
		}
	}
	if after == nil {
		delete(t.works, key)
		return
	}
	for i, m := range after.manifests {
		v, ok := kept[m.object]
		if !ok {
			v = unreported(m.object)
		}
		after.statuses = append(after.statuses, v)
		t.places[identity{after.work.Namespace, m.object}] = place{key, i}
	}
	t.works[key] = after
}

// forget removes a deleted work.
func (t *Tracker) forget(obj any) {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return
	}
	t.mu.Lock()
	k := t.works[key]
	t.replace(key, k, nil)
	t.mu.Unlock()
	if k != nil {
		t.notify(k.work.Namespace)
	}
}

// Works returns all works.
func (t *Tracker) Works() []Work {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]Work, 0, len(t.works))
	for key, k := range t.works {
		_, behind := t.written[key]
		out = append(out, Work{k.work, k.statuses, behind, k.looked != k.work})
	}
	return out
}

// Manifest returns the manifest of an object in the works of a namespace. It is "" if no work has the
// object, or if its work is being deleted.
func (t *Tracker) Manifest(namespace string, o Object) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.places[identity{namespace, o}]
	k := t.works[p.key]
	if k == nil || k.work.DeletionTimestamp != nil {
		return ""
	}
	return k.manifests[p.index].text
}
