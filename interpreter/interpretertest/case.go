// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpretertest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/internal/yamldoc"
	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// Case is a query with the expected answer.
type Case struct {
	// Name is the name of the subtest. Reason is printed if it fails.
	Name   string `json:"name"`
	Reason string `json:"reason,omitempty"`

	// Operation is the operation, by its name in the Interpret protocol.
	Operation interpreter.Operation `json:"operation"`
	// Object is the object of the query.
	Object map[string]any `json:"object"`
	// Observed is the object on the cluster, for Retain.
	Observed map[string]any `json:"observed,omitempty"`
	// Replicas is the number to set, for ReviseReplica.
	Replicas int32 `json:"replicas,omitempty"`
	// Statuses are the statuses to aggregate, for AggregateStatus.
	Statuses []interpreter.AggregatedStatusItem `json:"statuses,omitempty"`

	// Want is the expected answer.
	Want Want `json:"want"`
}

// Want is an expected answer. One of its fields is set, or Replicas and Requirements.
type Want struct {
	Replicas     *int32                                 `json:"replicas,omitempty"`
	Requirements *interpreter.ReplicaRequirements       `json:"requirements,omitempty"`
	Components   []interpreter.Component                `json:"components,omitempty"`
	Object       map[string]any                         `json:"object,omitempty"`
	Dependencies []interpreter.DependentObjectReference `json:"dependencies,omitempty"`
	Status       map[string]any                         `json:"status,omitempty"`
	Healthy      *bool                                  `json:"healthy,omitempty"`
	// Error is a part of the text of an error.
	Error string `json:"error,omitempty"`
}

// Load reads the cases of a file. It returns an error for an unknown field, and for a case without
// name, operation or object.
func Load(path string) ([]Case, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var cases []Case
	for document, err := range yamldoc.Split(content) {
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		var c Case
		if err := c.read(document); err != nil {
			return nil, fmt.Errorf("%s, case %d: %w", path, len(cases)+1, err)
		}
		if c.Name == "" || !c.Operation.Known() || c.Object == nil {
			return nil, fmt.Errorf("%s, case %d (%s): name, operation and object are required", path, len(cases)+1, c.Name)
		}
		cases = append(cases, c)
	}
	return cases, nil
}

// read decodes a case. It keeps numbers as text: not every number fits into a float64.
func (c *Case) read(document yamldoc.Document) error {
	text, err := document.StrictJSON()
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	decoder.DisallowUnknownFields()
	return decoder.Decode(c)
}

// query returns the query of a case. Its numbers have the types of decoded objects of an API
// server.
func (c *Case) query() (interpreter.Query, error) {
	q := interpreter.Query{Operation: c.Operation, Replicas: c.Replicas, Statuses: c.Statuses}
	var err error
	if q.Object, err = object(c.Object); err != nil {
		return q, err
	}
	if c.Observed != nil {
		q.Observed, err = object(c.Observed)
	}
	return q, err
}

func object(content map[string]any) (*unstructured.Unstructured, error) {
	raw, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{}
	err = u.UnmarshalJSON(raw)
	return u, err
}

// Check sends the query of a case to a target, for code outside of tests. It returns the difference
// to the expected answer, or an empty text.
func Check(ctx context.Context, target interpreter.Interpreter, c Case) string {
	q, err := c.query()
	if err != nil {
		return "the case has no object: " + err.Error()
	}
	before := q.Object.DeepCopy()
	answer, err := target.Interpret(ctx, q)
	if d := diff("the object was changed, which is the caller's", before, q.Object); d != "" {
		return d
	}
	return c.compare(answer, err)
}

// compare returns the difference between an answer or an error and the expected one.
func (c *Case) compare(answer interpreter.Answer, err error) string {
	if c.Want.Error != "" || err != nil {
		return compareErrors(c.Want.Error, err)
	}
	w := &c.Want
	switch c.Operation {
	case v1alpha1.InterpreterOperationInterpretReplica:
		if w.Replicas == nil {
			return "the case does not say which replicas it wants"
		}
		if d := diff("replicas", *w.Replicas, answer.Replicas); d != "" || w.Requirements == nil {
			return d
		}
		return diff("requirements", w.Requirements, answer.Requirements)
	case v1alpha1.InterpreterOperationInterpretComponent:
		return diff("components", w.Components, answer.Components)
	case v1alpha1.InterpreterOperationInterpretDependency:
		return diff("dependencies", w.Dependencies, answer.Dependencies)
	case v1alpha1.InterpreterOperationInterpretStatus:
		return diff("status", w.Status, answer.Status)
	case v1alpha1.InterpreterOperationInterpretHealth:
		return diff("healthy", w.Healthy, answer.Healthy)
	}
	return diff("object", w.Object, answer.Object)
}
