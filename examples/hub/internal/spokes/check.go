// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package spokes

import (
	"context"
	"errors"
	"regexp"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/hub/internal/health"
	"github.com/spokewire/sdk-go/examples/hub/internal/render"
	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// Check returns a [*render.InvalidError] for resources that no work of a cluster accepts. It is a
// dry run: nothing is written or sent. Other causes that prevent a write, such as an unreachable
// broker, are no error here.
func (s *Spokes) Check(ctx context.Context, cluster string, resources []appcontext.Resource) error {
	for i := range resources {
		if err := takes(&resources[i]); err != nil {
			err.Resource = i
			return err
		}
	}
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{GenerateName: "check-"}}
	for i := range resources {
		r := &resources[i]
		w.Spec.Workload.Manifests = append(w.Spec.Workload.Manifests,
			workv1.Manifest{RawExtension: runtime.RawExtension{Raw: r.Manifest}})
		if config := health.Config(r.Object); config != nil {
			w.Spec.ManifestConfigs = append(w.Spec.ManifestConfigs, *config)
		}
	}
	_, err := s.Clientset().WorkV1().ManifestWorks(cluster).Create(ctx, w,
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
		return ctx.Err()
	}
	var refused apierrors.APIStatus
	if !errors.As(err, &refused) {
		return err
	}
	status := refused.Status()
	if status.Details == nil || len(status.Details.Causes) == 0 {
		return inField(len(resources), "", string(status.Reason), status.Message)
	}
	first := status.Details.Causes[0]
	return inField(len(resources), first.Field, string(first.Type), first.Message)
}

// inWork finds the number of a manifest in a field of a work. Responses without causes have the
// field in their text.
var inWork = regexp.MustCompile(`spec\.workload\.manifests\[(\d+)\]\.?`)

func inField(resources int, field, reason, text string) *render.InvalidError {
	out := &render.InvalidError{Resource: -1, Field: field, Reason: reason, Text: text}
	for _, part := range []*string{&out.Field, &out.Text} {
		at := inWork.FindStringSubmatchIndex(*part)
		if at == nil {
			continue
		}
		if i, err := strconv.Atoi((*part)[at[2]:at[3]]); err == nil && i < resources {
			out.Resource = i
			*part = (*part)[at[1]:]
		}
		break
	}
	return out
}
