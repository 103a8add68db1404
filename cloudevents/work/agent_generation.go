// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/codec"
)

// A source that restarts without a store counts the generations of its works from 1 again, while
// the agent's objects stay what they are. So an object has the generation that its source counts as
// long as that is one for it, as on an API server: never lower than before, and higher when the
// spec has changed or the deletion begins. Where the source is behind, agentWork.ahead is by how
// much, and a condition that goes out says its generation as the source counts.

// count gives obj, the next state of w, its generation after a spec, which has changed it or begun its deletion, or
// neither.
func (w *agentWork) count(obj *workv1.ManifestWork, spec *codec.Spec, changed bool) {
	if changed {
		obj.Generation++
	}
	obj.Generation = max(obj.Generation, generationOf(spec))
	w.relate(obj.Generation, spec)
}

// relate notes that a generation of the object is the one that came with a spec. A source that
// sends none is taken to count likewise.
func (w *agentWork) relate(generation int64, spec *codec.Spec) {
	w.ahead, w.hash = 0, ""
	if sent := generationOf(spec); sent != 0 {
		w.ahead = generation - sent
	}
}

func generationOf(spec *codec.Spec) int64 {
	if spec.Work == nil {
		return 0
	}
	return spec.Work.Generation
}

// countedBack returns a status with the generations that its source counts. What was observed of an earlier generation
// than the current one stays that; where the source has none so early, it is 0.
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
