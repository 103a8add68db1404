// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package explain prints what is known of objects: replicas, health, status and dependencies.
package explain

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

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/caller"
	"github.com/spokewire/sdk-go/interpreter/native"
)

// File explains each object of a YAML file. Its error says what is wrong with the file, or that an object could not be
// explained.
func File(ctx context.Context, path string, out io.Writer) error {
	objects, err := read(path)
	if err != nil {
		return err
	}
	webhooks, stop, err := startWebhook()
	if err != nil {
		return err
	}
	defer stop()
	answers := caller.Chain(webhooks, native.New())
	failed := 0
	for _, object := range objects {
		if err := explain(ctx, answers, object, out); err != nil {
			fmt.Fprintf(out, "  %-13s %v\n", "error", err)
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%s: %d of %d objects cannot be explained", path, failed, len(objects))
	}
	return nil
}

// explain prints a line for each answer, until one fails.
func explain(ctx context.Context, answers *caller.Chained, object *unstructured.Unstructured, out io.Writer) error {
	fmt.Fprintf(out, "%s %s\n", object.GetKind(), strings.TrimPrefix(object.GetNamespace()+"/"+object.GetName(), "/"))
	line := func(name, text string, err error) error {
		if errors.Is(err, interpreter.ErrNotInterpreted) {
			text, err = "-", nil
		}
		if err == nil {
			fmt.Fprintf(out, "  %-13s %s\n", name, text)
		}
		return err
	}
	replicas, requirements, err := answers.Replicas(ctx, object)
	if err := line("replicas", fmt.Sprint(replicas)+requests(requirements), err); err != nil {
		return err
	}
	healthy, err := answers.Health(ctx, object)
	if err := line("healthy", fmt.Sprint(healthy), err); err != nil {
		return err
	}
	status, err := answers.Status(ctx, object)
	text := ""
	if err == nil {
		var compact bytes.Buffer
		err = json.Compact(&compact, status.Raw)
		text = compact.String()
	}
	if err := line("status", text, err); err != nil {
		return err
	}
	dependencies, err := answers.Dependencies(ctx, object)
	if err != nil || len(dependencies) == 0 {
		return line("dependencies", "none", err)
	}
	for _, d := range dependencies {
		fmt.Fprintf(out, "  %-13s %s %s\n", "depends on", d.Kind, d.Name)
	}
	return nil
}

// requests is what each replica requests.
func requests(r *interpreter.ReplicaRequirements) string {
	if r == nil || len(r.ResourceRequest) == 0 {
		return ""
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(r.ResourceRequest)) {
		quantity := r.ResourceRequest[name]
		parts = append(parts, fmt.Sprintf("%s=%s", name, quantity.String()))
	}
	return ", each " + strings.Join(parts, " ")
}
