// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package interop_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
)

var eventually = e2etest.Eventually

// when turns a condition into a check.
func when(ok bool, otherwise string) error {
	if ok {
		return nil
	}
	return errors.New(otherwise)
}

// manifests returns the manifests of a work: one ConfigMap that holds value.
func manifests(value string) []workv1.Manifest {
	raw := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"app","namespace":"default"},"data":{"value":%q}}`, value)
	return []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(raw)}}}
}

// valueOf returns the value in the ConfigMap of a work, or "" for no work.
func valueOf(w *workv1.ManifestWork) string {
	var cm struct{ Data map[string]string }
	if w == nil || len(w.Spec.Workload.Manifests) == 0 || json.Unmarshal(w.Spec.Workload.Manifests[0].Raw, &cm) != nil {
		return ""
	}
	return cm.Data["value"]
}

// reported returns the message of the condition Applied.
func reported(w *workv1.ManifestWork) string {
	if w == nil {
		return ""
	}
	if c := meta.FindStatusCondition(w.Status.Conditions, workv1.WorkApplied); c != nil {
		return c.Message
	}
	return ""
}

// create creates a work. If annotation is not empty, it is the user's version of the work.
func (p *peer) create(t *testing.T, work, value, annotation string) *workv1.ManifestWork {
	t.Helper()
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: work}}
	w.Spec.Workload.Manifests = manifests(value)
	if annotation != "" {
		w.Annotations = map[string]string{codec.AnnotationResourceVersion: annotation}
	}
	out, err := p.works.Create(t.Context(), w, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the source's informer shows "+work, func() error { return when(p.shown(work) != nil, "it does not") })
	return out
}

// update changes the value of a work, with the verb that the sources of both SDKs support.
func (p *peer) update(t *testing.T, work, value, annotation string) {
	t.Helper()
	patch := map[string]any{"spec": map[string]any{"workload": map[string]any{"manifests": manifests(value)}}}
	if annotation != "" {
		patch["metadata"] = map[string]any{"annotations": map[string]string{codec.AnnotationResourceVersion: annotation}}
	}
	p.patch(t, work, patch)
	eventually(t, "the source's informer shows the update", func() error {
		return when(valueOf(p.shown(work)) == value, "value "+valueOf(p.shown(work)))
	})
}

func (p *peer) delete(t *testing.T, work string) {
	t.Helper()
	if err := p.works.Delete(t.Context(), work, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// patch retries conflicts with messages that arrive meanwhile.
func (p *peer) patch(t *testing.T, work string, patch any, subresources ...string) {
	t.Helper()
	data, err := json.Marshal(patch)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "a patch", func() error {
		_, err := p.works.Patch(t.Context(), work, types.MergePatchType, data, metav1.PatchOptions{}, subresources...)
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		return err
	})
}

// report acts as a work controller for a new work: it adds the finalizer, and reports a status.
func (p *peer) report(t *testing.T, work, message string) {
	t.Helper()
	p.finalizers(t, work, workv1.ManifestWorkFinalizer)
	p.patch(t, work, map[string]any{"status": workv1.ManifestWorkStatus{
		Conditions: []metav1.Condition{{
			Type: workv1.WorkApplied, Status: metav1.ConditionTrue, Reason: "Tested", Message: message,
			LastTransitionTime: metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
		}},
		ResourceStatus: workv1.ManifestResourceStatus{Manifests: []workv1.ManifestCondition{{
			ResourceMeta: workv1.ManifestResourceMeta{Version: "v1", Kind: "ConfigMap", Resource: "configmaps", Name: "app",
				Namespace: "default"},
			Conditions: []metav1.Condition{{
				Type: workv1.ManifestApplied, Status: metav1.ConditionTrue, Reason: "Tested", Message: "<&> ü",
				LastTransitionTime: metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
			}},
		}}},
	}}, "status")
}

func (p *peer) finalizers(t *testing.T, work string, finalizers ...string) {
	t.Helper()
	p.patch(t, work, map[string]any{"metadata": map[string]any{"finalizers": finalizers}})
}

func (p *peer) eventuallyValue(t *testing.T, work, value string) *workv1.ManifestWork {
	t.Helper()
	eventually(t, "the agent shows value "+value, func() error {
		return when(valueOf(p.shown(work)) == value, fmt.Sprintf("it shows %q", valueOf(p.shown(work))))
	})
	w, err := p.works.Get(t.Context(), work, metav1.GetOptions{})
	if err != nil || valueOf(w) != value {
		t.Fatalf("the agent's clientset has value %q, %v", valueOf(w), err)
	}
	return w
}

func (p *peer) eventuallyReported(t *testing.T, work, message string) *workv1.ManifestWork {
	t.Helper()
	eventually(t, "the source shows status "+message, func() error {
		w := p.shown(work)
		return when(reported(w) == message, fmt.Sprintf("it shows %q", reported(w)))
	})
	w, err := p.works.Get(t.Context(), work, metav1.GetOptions{})
	if err != nil || reported(w) != message {
		t.Fatalf("the source's clientset has status %q, %v", reported(w), err)
	}
	if m := w.Status.ResourceStatus.Manifests; len(m) != 1 || m[0].Conditions[0].Message != "<&> ü" {
		t.Errorf("the status of the manifests is %+v", m)
	}
	return w
}

// cleanUp waits until the agent shows the deletion, and then removes the finalizer, as a work
// controller does.
func (p *pair) cleanUp(t *testing.T, work string) {
	t.Helper()
	eventually(t, "the agent shows the deletion", func() error {
		w := p.agent.shown(work)
		return when(w != nil && w.DeletionTimestamp != nil && len(w.Finalizers) > 0, fmt.Sprintf("it shows %v", w))
	})
	p.agent.finalizers(t, work)
	for side, peer := range map[string]*peer{"agent": p.agent, "source": p.source} {
		eventually(t, "gone from the "+side, func() error { return when(peer.shown(work) == nil, "it is still there") })
		if _, err := peer.works.Get(t.Context(), work, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the %s's clientset: %v", side, err)
		}
	}
}

// step is one subtest; later ones build on earlier ones.
type step struct {
	name string
	run  func(t *testing.T)
}

func runSteps(t *testing.T, steps []step) {
	t.Helper()
	for _, s := range steps {
		if !t.Run(s.name, s.run) {
			return
		}
	}
}

// generation checks the version that an agent shows of a work, or the agent's own count without
// versions.
func (m mode) generation(t *testing.T, w *workv1.ManifestWork, want int64) {
	t.Helper()
	if m.versioned && (w.Generation != want ||
		w.Annotations[codec.AnnotationResourceVersion] != strconv.FormatInt(want, 10)) {
		t.Errorf("generation %d, annotations %v, want version %d", w.Generation, w.Annotations, want)
	}
}
