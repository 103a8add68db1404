// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package rollouts has the text form of a [rsync.Rollout]: limits are numbers or percentages, and
// durations are texts, for example "5m".
package rollouts

import (
	"cmp"
	"fmt"
	"time"

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
	MinSuccessTime    string              `json:"minSuccessTime,omitempty"`
	ProgressDeadline  string              `json:"progressDeadline,omitempty"`
	RollbackOnFailure bool                `json:"rollbackOnFailure,omitempty"`
}

// Group has the fields of a [rsync.RolloutGroup].
type Group[C any] struct {
	Name           string              `json:"name"`
	Clusters       C                   `json:"clusters,omitempty"`
	MaxConcurrency *intstr.IntOrString `json:"maxConcurrency,omitempty"`
	MaxFailures    *intstr.IntOrString `json:"maxFailures,omitempty"`
	ApproveBefore  bool                `json:"approveBefore,omitempty"`
	Wait           string              `json:"wait,omitempty"`
	ApproveAfter   bool                `json:"approveAfter,omitempty"`
}

// Resolve returns the rollout with the clusters of each group. The error is an
// [*rsync.InvalidRolloutError] for a text that is not a duration. Other values are not validated.
func (r *Rollout[C]) Resolve(clusters func(group int, c C) ([]appcontext.ClusterID, error)) (*rsync.Rollout, error) {
	out := &rsync.Rollout{
		MaxConcurrency: limit(r.MaxConcurrency), MaxFailures: limit(r.MaxFailures), Until: r.Until,
		RollbackOnFailure: r.RollbackOnFailure,
	}
	err := cmp.Or(
		duration(&out.MinSuccessTime, "MinSuccessTime", r.MinSuccessTime),
		duration(&out.ProgressDeadline, "ProgressDeadline", r.ProgressDeadline),
	)
	if err != nil {
		return nil, err
	}
	for i, g := range r.Groups {
		of, err := clusters(i, g.Clusters)
		if err != nil {
			return nil, err
		}
		to := rsync.RolloutGroup{
			Name: g.Name, Clusters: of, MaxConcurrency: limit(g.MaxConcurrency), MaxFailures: limit(g.MaxFailures),
			ApproveBefore: g.ApproveBefore, ApproveAfter: g.ApproveAfter,
		}
		if err := duration(&to.Wait, fmt.Sprintf("Groups[%d].Wait", i), g.Wait); err != nil {
			return nil, err
		}
		out.Groups = append(out.Groups, to)
	}
	return out, nil
}

func duration(to *time.Duration, field, text string) (err error) {
	if text == "" {
		return nil
	}
	if *to, err = time.ParseDuration(text); err != nil {
		return &rsync.InvalidRolloutError{
			Field: field, Problem: fmt.Sprintf("%q: must be a duration, for example 5m", text),
		}
	}
	return nil
}

func limit(value *intstr.IntOrString) string {
	if value == nil {
		return ""
	}
	return value.String()
}
