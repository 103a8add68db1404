// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/codec"
)

// A source that restarts without a store counts the generations of its works from 1 again, but the
// agent's objects remain. An object has the generation of its source while that is valid. As on an
// API server, the generation never falls, and it rises when the spec changes or the deletion
// begins. If the source is behind, agentWork.Ahead is the difference. A condition is reported with
// the generation of the source.

// countLocked sets the generation of obj, the next state of w, after a spec. changed is whether the
// spec has changed obj or begun its deletion.
func (w *agentWork) countLocked(obj *workv1.ManifestWork, spec *codec.Spec, changed bool) {
	if changed {
		obj.Generation++
	}
	obj.Generation = max(obj.Generation, generationOf(spec))
	w.relateLocked(obj.Generation, spec)
}

// relateLocked records which generation of the object belongs to a spec. A source that sends no
// generation is assumed to count in the same way.
func (w *agentWork) relateLocked(generation int64, spec *codec.Spec) {
	w.Ahead, w.hash = 0, ""
	if sent := generationOf(spec); sent != 0 {
		w.Ahead = generation - sent
	}
}

func generationOf(spec *codec.Spec) int64 {
	if spec.Work == nil {
		return 0
	}
	return spec.Work.Generation
}

// countedBack returns a status with the generations that its source counts. A condition that was
// observed at an earlier generation remains earlier. If the source has no such generation, the
// result is 0.
func countedBack(status workv1.ManifestWorkStatus, ahead int64) workv1.ManifestWorkStatus {
	if ahead == 0 {
		return status
	}
	status.Conditions = conditionsBack(status.Conditions, ahead)
	status.ResourceStatus.Manifests = slices.Clone(status.ResourceStatus.Manifests)
	for i := range status.ResourceStatus.Manifests {
		m := &status.ResourceStatus.Manifests[i]
		m.Conditions = conditionsBack(m.Conditions, ahead)
	}
	return status
}

func conditionsBack(conditions []metav1.Condition, ahead int64) []metav1.Condition {
	out := slices.Clone(conditions)
	for i := range out {
		if observed := &out[i].ObservedGeneration; *observed != 0 {
			*observed = max(*observed-ahead, 0)
		}
	}
	return out
}
