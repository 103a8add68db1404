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
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/caller"
	"github.com/spokewire/sdk-go/interpreter/native"
)

// File explains each object of a YAML file.
func File(ctx context.Context, path string, out io.Writer) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	webhooks, stop, err := startWebhook()
	if err != nil {
		return err
	}
	defer stop()
	answers := caller.Chain(webhooks, native.New())
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if len(object.Object) == 0 {
			continue
		}
		if object.GetKind() == "" || object.GetAPIVersion() == "" {
			return fmt.Errorf("%s: an object has no kind or apiVersion", path)
		}
		explain(ctx, answers, object, out)
	}
}

func explain(ctx context.Context, answers *caller.Chained, object *unstructured.Unstructured, out io.Writer) {
	fmt.Fprintf(out, "%s %s\n", object.GetKind(), strings.TrimPrefix(object.GetNamespace()+"/"+object.GetName(), "/"))
	line := func(name string, text string, err error) {
		switch {
		case errors.Is(err, interpreter.ErrNotInterpreted):
			text = "-"
		case err != nil:
			text = "error: " + err.Error()
		}
		fmt.Fprintf(out, "  %-13s %s\n", name, text)
	}
	replicas, requirements, err := answers.Replicas(ctx, object)
	line("replicas", fmt.Sprint(replicas)+requests(requirements), err)
	healthy, err := answers.Health(ctx, object)
	line("healthy", fmt.Sprint(healthy), err)
	status, err := answers.Status(ctx, object)
	text := ""
	if err == nil {
		var compact bytes.Buffer
		if err = json.Compact(&compact, status.Raw); err == nil {
			text = compact.String()
		}
	}
	line("status", text, err)
	dependencies, err := answers.Dependencies(ctx, object)
	if err != nil || len(dependencies) == 0 {
		line("dependencies", "none", err)
	}
	for _, d := range dependencies {
		line("depends on", d.Kind+" "+d.Name, nil)
	}
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
