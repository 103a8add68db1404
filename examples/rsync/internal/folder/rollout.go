// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package folder

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/spokewire/sdk-go/internal/yamldoc"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// rollout is the file format of a rsync.Rollout: clusters are provider+name, and durations "5m".
type rollout struct {
	Groups            []group             `json:"groups"`
	MaxConcurrency    *intstr.IntOrString `json:"maxConcurrency"`
	MaxFailures       *intstr.IntOrString `json:"maxFailures"`
	Until             appcontext.OpStatus `json:"until"`
	MinSuccessTime    metav1.Duration     `json:"minSuccessTime"`
	ProgressDeadline  metav1.Duration     `json:"progressDeadline"`
	RollbackOnFailure bool                `json:"rollbackOnFailure"`
}

type group struct {
	Name           string              `json:"name"`
	Clusters       []string            `json:"clusters"`
	MaxConcurrency *intstr.IntOrString `json:"maxConcurrency"`
	MaxFailures    *intstr.IntOrString `json:"maxFailures"`
	ApproveBefore  bool                `json:"approveBefore"`
	Wait           metav1.Duration     `json:"wait"`
	ApproveAfter   bool                `json:"approveAfter"`
}

// Rollout reads a rollout from YAML or JSON. The engine validates its values.
func Rollout(text []byte) (*rsync.Rollout, error) {
	object, err := yamldoc.StrictJSON(text)
	if err != nil {
		return nil, err
	}
	var r rollout
	decoder := json.NewDecoder(bytes.NewReader(object))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&r); err != nil {
		return nil, err
	}
	out := &rsync.Rollout{
		MaxConcurrency: limit(r.MaxConcurrency), MaxFailures: limit(r.MaxFailures), Until: r.Until,
		MinSuccessTime: r.MinSuccessTime.Duration, ProgressDeadline: r.ProgressDeadline.Duration, RollbackOnFailure: r.RollbackOnFailure,
	}
	for i, g := range r.Groups {
		to := rsync.RolloutGroup{
			Name: g.Name, MaxConcurrency: limit(g.MaxConcurrency), MaxFailures: limit(g.MaxFailures),
			ApproveBefore: g.ApproveBefore, Wait: g.Wait.Duration, ApproveAfter: g.ApproveAfter,
		}
		for j, c := range g.Clusters {
			provider, name, ok := strings.Cut(c, "+")
			if !ok {
				return nil, fmt.Errorf("groups[%d].clusters[%d]: %q is not provider+name", i, j, c)
			}
			to.Clusters = append(to.Clusters, appcontext.ClusterID{Provider: provider, Name: name})
		}
		out.Groups = append(out.Groups, to)
	}
	return out, nil
}

func limit(value *intstr.IntOrString) string {
	if value == nil {
		return ""
	}
	return value.String()
}
