// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package customization_test

import (
	"context"
	"encoding/pem"
	"errors"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/customization"
	"github.com/spokewire/sdk-go/interpreter/interpretertest"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// samples returns an interpreter of the file that most tests use.
func samples(t testing.TB) *customization.Interpreter {
	t.Helper()
	text, err := os.ReadFile("testdata/customizations.yaml")
	if err != nil {
		t.Fatal(err)
	}
	i, err := customization.New(customization.File{Name: "customizations.yaml", Text: text})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// withSpec returns an interpreter of one customization for the kind T of the group example.com.
func withSpec(spec string) (*customization.Interpreter, error) {
	return customization.New(customization.File{Name: "f", Text: []byte(oneWith(spec))})
}

func oneWith(spec string) string {
	return "apiVersion: config.karmada.io/v1alpha1\nkind: InterpreterCustomization\nmetadata: {name: c}\nspec:\n" +
		"  targets: [{apiVersion: example.com/v1, kind: T}]\n" + spec
}

// parsed returns an object of the kind T from the rest of its YAML.
func parsed(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	raw, err := yaml.YAMLToJSON([]byte("{apiVersion: example.com/v1, kind: T, " + text + "}"))
	if err == nil {
		err = u.UnmarshalJSON(raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// TestCases runs the cases in the process, and against a webhook in the Interpret protocol.
func TestCases(t *testing.T) {
	i := samples(t)
	interpretertest.RunFile(t, i, "testdata/cases.yaml")
	server := httptest.NewTLSServer(interpreter.NewHandler(i, interpreter.HandlerOptions{}))
	defer server.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	all, err := interpretertest.Load("testdata/cases.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var answered []interpretertest.Case
	for _, c := range all {
		if c.Want.Error == "" {
			answered = append(answered, c)
		}
	}
	interpretertest.Run(t, interpretertest.URL(t, interpreter.ProtocolInterpret, server.URL, ca), answered...)
}

func TestKindsAndSupports(t *testing.T) {
	i := samples(t)
	var got []string
	for _, gvk := range i.Kinds() {
		got = append(got, gvk.GroupVersion().String()+" "+gvk.Kind)
	}
	want := []string{
		"*/* *", "*.upbound.example.com/* *", "apps.example.com/* Workload",
		"batch.example.com/v1 TrainJob", "batch.example.com/v2 TrainJob", "source.example.com/v1 Source",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for _, tt := range []struct {
		group, version, kind string
		operation            interpreter.Operation
		want                 bool
	}{
		{"apps.example.com", "v7", "Workload", v1alpha1.InterpreterOperationInterpretReplica, true},
		{"apps.example.com", "v7", "Other", v1alpha1.InterpreterOperationInterpretReplica, false},
		{"batch.example.com", "v2", "TrainJob", v1alpha1.InterpreterOperationInterpretComponent, true},
		{"batch.example.com", "v3", "TrainJob", v1alpha1.InterpreterOperationInterpretComponent, false},
		{"a.upbound.example.com", "v1", "X", v1alpha1.InterpreterOperationAggregateStatus, true},
		{"upbound.example.com", "v1", "X", v1alpha1.InterpreterOperationAggregateStatus, false},
		{"", "v1", "ConfigMap", v1alpha1.InterpreterOperationPrune, true},
		{"", "v1", "ConfigMap", "Guess", false},
	} {
		gvk := schema.GroupVersionKind{Group: tt.group, Version: tt.version, Kind: tt.kind}
		if got := i.Supports(gvk, tt.operation); got != tt.want {
			t.Errorf("%s of %s: %v", tt.operation, gvk, got)
		}
	}
}

// TestMostSpecificTarget checks that the most specific target decides, in any order of the
// documents.
func TestMostSpecificTarget(t *testing.T) {
	targets := []string{ // from the least to the most specific
		"{apiVersion: '*', kind: '*'}", "{apiVersion: '*', kind: T}", "{apiVersion: '*.com/*', kind: T}",
		"{apiVersion: '*.example.com/*', kind: '*'}",
		"{apiVersion: '*.example.com/*', kind: T}", "{apiVersion: '*.example.com/v1', kind: T}",
		"{apiVersion: a.example.com/*, kind: '*'}",
		"{apiVersion: a.example.com/v1, kind: '*'}", "{apiVersion: a.example.com/*, kind: T}",
		"{apiVersion: a.example.com/v1, kind: T}",
	}
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "a.example.com/v1", "kind": "T",
		"metadata": map[string]any{"name": "t"}}}
	for n := 1; n <= len(targets); n++ {
		var files []customization.File
		for i, target := range targets[:n] {
			text := strings.Replace(
				oneWith("  replicas: "+string(rune('0'+i))),
				"{apiVersion: example.com/v1, kind: T}",
				target,
				1,
			)
			text = strings.Replace(text, "name: c", "name: c"+string(rune('0'+i)), 1)
			files = append([]customization.File{{Name: target, Text: []byte(text)}}, files...)
		}
		i, err := customization.New(files...)
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := i.Replicas(t.Context(), object); err != nil || int(got) != n-1 {
			t.Errorf("%s: %d, %v", targets[n-1], got, err)
		}
	}
}

// TestSetReplacesAllOrNothing checks that Set replaces all customizations, or none after an error.
func TestSetReplacesAllOrNothing(t *testing.T) {
	i, err := customization.New()
	if err != nil {
		t.Fatal(err)
	}
	object := parsed(t, "metadata: {name: t}")
	if _, err := i.Health(t.Context(), object); !errors.Is(err, interpreter.ErrNotInterpreted) {
		t.Error(err)
	}
	good := customization.File{Name: "good", Text: []byte(oneWith("  health: true"))}
	if err := i.Set(good); err != nil {
		t.Fatal(err)
	}
	if err := i.Set(good, good); err == nil {
		t.Error("a customization that is there twice is accepted")
	}
	if healthy, err := i.Health(t.Context(), object); err != nil || !healthy {
		t.Error(healthy, err)
	}
	if err := i.Set(); err != nil {
		t.Fatal(err)
	}
	if len(i.Kinds()) != 0 {
		t.Error(i.Kinds())
	}
}

// TestEvaluationEndsWithItsContext checks that an evaluation ends with its context.
func TestEvaluationEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := samples(t).Health(ctx, parsed(t, "metadata: {name: t}")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestEvaluationWaitsForFreeSlot checks that a call waits for a free slot while all slots for evaluations
// are in use, but no longer than its context.
func TestEvaluationWaitsForFreeSlot(t *testing.T) {
	i, object := samples(t), parsed(t, "metadata: {name: t}")
	release := i.Occupy()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := i.Health(ctx, object); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v while others are evaluated", err)
	}
	answered := make(chan error, 1)
	go func() {
		_, err := i.Health(t.Context(), object)
		answered <- err
	}()
	release()
	if err := <-answered; !errors.Is(err, interpreter.ErrNotInterpreted) { // the default has no value
		t.Error(err)
	}
}
