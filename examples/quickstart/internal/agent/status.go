// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/quickstart/internal/cluster"
)

// statusOf returns the work's next status. It is a pure function of the last status and the results
// of the manifests. Unchanged conditions keep their time.
func statusOf(w *workv1.ManifestWork, results []cluster.Result) workv1.ManifestWorkStatus {
	next := workv1.ManifestWorkStatus{}
	w.Status.DeepCopyInto(&next)
	before := next.ResourceStatus.Manifests
	next.ResourceStatus.Manifests = make([]workv1.ManifestCondition, 0, len(results))
	available := 0
	for _, r := range results {
		m := workv1.ManifestCondition{
			ResourceMeta:    resourceMeta(r),
			Conditions:      conditionsBefore(before, resourceMeta(r)),
			StatusFeedbacks: workv1.StatusFeedbackResult{Values: feedback(r)},
		}
		setCondition(&m.Conditions, w, workv1.ManifestApplied,
			outcome(r.Err == nil, workv1.AppliedManifestComplete, "Apply manifest complete",
				workv1.AppliedManifestFailed, fmt.Sprintf("Failed to apply manifest: %v", r.Err)))
		setCondition(&m.Conditions, w, workv1.ManifestAvailable,
			outcome(r.Live != nil, "ResourceAvailable", "Resource is available",
				"ResourceNotAvailable", "Resource is not available"))
		if r.Live != nil {
			available++
		}
		next.ResourceStatus.Manifests = append(next.ResourceStatus.Manifests, m)
	}
	err := firstError(results)
	setCondition(&next.Conditions, w, workv1.WorkApplied,
		outcome(err == nil, "AppliedManifestWorkComplete", "Apply manifest work complete",
			"AppliedManifestWorkFailed", fmt.Sprintf("Failed to apply manifest work: %v", err)))
	setCondition(&next.Conditions, w, workv1.WorkAvailable,
		outcome(available == len(results), "ResourcesAvailable", "All resources are available",
			"ResourcesNotAvailable", fmt.Sprintf("%d of %d resources are available", available, len(results))))
	return next
}

func outcome(ok bool, reason, message, otherwiseReason, otherwiseMessage string) metav1.Condition {
	if ok {
		return metav1.Condition{Status: metav1.ConditionTrue, Reason: reason, Message: message}
	}
	return metav1.Condition{Status: metav1.ConditionFalse, Reason: otherwiseReason, Message: otherwiseMessage}
}

func setCondition(conditions *[]metav1.Condition, w *workv1.ManifestWork, kind string, c metav1.Condition) {
	c.Type = kind
	c.ObservedGeneration = w.Generation
	meta.SetStatusCondition(conditions, c)
}

func resourceMeta(r cluster.Result) workv1.ManifestResourceMeta {
	gvk := r.Manifest.GroupVersionKind()
	return workv1.ManifestResourceMeta{
		Ordinal: int32(r.Ordinal), Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind,
		Resource: r.Kind.Resource, Namespace: r.Manifest.GetNamespace(), Name: r.Manifest.GetName(),
	}
}

// conditionsBefore returns the earlier conditions of the same object. Its ordinal may have changed,
// and its resource was empty while its kind was unknown.
func conditionsBefore(before []workv1.ManifestCondition, m workv1.ManifestResourceMeta) []metav1.Condition {
	for _, b := range before {
		if b.ResourceMeta.Group == m.Group && b.ResourceMeta.Kind == m.Kind && b.ResourceMeta.Name == m.Name &&
			(b.ResourceMeta.Namespace == m.Namespace || b.ResourceMeta.Namespace == "") {
			return b.Conditions
		}
	}
	return nil
}

// report patches the status if it has changed.
func (a *Agent) report(ctx context.Context, w *workv1.ManifestWork, next workv1.ManifestWorkStatus) error {
	if equality.Semantic.DeepEqual(w.Status, next) {
		return nil
	}
	// A merge patch replaces lists. The fields are set explicitly, so that empty lists are sent,
	// too.
	patch, err := json.Marshal(map[string]any{"status": map[string]any{
		"conditions":     next.Conditions,
		"resourceStatus": map[string]any{"manifests": next.ResourceStatus.Manifests},
	}})
	if err != nil {
		return err
	}
	_, err = a.o.Works.WorkV1().ManifestWorks(w.Namespace).Patch(ctx, w.Name, types.MergePatchType, patch,
		metav1.PatchOptions{}, "status")
	return err
}

// firstError returns the number of manifests that could not be applied, with the first error.
func firstError(results []cluster.Result) error {
	var first error
	failed := 0
	for _, r := range results {
		if r.Err == nil {
			continue
		}
		failed++
		if first == nil {
			first = fmt.Errorf("%s %q: %w", r.Manifest.GetKind(), r.Manifest.GetName(), r.Err)
		}
	}
	if failed > 1 {
		return fmt.Errorf("%d of %d manifests not applied, the first being %w", failed, len(results), first)
	}
	return first
}
