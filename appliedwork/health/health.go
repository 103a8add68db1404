// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/internal/cut"
	"github.com/spokewire/sdk-go/internal/kstatus"
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

// Of computes the status of an object as it was read from an API server. It never returns
// [StatusNotFound]. If it returns an error, the status is [StatusUnknown]. The error is an
// [appliedwork.ErrInvalidObject] for an object without a kind or a name. Any other error reports a
// status that cannot be read.
func Of(obj *unstructured.Unstructured) (Result, error) {
	key, err := appliedwork.Identify(obj)
	if err != nil {
		return unknown(err), err
	}
	computed, err := kstatus.Compute(obj)
	if err != nil {
		err = fmt.Errorf("compute the status of %s: %w", key, err)
		return unknown(err), err
	}
	return Result{Status(computed.Status), cut.Within(computed.Message, maxMessage)}, nil
}

func unknown(err error) Result { return Result{StatusUnknown, cut.Within(err.Error(), maxMessage)} }
