// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpreter_test

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/internal/testing/losslesstest"
	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

var seeds = flag.Uint64("interpreter.seeds", 0, "seeds of TestUnknownFieldsStayWithTheirElement, 300 by default")

// listKeys are the keys of the lists in testdata/unknown-*.json.
var listKeys = losslesstest.Keys{
	reflect.TypeFor[corev1.Container]():                               {"name"},
	reflect.TypeFor[corev1.ContainerPort]():                           {"containerPort", "protocol"},
	reflect.TypeFor[corev1.EnvVar]():                                  {"name"},
	reflect.TypeFor[corev1.Volume]():                                  {"name"},
	reflect.TypeFor[corev1.VolumeMount]():                             {"mountPath"},
	reflect.TypeFor[corev1.KeyToPath]():                               {"key"},
	reflect.TypeFor[corev1.Toleration]():                              {"key"},
	reflect.TypeFor[corev1.NodeSelectorRequirement]():                 {"key"},
	reflect.TypeFor[corev1.LocalObjectReference]():                    {"name"},
	reflect.TypeFor[corev1.TopologySpreadConstraint]():                {"topologyKey", "whenUnsatisfiable"},
	reflect.TypeFor[corev1.HostAlias]():                               {"ip"},
	reflect.TypeFor[corev1.ServicePort]():                             {"port", "protocol"},
	reflect.TypeFor[corev1.LoadBalancerIngress]():                     {"ip"},
	reflect.TypeFor[corev1.PortStatus]():                              {"port", "protocol"},
	reflect.TypeFor[appsv1.DeploymentCondition]():                     {"type"},
	reflect.TypeFor[metav1.Condition]():                               {"type"},
	reflect.TypeFor[batchv1.JobCondition]():                           {"type"},
	reflect.TypeFor[batchv1.PodFailurePolicyOnPodConditionsPattern](): {"type"},
	reflect.TypeFor[networkingv1.HTTPIngressPath]():                   {"path"},
	reflect.TypeFor[networkingv1.IngressLoadBalancerIngress]():        {"hostname"},
}

// TestUnknownFieldsStayWithTheirElement has a handler that makes random edits of objects with
// unknown fields. Each unknown field stays in its element, or the request fails. No request fails
// if the edit is certain, or if the handler drops uncertain fields.
func TestUnknownFieldsStayWithTheirElement(t *testing.T) {
	t.Run("Deployment", func(t *testing.T) { editObjects[*appsv1.Deployment](t) })
	t.Run("Service", func(t *testing.T) { editObjects[*corev1.Service](t) })
	t.Run("Ingress", func(t *testing.T) { editObjects[*networkingv1.Ingress](t) })
	t.Run("Job", func(t *testing.T) { editObjects[*batchv1.Job](t) })
}

func editObjects[T metav1.Object](t *testing.T) {
	kind := reflect.TypeFor[T]().Elem()
	text, err := os.ReadFile("testdata/unknown-" + strings.ToLower(kind.Name()) + ".json")
	if err != nil {
		t.Fatal(err)
	}
	sample := reflect.New(kind).Interface()
	if err := json.Unmarshal(text, sample); err != nil {
		t.Fatal(err)
	}
	n := *seeds
	if n == 0 {
		n = 300
	}
	uncertain, failed := 0, 0
	for seed := range n / 4 {
		c := losslesstest.New(seed, sample, listKeys)
		for _, drop := range []bool{false, true} {
			merged, problem := replaceObject[T](t, c.Raw, c.After, drop)
			switch {
			case problem == "":
				if err := c.Judge(merged, drop); err != nil {
					t.Fatalf("seed %d, DropUncertain %t: %v", seed, drop, err)
				}
			case drop || c.Certain || !strings.Contains(problem, "set HandlerFor.DropUncertain"):
				t.Fatalf("seed %d, DropUncertain %t: %s\n%s", seed, drop, problem, c)
			default:
				failed++
			}
		}
		if !c.Certain {
			uncertain++
		}
	}
	t.Logf("%d edits: %d are uncertain, %d failed", n/4, uncertain, failed)
}

// replaceObject returns the result of a handler that replaces an object with another one, or the
// handler's failure.
func replaceObject[T metav1.Object](t *testing.T, raw, after []byte, drop bool) (merged []byte, problem string) {
	t.Helper()
	handler := interpreter.HandlerFor[T]{DropUncertain: drop, Prune: func(_ context.Context, object T) error {
		reflect.ValueOf(object).Elem().SetZero()
		return json.Unmarshal(after, object)
	}}
	request := interpreter.Request{}
	var u unstructured.Unstructured
	if err := u.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	gvk := u.GroupVersionKind()
	request.Operation, request.Object.Raw, request.Kind = v1alpha1.InterpreterOperationPrune, raw,
		metav1.GroupVersionKind(gvk)
	response := handler.Handle(t.Context(), request)
	if !response.Successful {
		return nil, response.Status.Message
	}
	patch, err := jsonpatch.DecodePatch(response.Patch)
	if err != nil {
		t.Fatal(err)
	}
	if merged, err = patch.Apply(raw); err != nil {
		t.Fatalf("%v: %s", err, response.Patch)
	}
	return merged, ""
}

// TestUncertainElementFailsTheRequest checks a handler that changes an element of a list without a key.
func TestUncertainElementFailsTheRequest(t *testing.T) {
	const meta = `{"apiVersion":"networking.k8s.io/v1","kind":"Ingress","metadata":{"name":"web"},`
	const raw = meta + `"spec":{"rules":[{"host":"a"},{"host":"b","new":1}]}}`
	const after = meta + `"spec":{"rules":[{"host":"a"},{"host":"c"}]}}`
	const want = "merge the change into the object: spec.rules[1] has unknown fields, " +
		"and the changed list does not show which element it is now: " +
		"give the elements a unique key, or set HandlerFor.DropUncertain"
	if _, problem := replaceObject[*networkingv1.Ingress](t, []byte(raw), []byte(after), false); problem != want {
		t.Errorf("got  %s\nwant %s", problem, want)
	}
	merged, problem := replaceObject[*networkingv1.Ingress](t, []byte(raw), []byte(after), true)
	if problem != "" || !jsonpatch.Equal(merged, []byte(after)) {
		t.Errorf("with DropUncertain: %s %s", merged, problem)
	}
}
