// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package clientset_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/testing/conformance"
)

// TestInvalidCallsAreRejected: the source's clientset rejects invalid calls with the same reason as
// the API server.
func TestInvalidCallsAreRejected(t *testing.T) {
	stale := func(w *workv1.ManifestWork) *workv1.ManifestWork {
		w.ResourceVersion = "1"
		return w
	}
	named := func(name string) *workv1.ManifestWork { return newWork(name, "1") }
	tests := []struct {
		name   string
		call   func(worktyped.ManifestWorkInterface, *workv1.ManifestWork) error
		reason metav1.StatusReason
		text   string
	}{
		{"get missing", func(c worktyped.ManifestWorkInterface, _ *workv1.ManifestWork) error {
			_, err := c.Get(t.Context(), "none", metav1.GetOptions{})
			return err
		}, metav1.StatusReasonNotFound, `manifestworks.work.open-cluster-management.io "none" not found`},
		{"create existing", func(c worktyped.ManifestWorkInterface, _ *workv1.ManifestWork) error {
			_, err := c.Create(t.Context(), named("app"), metav1.CreateOptions{})
			return err
		}, metav1.StatusReasonAlreadyExists, "already exists"},
		{"create without name", func(c worktyped.ManifestWorkInterface, _ *workv1.ManifestWork) error {
			_, err := c.Create(t.Context(), named(""), metav1.CreateOptions{})
			return err
		}, metav1.StatusReasonInvalid, "metadata.name: Required value"},
		{"create with a bad name", func(c worktyped.ManifestWorkInterface, _ *workv1.ManifestWork) error {
			_, err := c.Create(t.Context(), named("Not_A_Name"), metav1.CreateOptions{})
			return err
		}, metav1.StatusReasonInvalid, "metadata.name: Invalid value"},
		{"create with a bad label", func(c worktyped.ManifestWorkInterface, _ *workv1.ManifestWork) error {
			w := named("x")
			w.Labels = map[string]string{"a b": "c"}
			_, err := c.Create(t.Context(), w, metav1.CreateOptions{})
			return err
		}, metav1.StatusReasonInvalid, "metadata.labels"},
		{"create with a broken manifest", func(c worktyped.ManifestWorkInterface, _ *workv1.ManifestWork) error {
			w := named("x")
			w.Spec.Workload.Manifests[0].Raw = []byte(`{"kind":`)
			_, err := c.Create(t.Context(), w, metav1.CreateOptions{})
			return err
		}, metav1.StatusReasonInvalid, "spec.workload.manifests[0]: Invalid value: must be a JSON object"},
		{"create with an empty manifest", func(c worktyped.ManifestWorkInterface, _ *workv1.ManifestWork) error {
			w := named("x")
			w.Spec.Workload.Manifests[0].Raw = []byte{}
			_, err := c.Create(t.Context(), w, metav1.CreateOptions{})
			return err
		}, metav1.StatusReasonInvalid, `ManifestWork.work.open-cluster-management.io "x" is invalid: ` +
			"spec.workload.manifests[0]: Invalid value: must be a JSON object"},
		{"create with a manifest without kind", func(c worktyped.ManifestWorkInterface, _ *workv1.ManifestWork) error {
			w := named("x")
			w.Spec.Workload.Manifests[0].Raw = []byte(`{"apiVersion":"v1"}`)
			_, err := c.Create(t.Context(), w, metav1.CreateOptions{})
			return err
		}, metav1.StatusReasonInvalid, "spec.workload.manifests[0].kind: Required value"},
		{"create in another namespace", func(c worktyped.ManifestWorkInterface, _ *workv1.ManifestWork) error {
			w := named("x")
			w.Namespace = "cluster2"
			_, err := c.Create(t.Context(), w, metav1.CreateOptions{})
			return err
		}, metav1.StatusReasonBadRequest, "does not match the namespace"},
		{"create with a resourceVersion", func(c worktyped.ManifestWorkInterface, _ *workv1.ManifestWork) error {
			_, err := c.Create(t.Context(), stale(named("x")), metav1.CreateOptions{})
			return err
		}, metav1.StatusReasonUnknown, "resourceVersion should not be set"},
		{"stale update", func(c worktyped.ManifestWorkInterface, w *workv1.ManifestWork) error {
			_, err := c.Update(t.Context(), stale(w), metav1.UpdateOptions{})
			return err
		}, metav1.StatusReasonConflict, "the object has been modified"},
		{"update without a resourceVersion", func(c worktyped.ManifestWorkInterface, _ *workv1.ManifestWork) error {
			_, err := c.Update(t.Context(), named("app"), metav1.UpdateOptions{})
			return err
		}, metav1.StatusReasonInvalid, "metadata.resourceVersion: Invalid value: 0: must be specified for an update"},
		{"update missing", func(c worktyped.ManifestWorkInterface, _ *workv1.ManifestWork) error {
			_, err := c.Update(t.Context(), stale(named("none")), metav1.UpdateOptions{})
			return err
		}, metav1.StatusReasonNotFound, "not found"},
		{"update of another incarnation", func(c worktyped.ManifestWorkInterface, w *workv1.ManifestWork) error {
			w.UID = "other"
			_, err := c.Update(t.Context(), w, metav1.UpdateOptions{})
			return err
		}, metav1.StatusReasonConflict, "Precondition failed: UID in precondition: other"},
		{"update of the status", func(c worktyped.ManifestWorkInterface, w *workv1.ManifestWork) error {
			_, err := c.UpdateStatus(t.Context(), w, metav1.UpdateOptions{})
			return err
		}, metav1.StatusReasonMethodNotAllowed, "update is not supported on resources of kind " +
			`"manifestworks/status.work.open-cluster-management.io": agents write statuses`},
		{"patch of the status", func(c worktyped.ManifestWorkInterface, _ *workv1.ManifestWork) error {
			_, err := c.Patch(t.Context(), "app", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{}, "status")
			return err
		}, metav1.StatusReasonMethodNotAllowed, "manifestworks/status"},
		{"strategic patch", func(c worktyped.ManifestWorkInterface, _ *workv1.ManifestWork) error {
			_, err := c.Patch(t.Context(), "app", types.StrategicMergePatchType, []byte(`{}`), metav1.PatchOptions{})
			return err
		}, metav1.StatusReasonUnsupportedMediaType, "unknown format"},
		{"malformed merge patch", func(c worktyped.ManifestWorkInterface, _ *workv1.ManifestWork) error {
			_, err := c.Patch(t.Context(), "app", types.MergePatchType, []byte(`{`), metav1.PatchOptions{})
			return err
		}, metav1.StatusReasonBadRequest, "error decoding patch"},
		{"merge patch of a wrong type", func(c worktyped.ManifestWorkInterface, _ *workv1.ManifestWork) error {
			_, err := c.Patch(t.Context(), "app", types.MergePatchType, []byte(`{"spec":{"workload":7}}`), metav1.PatchOptions{})
			return err
		}, metav1.StatusReasonInvalid,
			"spec.workload: Invalid value: \"integer\": spec.workload in body must be of type object"},
		{"merge patch of the name", func(c worktyped.ManifestWorkInterface, _ *workv1.ManifestWork) error {
			_, err := c.Patch(t.Context(), "app", types.MergePatchType, []byte(`{"metadata":{"name":"b"}}`),
				metav1.PatchOptions{})
			return err
		}, metav1.StatusReasonBadRequest, "does not match the name on the URL"},
		{"JSON patch whose test fails", func(c worktyped.ManifestWorkInterface, _ *workv1.ManifestWork) error {
			_, err := c.Patch(t.Context(), "app", types.JSONPatchType,
				[]byte(`[{"op":"test","path":"/metadata/name","value":"b"}]`), metav1.PatchOptions{})
			return err
		}, metav1.StatusReasonInvalid, "test"},
		{"delete missing", func(c worktyped.ManifestWorkInterface, _ *workv1.ManifestWork) error {
			return c.Delete(t.Context(), "none", metav1.DeleteOptions{})
		}, metav1.StatusReasonNotFound, "not found"},
		{"delete of another incarnation", func(c worktyped.ManifestWorkInterface, _ *workv1.ManifestWork) error {
			return c.Delete(t.Context(), "app",
				metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(types.UID("other"))}})
		}, metav1.StatusReasonConflict, "the UID in the precondition (other)"},
		{"delete of another version", func(c worktyped.ManifestWorkInterface, _ *workv1.ManifestWork) error {
			return c.Delete(t.Context(), "app",
				metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: ptr.To("1")}})
		}, metav1.StatusReasonConflict, "the ResourceVersion in the precondition (1)"},
		{"list with a bad selector", func(c worktyped.ManifestWorkInterface, _ *workv1.ManifestWork) error {
			_, err := c.List(t.Context(), metav1.ListOptions{LabelSelector: "a in"})
			return err
		}, metav1.StatusReasonBadRequest, "label selector"},
		{"list by an unknown field", func(c worktyped.ManifestWorkInterface, _ *workv1.ManifestWork) error {
			_, err := c.List(t.Context(), metav1.ListOptions{FieldSelector: "spec.x=1"})
			return err
		}, metav1.StatusReasonBadRequest, "field label not supported: spec.x"},
		{"list from a made-up token", func(c worktyped.ManifestWorkInterface, _ *workv1.ManifestWork) error {
			_, err := c.List(t.Context(), metav1.ListOptions{Continue: "%%%"})
			return err
		}, metav1.StatusReasonBadRequest, "continue key is not valid"},
		{"watch from an invalid version", func(c worktyped.ManifestWorkInterface, _ *workv1.ManifestWork) error {
			_, err := c.Watch(t.Context(), metav1.ListOptions{ResourceVersion: "abc"})
			return err
		}, metav1.StatusReasonUnknown, "resourceVersion: Invalid value"},
		{"invalid dry run", func(c worktyped.ManifestWorkInterface, _ *workv1.ManifestWork) error {
			_, err := c.Create(t.Context(), named("x"), metav1.CreateOptions{DryRun: []string{"Some"}})
			return err
		}, metav1.StatusReasonInvalid, "dryRun"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			works := offline(t, work.SourceOptions{}).ManifestWorks("cluster1")
			created, err := works.Create(t.Context(), named("app"), metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			err = tc.call(works, created.DeepCopy())
			if got := apierrors.ReasonForError(err); got != tc.reason || !strings.Contains(fmt.Sprint(err), tc.text) {
				t.Errorf("got %q: %v\nwant %q with %q", got, err, tc.reason, tc.text)
			}
			after, err := works.Get(t.Context(), "app", metav1.GetOptions{})
			if err != nil || after.ResourceVersion != created.ResourceVersion {
				t.Errorf("a refused call changed the object: %v", err)
			}
		})
	}
}

