// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package peers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"

	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	"github.com/karmada-io/karmada/pkg/webhook/interpreter"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// deployments is a webhook for Deployments, written like Karmada's example webhook.
type deployments struct{ decoder *interpreter.Decoder }

func (d *deployments) InjectDecoder(decoder *interpreter.Decoder) { d.decoder = decoder }

func (d *deployments) Handle(_ context.Context, request interpreter.Request) interpreter.Response {
	deployment := &appsv1.Deployment{}
	if err := d.decoder.Decode(request, deployment); err != nil {
		return interpreter.Errored(http.StatusBadRequest, err)
	}
	switch request.Operation {
	case configv1alpha1.InterpreterOperationInterpretHealth:
		healthy := deployment.Status.ReadyReplicas == deployment.Status.Replicas
		response := interpreter.Succeeded("")
		response.Healthy = &healthy
		return response
	case configv1alpha1.InterpreterOperationReviseReplica:
		deployment.Spec.Replicas = request.DesiredReplicas
		changed, err := json.Marshal(deployment)
		if err != nil {
			return interpreter.Errored(http.StatusInternalServerError, err)
		}
		return interpreter.PatchResponseFromRaw(request.Object.Raw, changed)
	}
	return interpreter.Errored(http.StatusBadRequest, fmt.Errorf("unexpected operation %s", request.Operation))
}

// recorder keeps an answer, with as few allocations as possible.
type recorder struct {
	header http.Header
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(int)             {}
func (r *recorder) Write(p []byte) (int, error) { return r.body.Write(p) }

// TestKarmadaAllocations is TestAllocations of package interpreter with Karmada's server and the
// same requests.
func TestKarmadaAllocations(t *testing.T) {
	object, err := os.ReadFile("../../interpreter/testdata/deployment-18k.json")
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := appsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	webhook := interpreter.NewWebhook(&deployments{}, interpreter.NewDecoder(scheme))
	for _, operation := range []string{"InterpretHealth", "ReviseReplica"} {
		content := []byte(`{"kind":"ResourceInterpreterContext","apiVersion":"config.karmada.io/v1alpha1","request":{"uid":"75765249-c556-41ec-83e1-c16189ef87ed",` +
			`"kind":{"group":"apps","version":"v1","kind":"Deployment"},"name":"web","namespace":"prod","operation":"` +
			operation + `","replicas":7,"object":` + string(object) + `}}`)
		answer := &recorder{}
		n := testing.AllocsPerRun(50, func() {
			request := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(content))
			request.Header.Set("Content-Type", "application/json")
			answer.header = http.Header{}
			answer.body.Reset()
			webhook.ServeHTTP(answer, request)
		})
		if !bytes.Contains(answer.body.Bytes(), []byte(`"successful":true`)) {
			t.Fatalf("%s: %s", operation, answer.body.Bytes())
		}
		t.Logf("%s: %v allocations", operation, n)
	}
}

// TestKarmadaPackages counts the packages that a program with Karmada's caller of webhooks links.
func TestKarmadaPackages(t *testing.T) {
	command := exec.CommandContext(t.Context(), "go", "list", "-deps",
		"github.com/karmada-io/karmada/pkg/resourceinterpreter/customized/webhook")
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	n := len(bytes.Fields(out))
	if n < 100 {
		t.Fatalf("%d packages: %s", n, out)
	}
	t.Logf("%d packages", n)
}
