// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"bytes"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// unreported is the message of an object of which the agent has said nothing.
const unreported = "its agent has not reported it yet"

// Work is a work with what is known of its objects. It is shared, and must not be changed.
type Work struct {
	*workv1.ManifestWork
	Objects []Verdict
	// Behind is whether a newer version of the work was written than this one.
	Behind bool
}

// Progress says how far the agent of a cluster is with a work.
type Progress string

// The values of [Progress].
const (
	// Waiting: the agent has not said anything of the work as it is now, or it is being deleted.
	Waiting Progress = "Waiting"
	// Refused: the agent could not apply all of the work as it is now. It tries again.
	Refused Progress = "Refused"
	// Degraded: all is applied, and has not been as it should be for long.
	Degraded Progress = "Degraded"
	// Current: all is applied.
	Current Progress = "Current"
)

// Progress returns how far the agent is, and what it says where that is not good.
func (w *Work) Progress() (p Progress, message string) {
	applied := meta.FindStatusCondition(w.Status.Conditions, workv1.WorkApplied)
	if w.Behind || w.DeletionTimestamp != nil || applied == nil || applied.ObservedGeneration < w.Generation {
		return Waiting, ""
	}
	if applied.Status != metav1.ConditionTrue {
		for i := range w.Objects { // which says more than the work
			if v := &w.Objects[i]; v.Health == NotApplied {
				return Refused, v.Object.String() + ": " + v.Message
			}
		}
		return Refused, applied.Reason + ": " + applied.Message
	}
	degraded := meta.FindStatusCondition(w.Status.Conditions, workv1.WorkDegraded)
	if degraded != nil && degraded.Status == metav1.ConditionTrue && degraded.ObservedGeneration >= w.Generation {
		return Degraded, degraded.Reason + ": " + degraded.Message
	}
	return Current, ""
}

// known is a work as the informer has it.
type known struct {
	work      *workv1.ManifestWork
	manifests []manifest
	verdicts  []Verdict // on the objects, in their order; nil when it is to be made anew
}

// manifest is one of a work: its object and its text, which is empty for what is no manifest.
type manifest struct {
	object appcontext.Object
	text   string
}

// note takes over what the informer has of a work. Manifests are parsed when they have changed, and at no other time.
func (t *Tracker) note(obj any) {
	w, ok := obj.(*workv1.ManifestWork)
	if !ok {
		return
	}
	key := w.Namespace + "/" + w.Name
	t.mu.Lock()
	before := t.works[key]
	t.mu.Unlock()
	k := &known{work: w}
	if before != nil && slices.EqualFunc(before.work.Spec.Workload.Manifests, w.Spec.Workload.Manifests, func(a, b workv1.Manifest) bool {
		return bytes.Equal(a.Raw, b.Raw)
	}) {
		k.manifests = before.manifests
	} else {
		k.manifests = manifestsOf(w)
	}
	t.mu.Lock()
	t.works[key] = k
	if last := t.written[key]; last.uid == w.UID && last.generation <= w.Generation {
		delete(t.written, key)
	}
	t.mu.Unlock()
	t.queue.Add(key)
	t.changed()
}

func manifestsOf(w *workv1.ManifestWork) []manifest {
	out := make([]manifest, len(w.Spec.Workload.Manifests))
	for i := range out {
		raw := w.Spec.Workload.Manifests[i].Raw
		if o, err := appcontext.ParseObject(raw); err == nil {
			out[i] = manifest{o, string(raw)}
		}
	}
	return out
}

// forget drops a work that is gone.
func (t *Tracker) forget(obj any) {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return
	}
	t.mu.Lock()
	delete(t.works, key)
	t.mu.Unlock()
	t.queue.Add(key)
	t.changed()
}

// informed returns what the informer has of a cluster.
func (t *Tracker) informed(cluster string) (out []*workv1.ManifestWork) {
	all, err := t.informer.GetIndexer().ByIndex(cache.NamespaceIndex, cluster)
	if err != nil {
		return nil // the informer has this index
	}
	for _, obj := range all {
		if w, ok := obj.(*workv1.ManifestWork); ok {
			out = append(out, w)
		}
	}
	return out
}

// Works returns all works.
func (t *Tracker) Works() []Work {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]Work, 0, len(t.works))
	for key, k := range t.works {
		if k.verdicts == nil {
			k.verdicts = t.verdictsOn(k)
		}
		_, behind := t.written[key]
		out = append(out, Work{k.work, k.verdicts, behind})
	}
	return out
}

// verdictsOn returns what is known of the objects of a work. With t.mu held.
func (t *Tracker) verdictsOn(k *known) []Verdict {
	out := make([]Verdict, 0, len(k.manifests))
	for _, m := range k.manifests {
		if m.text == "" {
			continue
		}
		v, ok := t.verdicts[k.work.Namespace][m.object]
		if !ok {
			v = Verdict{Object: m.object, Health: Unknown, Message: unreported}
		}
		out = append(out, v)
	}
	return out
}

// Leaving reports whether some work of a cluster is being deleted. It costs as much as that cluster has works.
func (t *Tracker) Leaving(cluster string) bool {
	return slices.ContainsFunc(t.informed(cluster), func(w *workv1.ManifestWork) bool { return w.DeletionTimestamp != nil })
}
