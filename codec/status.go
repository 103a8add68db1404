// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/internal/workdata"
)

var statusLimits = workdata.Limits{Depth: MaxDepth, Elements: MaxElements}

func (d *draft) statusElements(s *workv1.ManifestWorkStatus) {
	n := len(s.Conditions) + len(s.ResourceStatus.Manifests)
	for i := range s.ResourceStatus.Manifests {
		n += len(s.ResourceStatus.Manifests[i].Conditions) + len(s.ResourceStatus.Manifests[i].StatusFeedbacks.Values)
	}
	d.elements("data", n)
}

// checkedStatus returns a status if it was read without an error and its times are valid.
func checkedStatus(s *workv1.ManifestWorkStatus, err error) (*workv1.ManifestWorkStatus, *Error) {
	switch {
	case err != nil:
		return nil, &Error{Code: CodeData, Field: "data", Reason: reasonFor(err, "is not a status"), Err: err}
	case !statusTimes(s):
		return nil, &Error{Code: CodeData, Field: "data", Reason: "a condition's time " + reasonTime}
	}
	return s, nil
}

// statusTimes reports whether the times in a status can be written and read again: metav1.Time does
// not check them.
func statusTimes(s *workv1.ManifestWorkStatus) bool {
	bad := func(c metav1.Condition) bool { return !isRFC3339(c.LastTransitionTime.Time) }
	for i := range s.ResourceStatus.Manifests {
		if slices.ContainsFunc(s.ResourceStatus.Manifests[i].Conditions, bad) {
			return false
		}
	}
	return !slices.ContainsFunc(s.Conditions, bad)
}
