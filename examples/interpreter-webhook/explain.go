// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/examples/internal/customizations"
	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/caller"
	"github.com/spokewire/sdk-go/interpreter/customization/kinds"
	"github.com/spokewire/sdk-go/interpreter/native"
)

// explain explains each object of a YAML file, with customizations of other files. It returns an error
// for an invalid file, and for an object for which an interpreter failed.
func explain(ctx context.Context, path string, customized []string, out io.Writer) error {
	own, err := customizations.Open(customized...)
	if err != nil {
		return err
	}
	objects, err := customizations.ReadObjects(path)
	if err != nil {
		return err
	}
	webhooks, stop, err := startWebhook()
	if err != nil {
		return err
	}
	defer stop()
	e := &explainer{out: out}
	e.chain = caller.Chain( // the default of kinds is last
		named{own, "customization", e}, named{webhooks, "webhook", e},
		named{native.New(), "native", e}, named{kinds.New(), "kinds", e},
	)
	failed := 0
	for _, object := range objects {
		if !e.explain(ctx, object) {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%s: %d of %d objects cannot be explained", path, failed, len(objects))
	}
	return nil
}

// explainer prints answers.
type explainer struct {
	out    io.Writer
	chain  *caller.Chained
	source string // the last interpreter that answered
	failed bool
}

// named is an interpreter of the chain that records its answers.
type named struct {
	interpreter.Interpreter
	name string
	e    *explainer
}

func (n named) Interpret(ctx context.Context, q interpreter.Query) (interpreter.Answer, error) {
	answer, err := n.Interpreter.Interpret(ctx, q)
	if err == nil {
		n.e.source = n.name
	}
	return answer, err
}

// line prints an answer or an error.
func (e *explainer) line(name, text string, err error) {
	switch {
	case errors.Is(err, interpreter.ErrNotInterpreted):
		text = "-"
	case err != nil:
		text, e.failed = "error: "+err.Error(), true
	default:
		text += " (" + e.source + ")"
	}
	fmt.Fprintf(e.out, "  %-13s %s\n", name, text)
}

// explain prints each answer about an object. It reports whether there was no error.
func (e *explainer) explain(ctx context.Context, object *unstructured.Unstructured) bool {
	e.failed = false
	fmt.Fprintf(e.out, "%s %s\n", object.GetKind(), strings.TrimPrefix(object.GetNamespace()+"/"+object.GetName(), "/"))
	replicas, requirements, err := e.chain.Replicas(ctx, object)
	text := fmt.Sprint(replicas)
	if requirements != nil {
		text += requests(requirements.ResourceRequest)
	}
	e.line("replicas", text, err)
	components, err := e.chain.Components(ctx, object)
	if err != nil && !errors.Is(err, interpreter.ErrNotInterpreted) {
		e.line("component", "", err)
	}
	for _, c := range components {
		text := fmt.Sprintf("%s %d", c.Name, c.Replicas)
		if c.ReplicaRequirements != nil {
			text += requests(c.ReplicaRequirements.ResourceRequest)
		}
		e.line("component", text, nil)
	}
	healthy, err := e.chain.Health(ctx, object)
	e.line("healthy", fmt.Sprint(healthy), err)
	status, err := e.chain.Status(ctx, object)
	if err == nil {
		var compact bytes.Buffer
		err = json.Compact(&compact, status.Raw)
		text = compact.String()
	}
	e.line("status", text, err)
	dependencies, err := e.chain.Dependencies(ctx, object)
	if err != nil || len(dependencies) == 0 {
		e.line("dependency", "none", err)
	}
	for _, d := range dependencies {
		e.line("dependency", d.Kind+" "+d.Name, nil)
	}
	return !e.failed
}

// requests returns the text of the requests of each replica.
func requests(list corev1.ResourceList) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(list)) {
		quantity := list[name]
		parts = append(parts, fmt.Sprintf("%s=%s", name, quantity.String()))
	}
	if len(parts) == 0 {
		return ""
	}
	return ", each " + strings.Join(parts, " ")
}
