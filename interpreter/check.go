// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpreter

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/internal/jsontext"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// check returns the first mistake in a response to an operation, or nil.
func (r *Response) check(p Protocol, operation Operation) *AnswerError {
	if !r.Successful {
		if r.Status == nil || r.Status.Message == "" && r.Status.Code == 0 {
			return &AnswerError{Problem: ProblemNoStatus, Field: "response.status",
				Detail: "is missing: a failed request needs a message or a code"}
		}
		return nil
	}
	switch operation {
	case v1alpha1.InterpreterOperationInterpretReplica:
		switch {
		case r.Replicas == nil:
			return missing("response.replicas")
		case *r.Replicas < 0:
			return invalid("response.replicas", "is %d: it must not be negative", *r.Replicas)
		}
	case v1alpha1.InterpreterOperationInterpretComponent:
		return r.checkComponents()
	case v1alpha1.InterpreterOperationInterpretDependency:
		return r.checkDependencies(p)
	case v1alpha1.InterpreterOperationInterpretStatus:
		return r.checkStatus(statusField(p))
	case v1alpha1.InterpreterOperationInterpretHealth:
		if r.Healthy == nil {
			return missing("response.healthy")
		}
	case v1alpha1.InterpreterOperationReviseReplica, v1alpha1.InterpreterOperationRetain,
		v1alpha1.InterpreterOperationAggregateStatus, v1alpha1.InterpreterOperationPrune:
		return r.checkPatch()
	}
	return nil
}

func statusField(p Protocol) string {
	if p == ProtocolExplore {
		return "response.status"
	}
	return "response.rawStatus"
}

func missing(field string) *AnswerError {
	return &AnswerError{Problem: ProblemMissingField, Field: field, Detail: "is missing: the operation requires it"}
}

func invalid(field, detail string, args ...any) *AnswerError {
	return &AnswerError{Problem: ProblemInvalidField, Field: field, Detail: fmt.Sprintf(detail, args...)}
}

func (r *Response) checkStatus(field string) *AnswerError {
	switch {
	case r.RawStatus == nil || len(r.RawStatus.Raw) == 0 || jsontext.KindOf(r.RawStatus.Raw) == jsontext.Null:
		return missing(field)
	case !jsontext.Valid(r.RawStatus.Raw):
		return invalid(field, "is not JSON")
	}
	return nil
}

func (r *Response) checkComponents() *AnswerError {
	seen := make(map[string]bool, len(r.Components))
	for i, c := range r.Components {
		field := fmt.Sprintf("response.components[%d]", i)
		switch {
		case c.Name == "":
			return missing(field + ".name")
		case c.Replicas < 0:
			return invalid(field+".replicas", "is %d: it must not be negative", c.Replicas)
		case seen[c.Name]:
			return invalid(field+".name", "is a duplicate: %q", c.Name)
		}
		seen[c.Name] = true
	}
	return nil
}

// dependencyKey identifies a dependency.
type dependencyKey struct{ apiVersion, kind, namespace, name, selector string }

func keyOf(d *DependentObjectReference) dependencyKey {
	k := dependencyKey{apiVersion: d.APIVersion, kind: d.Kind, namespace: d.Namespace, name: d.Name}
	if d.LabelSelector != nil {
		k.selector = metav1.FormatLabelSelector(d.LabelSelector)
	}
	return k
}

func (r *Response) checkDependencies(p Protocol) *AnswerError {
	seen := make(map[dependencyKey]bool, len(r.Dependencies))
	for i := range r.Dependencies {
		d := &r.Dependencies[i]
		field := fmt.Sprintf("response.dependencies[%d]", i)
		switch {
		case d.APIVersion == "":
			return missing(field + ".apiVersion")
		case d.Kind == "":
			return missing(field + ".kind")
		case d.LabelSelector != nil && p == ProtocolExplore:
			return invalid(field+".labelSelector", "is set: the Explore protocol supports only names")
		case d.Name == "" && d.LabelSelector == nil:
			return missing(field + ".name")
		case d.Name != "" && d.LabelSelector != nil:
			return invalid(field, "has both a name and a labelSelector")
		}
		if d.LabelSelector != nil {
			if _, err := metav1.LabelSelectorAsSelector(d.LabelSelector); err != nil {
				return &AnswerError{Problem: ProblemInvalidField, Field: field + ".labelSelector",
					Detail: "is not a selector", Err: err}
			}
		}
		key := keyOf(d)
		if seen[key] {
			return invalid(field, "is a duplicate: %s %s %s", d.APIVersion, d.Kind, namespacedName(d.Namespace, d.Name))
		}
		seen[key] = true
	}
	return nil
}

func namespacedName(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// checkPatch accepts an answer without a patch, which changes nothing.
func (r *Response) checkPatch() *AnswerError {
	if len(r.Patch) == 0 {
		return nil
	}
	switch {
	case r.PatchType == nil || *r.PatchType == "":
		return invalidPatch("response.patchType", "is missing: response.patch requires it", nil)
	case *r.PatchType != v1alpha1.PatchTypeJSONPatch:
		return invalidPatch("response.patchType", fmt.Sprintf("is %q: must be JSONPatch", *r.PatchType), nil)
	case !jsontext.Valid(r.Patch) || jsontext.KindOf(r.Patch) != jsontext.Array:
		return invalidPatch("response.patch", "is not a JSON Patch: expected a list of operations", nil)
	}
	return nil
}

func invalidPatch(field, detail string, err error) *AnswerError {
	return &AnswerError{Problem: ProblemInvalidPatch, Field: field, Detail: detail, Err: err}
}
