// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/examples/internal/customizations"
	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/caller"
	"github.com/spokewire/sdk-go/interpreter/customization/kinds"
	"github.com/spokewire/sdk-go/interpreter/native"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
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
	server := httptest.NewTLSServer(interpreter.NewHandler(workloadHandler(), interpreter.HandlerOptions{}))
	defer server.Close()
	webhooks, err := caller.New(caller.Options{AllowedHosts: []string{"127.0.0.1"}})
	if err != nil {
		return err
	}
	defer webhooks.Close()
	if err := webhooks.SetConfigurations(configurations(server)); err != nil {
		return err
	}
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

// configurations returns the configuration of the webhook for Workloads.
func configurations(server *httptest.Server) caller.Configurations {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	webhook := v1alpha1.ResourceInterpreterWebhook{
		Name:         "workload.example.io",
		ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &server.URL, CABundle: ca},
		Rules: []v1alpha1.KindRuleWithOperations{{
			Operations: []v1alpha1.InterpreterOperation{v1alpha1.InterpreterOperationAll},
			KindRule: v1alpha1.KindRule{
				APIGroups: []string{"workload.example.io"}, APIVersions: []string{"v1alpha1"}, Kinds: []string{"Workload"},
			},
		}},
		InterpreterContextVersions: []string{v1alpha1.Version},
	}
	return caller.Configurations{Interpreting: []v1alpha1.ResourceInterpreterWebhookConfiguration{
		{Webhooks: []v1alpha1.ResourceInterpreterWebhook{webhook}},
	}}
}

// explainer prints answers.
type explainer struct {
	out    io.Writer
	chain  *caller.Chained
	source string // the last interpreter that was called
}

// named is an interpreter of the chain that records its calls.
type named struct {
	interpreter.Interpreter
	name string
	e    *explainer
}

func (n named) Interpret(ctx context.Context, q interpreter.Query) (interpreter.Answer, error) {
	n.e.source = n.name
	return n.Interpreter.Interpret(ctx, q)
}

// explain prints each answer about an object. It returns false after an error.
func (e *explainer) explain(ctx context.Context, object *unstructured.Unstructured) bool {
	fmt.Fprintf(e.out, "%s %s\n", object.GetKind(), strings.TrimPrefix(object.GetNamespace()+"/"+object.GetName(), "/"))
	ok := true
	for _, q := range questions {
		answer, err := e.chain.Interpret(ctx, interpreter.Query{Operation: q.operation, Object: object})
		text, _ := json.Marshal(q.value(answer)) // it was in JSON
		switch {
		case errors.Is(err, interpreter.ErrNotInterpreted):
			text = []byte("-")
		case err != nil:
			text, ok = []byte("error: "+err.Error()), false
		default:
			text = fmt.Appendf(text, " (%s)", e.source)
		}
		fmt.Fprintf(e.out, "  %-13s %s\n", q.name, text)
	}
	return ok
}

type answer = interpreter.Answer

// questions are asked about each object.
var questions = []struct {
	name      string
	operation interpreter.Operation
	value     func(answer) any
}{
	{"replicas", v1alpha1.InterpreterOperationInterpretReplica, func(a answer) any { return a.Replicas }},
	{"requirements", v1alpha1.InterpreterOperationInterpretReplica, func(a answer) any { return a.Requirements }},
	{"components", v1alpha1.InterpreterOperationInterpretComponent, func(a answer) any { return a.Components }},
	{"healthy", v1alpha1.InterpreterOperationInterpretHealth, func(a answer) any { return a.Healthy }},
	{"status", v1alpha1.InterpreterOperationInterpretStatus, func(a answer) any { return a.Status }},
	{"dependencies", v1alpha1.InterpreterOperationInterpretDependency, func(a answer) any { return a.Dependencies }},
}
