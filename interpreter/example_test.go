// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpreter_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// This webhook serves a custom resource. Start needs the certificate in CertDir.
func ExampleNewServer() {
	server, err := interpreter.NewServer(interpreter.ServerOptions{Addr: ":9443", CertDir: os.TempDir()})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = interpreter.Register(server, "/interpret-workload", interpreter.HandlerFor[*Workload]{
		Replica: func(_ context.Context, w *Workload) (int32, *interpreter.ReplicaRequirements, error) {
			return *w.Spec.Replicas, nil, nil
		},
		Revise: func(_ context.Context, w *Workload, replicas int32) error {
			w.Spec.Replicas = &replicas
			return nil
		},
	})
	fmt.Println(err)
	// The remaining step is server.Start(ctx).

	// Output: <nil>
}

// NewHandler returns a handler for any server, for example the webhook server of
// controller-runtime.
func ExampleNewHandler() {
	handler := interpreter.NewHandler(interpreter.HandlerFor[*appsv1.Deployment]{
		Health: func(_ context.Context, d *appsv1.Deployment) (bool, error) { return d.Status.ReadyReplicas > 0, nil },
	}, interpreter.HandlerOptions{})

	request := httptest.NewRequest("POST", "/", strings.NewReader(`{
		"kind": "ExploreReview", "apiVersion": "config.karmada.io/v1alpha1",
		"request": {"uid": "1", "operation": "ExploreHealthy", "name": "web", "kind": {"group": "apps", "version": "v1", "kind": "Deployment"},
			"object": {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "status": {"readyReplicas": 1}}}}`))
	request.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, request)
	fmt.Println(answer.Code, answer.Body)
	// Output: 200 {"kind":"ExploreReview","apiVersion":"config.karmada.io/v1alpha1","response":{"uid":"1","healthy":true}}
}

// Fields that the Go type does not have are kept.
func ExampleHandlerFor() {
	handler := interpreter.HandlerFor[*Workload]{
		Revise: func(_ context.Context, w *Workload, replicas int32) error {
			w.Spec.Replicas = &replicas
			return nil
		},
	}
	answers := interpreter.FromHandler(handler)
	revised, err := answers.Revise(context.Background(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Workload", "metadata": map[string]any{"name": "web"},
		"spec": map[string]any{"replicas": int64(1), "colour": "blue"},
	}}, 3)
	fmt.Println(revised.Object["spec"], err)
	// Output: map[colour:blue replicas:3] <nil>
}

// An untyped handler answers with the fields of the Interpret protocol.
func ExampleHandlerFunc() {
	handler := interpreter.HandlerFunc(func(_ context.Context, r interpreter.Request) interpreter.Response {
		if r.Operation != v1alpha1.InterpreterOperationInterpretReplica {
			return interpreter.Denied("I count replicas only")
		}
		response := interpreter.Succeeded("")
		response.Replicas = new(int32(2))
		return response
	})
	answers := interpreter.FromHandler(handler)
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Pair"}}
	fmt.Println(answers.Replicas(context.Background(), object))
	fmt.Println(answers.Health(context.Background(), object))
	// Output:
	// 2 <nil> <nil>
	// false refused (403): I count replicas only
}

func ExamplePatchResponse() {
	response := interpreter.PatchResponse([]byte(`{"spec":{"a":1,"b":2}}`), []byte(`{"spec":{"a":3}}`))
	fmt.Println(string(response.Patch))
	// Output: [{"op":"replace","path":"/spec/a","value":3},{"op":"remove","path":"/spec/b"}]
}

// A path answers in both protocols. Two handlers cannot have the same path.
func ExampleRegister() {
	server, err := interpreter.NewServer(interpreter.ServerOptions{CertDir: os.TempDir()})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(interpreter.Register(server, "/workloads", interpreter.HandlerFor[*Workload]{}))
	fmt.Println(interpreter.Register(server, "/workloads", interpreter.HandlerFor[*Workload]{}))
	// Output:
	// <nil>
	// register "/workloads": already registered
}

// The operations of a handler can be called without HTTP: in tests, and for kinds that a control
// plane interprets itself.
func ExampleFromHandler() {
	answers := interpreter.FromHandler(interpreter.HandlerFor[*appsv1.Deployment]{
		Health: func(_ context.Context, d *appsv1.Deployment) (bool, error) { return d.Status.ReadyReplicas > 0, nil },
	})
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "Deployment",
		"status": map[string]any{"readyReplicas": int64(1)}}}
	fmt.Println(answers.Health(context.Background(), object))
	_, err := answers.Dependencies(context.Background(), object)
	fmt.Println(errors.Is(err, interpreter.ErrNotInterpreted))
	// Output:
	// true <nil>
	// true
}

func ExampleErrored() {
	response := interpreter.Errored(404, errors.New("the image is gone"))
	fmt.Println(response.Successful, response.Status.Code, response.Status.Message)
	// Output: false 404 the image is gone
}

// A caller decodes the answer to its request, in the protocol of the request.
func ExampleDecodeResponse() {
	request := &interpreter.Request{Protocol: interpreter.ProtocolInterpret,
		ResourceInterpreterRequest: v1alpha1.ResourceInterpreterRequest{
			UID: "1", Operation: v1alpha1.InterpreterOperationInterpretHealth, Name: "web",
			Kind: metav1.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
		}}
	response, err := interpreter.DecodeResponse(request, []byte(`{"kind": "ResourceInterpreterContext",
		"apiVersion": "config.karmada.io/v1alpha1", "response": {"uid": "1", "successful": true, "healthy": false}}`))
	fmt.Println(response.Successful, *response.Healthy, err)
	_, err = interpreter.DecodeResponse(request, []byte(`{"kind": "ResourceInterpreterContext",
		"apiVersion": "config.karmada.io/v1alpha1", "response": {"uid": "2", "successful": true, "healthy": true}}`))
	fmt.Println(err)
	// Output:
	// true false <nil>
	// response.uid is "2": expected "1" as in the request
}

func ExampleDenied() {
	response := interpreter.Denied("I count replicas only")
	fmt.Println(response.Successful, response.Status.Code, response.Status.Message)
	// Output: false 403 I count replicas only
}

func ExampleSucceeded() {
	response := interpreter.Succeeded("all pods are ready")
	response.Healthy = new(true)
	fmt.Println(response.Successful, *response.Healthy)
	// Output: true true
}