// TestUnsupportedClients: the clients for other resources exist, and return an error that they are
// not supported.
func TestUnsupportedClients(t *testing.T) {
	source, err := work.NewSource(memory.New().Transport(), work.SourceOptions{SourceID: "hub"})
	if err != nil {
		t.Fatal(err)
	}
	c := source.Clientset()
	_, applied := c.WorkV1().AppliedManifestWorks().Get(t.Context(), "x", metav1.GetOptions{})
	_, replicaSets := c.WorkV1alpha1().ManifestWorkReplicaSets("x").List(t.Context(), metav1.ListOptions{})
	_, discovery := c.Discovery().ServerResourcesForGroupVersion("work.open-cluster-management.io/v1")
	raw := c.WorkV1().RESTClient().Get().Resource("manifestworks").Do(t.Context()).Error()
	for name, err := range map[string]error{"AppliedManifestWorks": applied, "WorkV1alpha1": replicaSets,
		"Discovery": discovery, "RESTClient": raw} {
		if !apierrors.IsMethodNotSupported(err) || !strings.Contains(fmt.Sprint(err), "not supported over CloudEvents") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWrites checks the effects of the writes of a source on an object, step by step.
func TestWrites(t *testing.T) {
	works := offline(t, work.SourceOptions{}).ManifestWorks("cluster1")
	typed := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{GenerateName: "app-"}}
	typed.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Object: &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, Data: map[string]string{"value": "1"},
	}}}}
	dry, err := works.Create(t.Context(), typed, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil || !strings.HasPrefix(dry.Name, "app-") || len(dry.Name) != 9 {
		t.Fatalf("dry run: %v, %v", dry, err)
	}
	if _, err := works.Get(t.Context(), dry.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a dry run stored the object: %v", err)
	}
	one, err := works.Create(t.Context(), typed, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if valueOf(t, one) != "1" || typed.Spec.Workload.Manifests[0].Object == nil {
		t.Error("a typed manifest must become raw JSON in the result and stay as it is in the input")
	}

	patch := func(pt types.PatchType, data string) *workv1.ManifestWork {
		t.Helper()
		out, err := works.Patch(t.Context(), one.Name, pt, []byte(data), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	labelled := patch(types.MergePatchType, `{"metadata":{"labels":{"a":"1"}}}`)
	if labelled.Generation != 1 || labelled.Labels["a"] != "1" || labelled.ResourceVersion == one.ResourceVersion {
		t.Errorf("after a label: generation %d, %v", labelled.Generation, labelled.Labels)
	}
	same := patch(types.MergePatchType, `{"metadata":{"labels":{"a":"1"}}}`)
	if same.ResourceVersion != labelled.ResourceVersion {
		t.Error("a patch that changes nothing made a new version")
	}
	two := patch(types.JSONPatchType, `[{"op":"replace","path":"/spec/workload/manifests/0/data/value","value":"2"}]`)
	if two.Generation != 2 || valueOf(t, two) != "2" {
		t.Errorf("after the JSON patch: generation %d, value %q", two.Generation, valueOf(t, two))
	}
	two.Labels["a"] = "mutated"
	two.Spec.Workload.Manifests[0].Raw[0] = 'X'
	again, err := works.Get(t.Context(), one.Name, metav1.GetOptions{})
	if err != nil || again.Labels["a"] != "1" || valueOf(t, again) != "2" {
		t.Error("a change of a returned object reached the store")
	}
	again.Status.Conditions = []metav1.Condition{{Type: "Applied"}}
	again.UID, again.CreationTimestamp = "", metav1.Time{}
	updated, err := works.Update(t.Context(), again, metav1.UpdateOptions{})
	if err != nil || len(updated.Status.Conditions) != 0 || updated.UID != one.UID ||
		!updated.CreationTimestamp.Equal(&one.CreationTimestamp) {
		t.Errorf("an update changed what it must not: %+v, %v", updated, err)
	}

	if err := works.Delete(t.Context(), one.Name, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Fatal(err)
	}
	if got, _ := works.Get(t.Context(), one.Name, metav1.GetOptions{}); got.DeletionTimestamp != nil {
		t.Error("a dry run deleted the object")
	}
	for range 2 { // the second call finds the work being deleted
		if err := works.Delete(t.Context(), one.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	deleting := patch(types.MergePatchType, `{"metadata":{"finalizers":null}}`)
	if diff := cmp.Diff([]string{workv1.ManifestWorkFinalizer}, deleting.Finalizers); diff != "" {
		t.Errorf("the clean-up finalizer must stay until the agent is done (-want +got):\n%s", diff)
	}
	recreated := newWork(one.Name, "3")
	if _, err := works.Create(t.Context(), recreated, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) ||
		!strings.Contains(err.Error(), "being deleted") {
		t.Errorf("Create while deleting: %v", err)
	}
}

// TestListPages checks selectors, limit and continue.
func TestListPages(t *testing.T) {
	c := offline(t, work.SourceOptions{})
	for i := range 7 {
		w := newWork(fmt.Sprintf("w%d", i), "1")
		w.Labels = map[string]string{"parity": fmt.Sprint(i % 2)}
		if _, err := c.ManifestWorks(fmt.Sprintf("cluster%d", i/5)).Create(t.Context(), w,
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	list := func(namespace string, o metav1.ListOptions) (names []string, next string) {
		t.Helper()
		l, err := c.ManifestWorks(namespace).List(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		for i := range l.Items {
			names = append(names, l.Items[i].Name)
		}
		return names, l.Continue
	}
	tests := []struct {
		name, namespace string
		options         metav1.ListOptions
		want            []string
	}{
		{"all namespaces", "", metav1.ListOptions{}, []string{"w0", "w1", "w2", "w3", "w4", "w5", "w6"}},
		{"one namespace", "cluster1", metav1.ListOptions{}, []string{"w5", "w6"}},
		{"by label", "", metav1.ListOptions{LabelSelector: "parity=1"}, []string{"w1", "w3", "w5"}},
		{"by name", "", metav1.ListOptions{FieldSelector: "metadata.name=w3"}, []string{"w3"}},
		{"by namespace", "", metav1.ListOptions{FieldSelector: "metadata.namespace!=cluster0"}, []string{"w5", "w6"}},
		{"nothing", "cluster9", metav1.ListOptions{}, nil},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, _ := list(tc.namespace, tc.options)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			var paged []string
			for o := tc.options; ; {
				o.Limit = 2
				page, next := list(tc.namespace, o)
				paged = append(paged, page...)
				if o.Continue = next; next == "" {
					break
				}
			}
			if diff := cmp.Diff(tc.want, paged); diff != "" {
				t.Errorf("in pages of two (-want +got):\n%s", diff)
			}
		})
	}
}

// TestConcurrentWriters runs the rivalries that the end-to-end tests run on a real API server.
// Whichever client is faster, the results of its calls hold.
func TestConcurrentWriters(t *testing.T) {
	for _, r := range conformance.Rivalries {
		t.Run(r.Name, func(t *testing.T) {
			works := offline(t, work.SourceOptions{}).ManifestWorks("cluster1")
			if err := r.Run(t.Context(), works, r.Rounds); err != nil {
				t.Error(err)
			}
		})
	}
}
