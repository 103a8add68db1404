// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"bytes"
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/hub/internal/document"
	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// unreported is the message for an object that the agent has not reported.
const unreported = "its agent has not reported it yet"

// Work is a work with the health of its objects. It is shared, and must not be changed.
type Work struct {
	*workv1.ManifestWork
	Objects []Verdict
	// Behind is whether a newer version of the work was written.
	Behind bool
}

// Progress is the progress of an agent with a work.
type Progress string

// The values of [Progress].
const (
	// Waiting means that the agent has not reported this generation, or the work is being deleted.
	Waiting Progress = "Waiting"
	// Refused means that the agent could not apply all of this generation. It retries.
	Refused Progress = "Refused"
	// Degraded means that all is applied, and the agent reports the work as degraded.
	Degraded Progress = "Degraded"
	// Current means that all is applied.
	Current Progress = "Current"
)

// Progress returns the progress of the agent, with its message if there is a problem.
func (w *Work) Progress() (p Progress, message string) {
	applied := meta.FindStatusCondition(w.Status.Conditions, workv1.WorkApplied)
	if w.Behind || w.DeletionTimestamp != nil || applied == nil || applied.ObservedGeneration < w.Generation {
		return Waiting, ""
	}
	if applied.Status != metav1.ConditionTrue {
		for i := range w.Objects { // the object has a better message than the work
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

// known is a work of the informer.
type known struct {
	work      *workv1.ManifestWork
	manifests []manifest
	verdicts  []Verdict // of the objects, in their order; nil if it must be computed
}

// manifest is a manifest of a work: its object and its text, which is empty for an invalid
// manifest.
type manifest struct {
	object appcontext.Object
	text   string
}

// note records a work of the informer. Manifests are parsed only when they have changed.
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
	if before != nil && slices.EqualFunc(before.work.Spec.Workload.Manifests, w.Spec.Workload.Manifests,
		func(a, b workv1.Manifest) bool {
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

// forget removes a deleted work.
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

// informed returns the informer's works of a cluster.
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

// Manifests calls each with the manifests in works that are not being deleted. It waits until all
// works that existed when Start was called are known.
func (t *Tracker) Manifests(ctx context.Context, each func(id appcontext.Identity, manifest string)) error {
	if !t.Synced(ctx) {
		return ctx.Err()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range t.works {
		if k.work.DeletionTimestamp != nil {
			continue
		}
		for _, m := range k.manifests {
			each(appcontext.Identity{Cluster: document.ClusterID(k.work.Namespace), Object: m.object}, m.text)
		}
	}
	return nil
}

// verdictsOn returns the verdicts of the objects of a work. The caller holds t.mu.
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

// Leaving reports whether a work of a cluster is being deleted. The cost is proportional to the
// number of works of that cluster.
func (t *Tracker) Leaving(cluster string) bool {
	return slices.ContainsFunc(t.informed(cluster),
		func(w *workv1.ManifestWork) bool { return w.DeletionTimestamp != nil })
}
