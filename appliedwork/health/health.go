// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/internal/cut"
)

// Status is the state of an object. The values are those of kstatus.
type Status string

const (
	// StatusCurrent: the cluster has reached the state that the object describes.
	StatusCurrent Status = "Current"
	// StatusInProgress: a controller is working on the object, or has not seen its latest change.
	StatusInProgress Status = "InProgress"
	// StatusFailed: a controller has reported an error from which it may not recover.
	StatusFailed Status = "Failed"
	// StatusTerminating: the object is being deleted.
	StatusTerminating Status = "Terminating"
	// StatusNotFound: the object does not exist.
	StatusNotFound Status = "NotFound"
	// StatusUnknown: the object cannot be read, or has a status that cannot be read.
	StatusUnknown Status = "Unknown"
)

// maxMessage is the limit of Result.Message, in bytes.
const maxMessage = 1024

// Result is the status of an object and the reason for it.
type Result struct {
	Status Status
	// Message has at most 1024 bytes. It may quote a condition of the object.
	Message string
}

var (
	jobKind = schema.GroupKind{Group: "batch", Kind: "Job"}
	podKind = schema.GroupKind{Kind: "Pod"}
)

// Of computes the status of an object as it was read from an API server. It never returns
// [StatusNotFound]. If it returns an error, the status is [StatusUnknown]. The error is an
// [appliedwork.ErrInvalidObject] for an object without a kind or a name. Any other error reports a
// status that cannot be read.
func Of(obj *unstructured.Unstructured) (Result, error) {
	key, err := appliedwork.Identify(obj)
	if err != nil {
		return unknown(err), err
	}
	computed, err := compute(obj)
	if err != nil {
		err = fmt.Errorf("compute the status of %s: %w", key, err)
		return unknown(err), err
	}
	result := Result{Status(computed.Status), cut.Within(computed.Message, maxMessage)}
	if result.Status != StatusCurrent {
		return result, nil
	}
	switch key.GroupKind() {
	case jobKind:
		if !isComplete(obj) {
			result.Status = StatusInProgress
		}
	case podKind:
		if phase, _, _ := unstructured.NestedString(obj.Object, "status", "phase"); phase == "Failed" {
			result.Status = StatusFailed
		}
	}
	return result, nil
}

// compute calls kstatus, which panics on some malformed statuses of Pods.
func compute(obj *unstructured.Unstructured) (result *status.Result, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("malformed status: %v", r)
		}
	}()
	return status.Compute(obj)
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

func unknown(err error) Result { return Result{StatusUnknown, cut.Within(err.Error(), maxMessage)} }
