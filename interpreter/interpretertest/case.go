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

	// The other fields are those of an [interpreter.Query], and its expected answer.
	Operation interpreter.Operation              `json:"operation"`
	Object    map[string]any                     `json:"object"`
	Observed  map[string]any                     `json:"observed,omitempty"`
	Replicas  int32                              `json:"replicas,omitempty"`
	Statuses  []interpreter.AggregatedStatusItem `json:"statuses,omitempty"`
	Want      Want                               `json:"want"`
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

// Load reads the cases of a file. Unknown fields, and cases without name, operation or object are
// errors.
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

// query returns the query of a case, with the numbers of objects of an API server.
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

// Check returns the difference between the answer of a target and the expected one, or "". It is for
// code outside of tests.
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
