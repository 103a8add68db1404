// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package manifestwork

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// InvalidError is returned by [Connectors.Check] for an object that no work accepts.
type InvalidError struct {
	// Resource is the index of the object, or -1 for all.
	Resource int
	// Field is the field, "" for the whole object. Reason is one word about it. Neither contains a
	// value.
	Field, Reason string
	// Text describes the problem, and may contain values.
	Text string
}

// Error returns field and reason, which contain no value.
func (e *InvalidError) Error() string { return strings.TrimPrefix(e.Field+": "+e.Reason, ": ") }

// Check returns an [*InvalidError] for resources that no work of a cluster accepts, or that every API
// server rejects. Programs use it to refuse input before any object is written. It is a dry run:
// nothing is written or sent. Other causes that prevent a write, for example an unreachable hub, are
// no error here. Otherwise the error is that of ctx.
func (c *Connectors) Check(ctx context.Context, cluster appcontext.ClusterID, resources []appcontext.Resource) error {
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
		if config := c.options.Config(r.Object); config != nil {
			w.Spec.ManifestConfigs = append(w.Spec.ManifestConfigs, *config)
		}
	}
	_, err := c.works.ManifestWorks(c.options.Namespace(cluster)).Create(ctx, w,
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

func inField(resources int, field, reason, text string) *InvalidError {
	out := &InvalidError{Resource: -1, Field: field, Reason: reason, Text: text}
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

// takes returns an error for objects that every API server rejects, as far as this is known without
// a request: lists, and invalid names of built-in kinds. A work accepts them, and its agent would
// fail.
func takes(r *appcontext.Resource) *InvalidError {
	o := r.Object
	if isList(r) {
		return &InvalidError{Field: "kind", Reason: "FieldValueInvalid", Text: fmt.Sprintf(
			"Invalid value: %q: a List is not supported: write each object as a separate document", o.Kind)}
	}
	wrong := content.IsPathSegmentName(o.Name) // required for all kinds
	switch {
	case len(wrong) > 0 || !isBuiltIn(o, o.Kind):
	case o.Kind == "Namespace", o.Kind == "Service": // older API servers have stricter rules for Services
		wrong = content.IsDNS1123Label(o.Name)
	default:
		wrong = content.IsDNS1123Subdomain(o.Name)
	}
	if len(wrong) > 0 {
		return &InvalidError{Field: "metadata.name", Reason: "FieldValueInvalid",
			Text: fmt.Sprintf("Invalid value: %q: %s", o.Name, strings.Join(wrong, ", "))}
	}
	return nil
}

// isList reports whether an object is a list: of a built-in kind, or with items, which clients
// treat as a list.
func isList(r *appcontext.Resource) bool {
	kind, found := strings.CutSuffix(r.Object.Kind, "List")
	if !found {
		return false
	}
	if kind == "" && r.Object.Group == "" || isBuiltIn(r.Object, kind) {
		return true
	}
	var listed struct {
		Items []json.RawMessage `json:"items"`
	}
	return json.Unmarshal(r.Manifest, &listed) == nil && listed.Items != nil
}

// builtIn are kinds with objects that have DNS names, by group. Other kinds have other rules: a Role
// may have any name that is a valid path segment.
var builtIn = map[string][]string{
	"": {"ConfigMap", "Endpoints", "LimitRange", "Namespace", "PersistentVolume", "PersistentVolumeClaim", "Pod",
		"ReplicationController", "ResourceQuota", "Secret", "Service", "ServiceAccount"},
	"apps":              {"DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"},
	"batch":             {"CronJob", "Job"},
	"networking.k8s.io": {"Ingress", "NetworkPolicy"},
}

func isBuiltIn(o appcontext.Object, kind string) bool { return slices.Contains(builtIn[o.Group], kind) }
