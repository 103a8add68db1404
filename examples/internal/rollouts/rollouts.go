// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package rollouts has the text form of a [rsync.Rollout]: limits are numbers or percentages, and
// durations are texts, for example "5m".
package rollouts

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// Rollout has the fields of a [rsync.Rollout]. C selects the clusters of a group.
type Rollout[C any] struct {
	Groups            []Group[C]          `json:"groups,omitempty"`
	MaxConcurrency    *intstr.IntOrString `json:"maxConcurrency,omitempty"`
	MaxFailures       *intstr.IntOrString `json:"maxFailures,omitempty"`
	Until             appcontext.OpStatus `json:"until,omitempty"`
	MinSuccessTime    metav1.Duration     `json:"minSuccessTime,omitempty"`
	ProgressDeadline  metav1.Duration     `json:"progressDeadline,omitempty"`
	RollbackOnFailure bool                `json:"rollbackOnFailure,omitempty"`
}

// Group has the fields of a [rsync.RolloutGroup].
type Group[C any] struct {
	Name           string              `json:"name"`
	Clusters       C                   `json:"clusters,omitempty"`
	MaxConcurrency *intstr.IntOrString `json:"maxConcurrency,omitempty"`
	MaxFailures    *intstr.IntOrString `json:"maxFailures,omitempty"`
	ApproveBefore  bool                `json:"approveBefore,omitempty"`
	Wait           metav1.Duration     `json:"wait,omitempty"`
	ApproveAfter   bool                `json:"approveAfter,omitempty"`
}

// Resolve returns the rollout with the clusters of each group. It does not validate the values.
func (r *Rollout[C]) Resolve(clusters func(group int, c C) ([]appcontext.ClusterID, error)) (*rsync.Rollout, error) {
	out := &rsync.Rollout{
		MaxConcurrency: limit(r.MaxConcurrency), MaxFailures: limit(r.MaxFailures), Until: r.Until,
		MinSuccessTime: r.MinSuccessTime.Duration, ProgressDeadline: r.ProgressDeadline.Duration,
		RollbackOnFailure: r.RollbackOnFailure,
	}
	for i, g := range r.Groups {
		of, err := clusters(i, g.Clusters)
		if err != nil {
			return nil, err
		}
		out.Groups = append(out.Groups, rsync.RolloutGroup{
			Name: g.Name, Clusters: of, MaxConcurrency: limit(g.MaxConcurrency), MaxFailures: limit(g.MaxFailures),
			ApproveBefore: g.ApproveBefore, Wait: g.Wait.Duration, ApproveAfter: g.ApproveAfter,
		})
	}
	return out, nil
}

func limit(value *intstr.IntOrString) string {
	if value == nil {
		return ""
	}
	return value.String()
}
