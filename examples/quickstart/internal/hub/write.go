// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/retry"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/quickstart/internal/manifests"
	"github.com/spokewire/sdk-go/examples/quickstart/internal/progress"
)

// UpdatedAt is the annotation that the update sets on the first object of a work.
const UpdatedAt = "spokewire.github.io/quickstart-updated-at"

// NewWork returns the work of a file for a cluster. It requests the replicas of workloads as status
// feedback.
func NewWork(f manifests.File, cluster string) (*workv1.ManifestWork, error) {
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: f.Work}}
	for _, o := range f.Objects {
		raw, err := json.Marshal(o.Object)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.Where, err)
		}
		w.Spec.Workload.Manifests = append(w.Spec.Workload.Manifests,
			workv1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}})
		gvk := o.GroupVersionKind()
		resource := map[string]string{"Deployment": "deployments", "StatefulSet": "statefulsets"}[gvk.Kind]
		if gvk.Group != "apps" || resource == "" {
			continue
		}
		namespace := o.GetNamespace()
		if namespace == "" {
			namespace = metav1.NamespaceDefault
		}
		w.Spec.ManifestConfigs = append(w.Spec.ManifestConfigs, workv1.ManifestConfigOption{
			ResourceIdentifier: workv1.ResourceIdentifier{
				Group: gvk.Group, Resource: resource, Namespace: namespace, Name: o.GetName(),
			},
			FeedbackRules: []workv1.FeedbackRule{{Type: workv1.WellKnownStatusType}},
		})
	}
	return w, nil
}

// send creates the work of a file on a cluster, or updates the spec of an existing work.
func (h *Hub) send(ctx context.Context, cluster string, f manifests.File) error {
	w, err := NewWork(f, cluster)
	if err != nil {
		return err
	}
	k := key{cluster, f.Work}
	h.sent(k, f, 1, progress.Count(len(f.Objects), "object"))
	_, err = h.o.Works.WorkV1().ManifestWorks(cluster).Create(ctx, w, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		err = h.change(ctx, k, "already exists", func(there *workv1.ManifestWork) error {
			there.Spec = w.Spec
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("create work %s for %s: %w", k.name, cluster, err)
	}
	return nil
}

// update annotates the first object of a work, waits for the report, and returns how long this
// took.
func (h *Hub) update(ctx context.Context, k key) (time.Duration, error) {
	err := h.change(ctx, k, "update", func(w *workv1.ManifestWork) error {
		first := &unstructured.Unstructured{}
		if err := first.UnmarshalJSON(w.Spec.Workload.Manifests[0].Raw); err != nil {
			return err
		}
		annotations := first.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[UpdatedAt] = time.Now().UTC().Format(time.RFC3339Nano)
		first.SetAnnotations(annotations)
		raw, err := json.Marshal(first.Object)
		w.Spec.Workload.Manifests[0].Raw = raw
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("update work %s for %s: %w", k.name, k.cluster, err)
	}
	err = h.wait(ctx, (*work).settled)
	return h.took(k), err
}

// change updates a work. It retries after conflicts.
func (h *Hub) change(ctx context.Context, k key, detail string, change func(*workv1.ManifestWork) error) error {
	works := h.o.Works.WorkV1().ManifestWorks(k.cluster)
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		w, err := works.Get(ctx, k.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		before := w.DeepCopy()
		if err := change(w); err != nil {
			return err
		}
		if equality.Semantic.DeepEqual(before.Spec, w.Spec) {
			h.sent(k, manifests.File{}, w.Generation, detail)
			h.observe(before)
			return nil
		}
		// The report may arrive before Update returns, so the generation is recorded first.
		h.sent(k, manifests.File{}, w.Generation+1, detail)
		_, err = works.Update(ctx, w, metav1.UpdateOptions{})
		return err
	})
}

// delete deletes a work, waits until it is gone, and returns how long this took.
func (h *Hub) delete(ctx context.Context, k key) (time.Duration, error) {
	if _, err := h.startDelete(ctx, k); err != nil {
		return 0, err
	}
	err := h.wait(ctx, func(w *work) string {
		if w.key != k {
			return ""
		}
		return w.absent()
	})
	return h.took(k), err
}

// startDelete deletes a work that this run has sent. It returns false if the work does not exist
// any more.
func (h *Hub) startDelete(ctx context.Context, k key) (bool, error) {
	if !h.deleting(k) {
		return false, nil
	}
	err := h.o.Works.WorkV1().ManifestWorks(k.cluster).Delete(ctx, k.name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		h.gone(&workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: k.cluster, Name: k.name}})
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("delete work %s for %s: %w", k.name, k.cluster, err)
	}
	return true, nil
}

func (h *Hub) emit(step progress.Step, w *work, at time.Time, detail string) {
	h.o.Event(progress.Event{
		Step: step, Work: w.key.name, Cluster: w.key.cluster, Generation: w.generation, At: at, Detail: detail,
	})
}
