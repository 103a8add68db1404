// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/native"
)

// wellKnown evaluates the rules for built-in kinds of Kubernetes. The native interpreter reads
// their statuses.
type wellKnown struct{ native *native.Interpreter }

func newWellKnown() wellKnown { return wellKnown{native.New()} }

// wellKnownHealthy is the condition that reports whether an object is healthy. All other conditions
// report completion.
const wellKnownHealthy = "Healthy"

// evaluate reports whether an object is complete, for any condition except Healthy, or whether it
// is healthy. The string is the message.
func (k wellKnown) evaluate(
	ctx context.Context, condition string, obj *unstructured.Unstructured,
) (bool, string, error) {
	if condition == wellKnownHealthy {
		healthy, err := k.native.Health(ctx, obj)
		if errors.Is(err, interpreter.ErrNotInterpreted) {
			return false, "", &invalidError{
				fmt.Sprintf("objects of kind %s have no well-known health: use CEL", obj.GetKind()),
			}
		}
		return healthy, "", err
	}
	switch obj.GroupVersionKind().GroupKind() {
	case schema.GroupKind{Group: "batch", Kind: "Job"}:
		var status batchv1.JobStatus
		if err := k.status(ctx, obj, &status); err != nil {
			return false, "", err
		}
		for _, c := range status.Conditions {
			if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
				return true, "Job is finished", nil
			}
		}
		return false, "Job is not finished", nil
	case schema.GroupKind{Kind: "Pod"}:
		var status corev1.PodStatus
		if err := k.status(ctx, obj, &status); err != nil {
			return false, "", err
		}
		return status.Phase == corev1.PodSucceeded || status.Phase == corev1.PodFailed,
			fmt.Sprintf("Pod is in phase %s", status.Phase), nil
	}
	return false, "",
		&invalidError{fmt.Sprintf("objects of kind %s have no well-known condition: use CEL", obj.GetKind())}
}

// status decodes the status that the interpreter returns.
func (k wellKnown) status(ctx context.Context, obj *unstructured.Unstructured, into any) error {
	raw, err := k.native.Status(ctx, obj)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw.Raw, into)
}
