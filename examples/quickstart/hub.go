// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"
	workv1 "open-cluster-management.io/api/work/v1"
)

// updatedAt is the annotation that the update sets on the first object of a work.
const updatedAt = "spokewire.github.io/quickstart-updated-at"

// hub sends a work for each file to each cluster, and waits for the reports.
type hub struct {
	works    workclientset.Interface
	healthy  func() error
	clusters []*cluster
	files    []file
	timeout  time.Duration // without progress
	print    func(format string, args ...any)
	changes  chan change
	sent     []*workv1.ManifestWork // works that are not deleted
}

// change is an event of the informer.
type change struct {
	work *workv1.ManifestWork
	gone bool
}

type key struct{ cluster, name string }

func keyOf(w *workv1.ManifestWork) key { return key{w.Namespace, w.Name} }

// start watches the works until ctx ends.
func (h *hub) start(ctx context.Context) error {
	send := func(obj any, gone bool) {
		if w, ok := obj.(*workv1.ManifestWork); ok {
			select {
			case h.changes <- change{w, gone}:
			case <-ctx.Done():
			}
		}
	}
	factory := workinformers.NewSharedInformerFactory(h.works, 0)
	_, err := factory.Work().V1().ManifestWorks().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { send(obj, false) },
		UpdateFunc: func(_, obj any) { send(obj, false) },
		DeleteFunc: func(obj any) {
			if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = unknown.Obj
			}
			send(obj, true)
		},
	})
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	<-ctx.Done()
	factory.Shutdown()
	return nil
}

// run sends all works, updates one and deletes one.
func (h *hub) run(ctx context.Context) error {
	h.print("Sending %s to %s", count(len(h.files), "work"), count(len(h.clusters), "cluster"))
	reports := map[key]int64{}
	for _, f := range h.files {
		for _, c := range h.clusters {
			w, err := h.works.WorkV1().ManifestWorks(c.name).Create(ctx, newWork(f, c.name), metav1.CreateOptions{})
			if err != nil {
				return err
			}
			h.print("  sent      %s -> %s: %s", w.Name, c.name, count(len(f.objects), "object"))
			h.sent = append(h.sent, w)
			reports[keyOf(w)] = w.Generation
		}
	}
	if err := h.await(ctx, reports); err != nil {
		return err
	}
	// Other files may depend on the first, but not on the last.
	if err := h.update(ctx, keyOf(h.sent[0]), h.files[0].objects[0]); err != nil {
		return err
	}
	last := slices.IndexFunc(h.sent, func(w *workv1.ManifestWork) bool { return w.Name == h.files[len(h.files)-1].work })
	h.print("Deleting %s on %s", h.sent[last].Name, h.sent[last].Namespace)
	w := h.sent[last]
	h.sent = slices.Delete(h.sent, last, last+1)
	return h.delete(ctx, w)
}

// update annotates the first object of a work, and waits for the report.
func (h *hub) update(ctx context.Context, k key, first *unstructured.Unstructured) error {
	h.print("Updating %s on %s: an annotation on its %s %q", k.name, k.cluster, first.GetKind(), first.GetName())
	works := h.works.WorkV1().ManifestWorks(k.cluster)
	w, err := works.Get(ctx, k.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	first = first.DeepCopy()
	_ = unstructured.SetNestedField(first.Object, time.Now().UTC().Format(time.RFC3339), "metadata", "annotations",
		updatedAt)
	w.Spec.Workload.Manifests[0].Raw, _ = first.MarshalJSON()
	if w, err = works.Update(ctx, w, metav1.UpdateOptions{}); err != nil {
		return err
	}
	return h.await(ctx, map[key]int64{k: w.Generation})
}

// gone is the awaited generation of a deleted work.
const gone = -1

// delete deletes works, and waits until their agents have finalized them.
func (h *hub) delete(ctx context.Context, works ...*workv1.ManifestWork) error {
	ends := map[key]int64{}
	for _, w := range works {
		if err := h.works.WorkV1().ManifestWorks(w.Namespace).Delete(ctx, w.Name, metav1.DeleteOptions{}); err != nil {
			return err
		}
		ends[keyOf(w)] = gone
	}
	return h.await(ctx, ends)
}

// cleanup deletes the remaining works, the last first. After a failure of the broker, it only
// returns the reason.
func (h *hub) cleanup(ctx context.Context) error {
	if len(h.sent) == 0 {
		return nil
	}
	h.print("Removing all works (Ctrl-C again to stop at once)")
	if err := h.healthy(); err != nil {
		return err
	}
	slices.Reverse(h.sent)
	return h.delete(ctx, h.sent...)
}

// await waits until each work is reported as applied in its generation, or gone. It fails after the
// timeout without progress, with the first of the remaining works.
func (h *hub) await(ctx context.Context, works map[key]int64) error {
	begin, problem := time.Now(), error(nil)
	timeout := time.NewTimer(h.timeout)
	defer timeout.Stop()
	for len(works) > 0 {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timeout.C:
			return fmt.Errorf("no progress for %v, %s left: %w", h.timeout, count(len(works), "work"),
				cmp.Or(h.healthy(), problem, errors.New("no report")))
		case c := <-h.changes:
			k, applied := keyOf(c.work), meta.FindStatusCondition(c.work.Status.Conditions, workv1.WorkApplied)
			switch generation, ok := works[k]; {
			case !ok:
				continue
			case generation == gone && c.gone:
				h.print("  gone      %s <- %s after %v", k.name, k.cluster, since(begin))
			case generation == gone || applied == nil || applied.ObservedGeneration != generation:
				continue
			case applied.Status != metav1.ConditionTrue:
				problem = fmt.Errorf("work %s on %s is not applied: %s", k.name, k.cluster, applied.Message)
				continue
			default:
				h.print("  reported  %s <- %s after %v", k.name, k.cluster, since(begin))
			}
			delete(works, k)
			timeout.Reset(h.timeout)
		}
	}
	return nil
}

// objects returns the number of objects on all clusters.
func (h *hub) objects() (n int) {
	for _, f := range h.files {
		n += len(f.objects) * len(h.clusters)
	}
	return n
}

func newWork(f file, cluster string) *workv1.ManifestWork {
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: f.work}}
	for _, o := range f.objects {
		raw, _ := json.Marshal(o.Object) // it was decoded from JSON
		manifest := workv1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}}
		w.Spec.Workload.Manifests = append(w.Spec.Workload.Manifests, manifest)
	}
	return w
}

func count(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}

func since(begin time.Time) time.Duration { return time.Since(begin).Round(100 * time.Microsecond) }
