// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package kstatus computes the status of objects with sigs.k8s.io/cli-utils. It corrects the status
// of Jobs and Pods, and returns an error where the library panics.
package kstatus

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

var (
	jobKind = schema.GroupKind{Group: "batch", Kind: "Job"}
	podKind = schema.GroupKind{Kind: "Pod"}
)

// Compute returns the status of an object with a kind. A Job is Current only when it is complete,
// and a Pod in the phase Failed is Failed.
func Compute(obj *unstructured.Unstructured) (result *status.Result, err error) {
	defer func() { // on some malformed statuses of Pods
		if r := recover(); r != nil {
			result, err = nil, fmt.Errorf("malformed status: %v", r)
		}
	}()
	if result, err = status.Compute(obj); err != nil || result.Status != status.CurrentStatus {
		return result, err
	}
	switch obj.GroupVersionKind().GroupKind() {
	case jobKind:
		if !isComplete(obj) {
			result.Status = status.InProgressStatus
		}
	case podKind:
		if phase, _, _ := unstructured.NestedString(obj.Object, "status", "phase"); phase == "Failed" {
			result.Status = status.FailedStatus
		}
	}
	return result, nil
}

func isComplete(job *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(job.Object, "status", "conditions")
	for _, c := range conditions {
		if condition, ok := c.(map[string]any); ok && condition["type"] == "Complete" && condition["status"] == "True" {
			return true
		}
	}
	return false
}
