// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpreter

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/internal/jsonpatch"
	"github.com/spokewire/sdk-go/internal/jsontext"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// MaxBytes is the default limit of requests and answers, and the limit of the object that a patch
// makes.
const MaxBytes = 8 << 20

// apply applies a JSON Patch to a copy of an object. The patch must not change its identity.
func apply(operation Operation, object *unstructured.Unstructured, patch []byte) (*unstructured.Unstructured, error) {
	patched, err := object.MarshalJSON() // not DeepCopy, which panics if a number is an int
	if err != nil {
		return nil, fmt.Errorf("encode object: %w", err)
	}
	if len(patch) > 0 {
		if patched, err = applyText(patched, patch); err != nil {
			return nil, err
		}
	}
	if jsontext.KindOf(patched) == jsontext.Object && kindOf(patched) == "" {
		// The error of Unstructured would contain the object.
		return nil, changed("kind", object.GetKind(), "")
	}
	out := &unstructured.Unstructured{}
	if err := jsontext.Decode(patched, out); err != nil {
		var memory *jsontext.MemoryError
		if errors.As(err, &memory) {
			return nil, tooLarge("makes an object with too many parts", err)
		}
		return nil, invalidPatch("response.patch", "does not make an object", err)
	}
	if err := sameIdentity(operation, object, out); err != nil {
		return nil, err
	}
	return out, nil
}

// applyText applies a patch within the limits of the operations, the copies and the time.
func applyText(original, patch []byte) ([]byte, error) {
	operations, err := jsonpatch.Decode(patch)
	var many *jsonpatch.OperationsError
	switch {
	case errors.As(err, &many):
		return nil, tooLarge(many.Error(), nil)
	case err != nil:
		return nil, invalidPatch("response.patch", "is not a JSON Patch", err)
	}
	out, err := operations.Apply(original, jsonpatch.Options{MaxCopied: MaxBytes})
	switch {
	case errors.Is(err, jsonpatch.ErrTooExpensive):
		return nil, tooLarge("is too expensive for an object of this size: replace lists and deep values as a whole", nil)
	case err != nil:
		return nil, invalidPatch("response.patch", "cannot be applied", err)
	case len(out) > MaxBytes:
		return nil, tooLarge(fmt.Sprintf("makes an object of %d bytes: the limit is %d", len(out), MaxBytes), nil)
	}
	return out, nil
}

func tooLarge(detail string, err error) error {
	return &AnswerError{Problem: ProblemTooLarge, Field: "response.patch", Detail: detail, Err: err}
}

// sameIdentity returns an error if a patch has changed the identity of an object. Prune may remove the
// UID: an object has none before it is on the cluster.
func sameIdentity(operation Operation, before, after *unstructured.Unstructured) error {
	for _, f := range []struct{ field, before, after string }{
		{"apiVersion", before.GetAPIVersion(), after.GetAPIVersion()},
		{"kind", before.GetKind(), after.GetKind()},
		{"metadata.name", before.GetName(), after.GetName()},
		{"metadata.namespace", before.GetNamespace(), after.GetNamespace()},
		{"metadata.uid", string(before.GetUID()), string(after.GetUID())},
	} {
		removed := operation == v1alpha1.InterpreterOperationPrune && f.field == "metadata.uid" && f.after == ""
		if f.before != f.after && !removed {
			return changed(f.field, f.before, f.after)
		}
	}
	return nil
}

func changed(field, before, after string) error {
	return &AnswerError{Problem: ProblemIdentityChanged, Field: "response.patch",
		Detail: fmt.Sprintf("changes %s from %q to %q: the answer would be another object", field, before, after)}
}
