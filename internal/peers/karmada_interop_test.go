// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package peers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	theircaller "github.com/karmada-io/karmada/pkg/resourceinterpreter/customized/webhook"
	"github.com/karmada-io/karmada/pkg/resourceinterpreter/customized/webhook/request"
	"github.com/karmada-io/karmada/pkg/util/fedinformer/genericmanager"
	theirserver "github.com/karmada-io/karmada/pkg/webhook/interpreter"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/caller"
	"github.com/spokewire/sdk-go/interpreter/interpretertest"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

var updateVectors = flag.Bool("update", false,
	"write the answers of Karmada's server into the testdata of package interpreter")

// foo returns an object of a kind that both sides leave to webhooks. The name bad makes handlers
// reject it.
func foo(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Foo",
		"metadata": map[string]any{"name": name, "namespace": "d", "annotations": map[string]any{"local": "x"}},
		"spec":     map[string]any{"replicas": int64(3), "unknown": "kept"},
		"status":   map[string]any{"ready": int64(1)},
	}}
}

const cannot = "bad cannot be interpreted"

// asked has the answers to all operations.
type asked struct {
	Replicas, Components, Dependencies, Status, Health string
	Revised, Retained, Aggregated, Pruned              *unstructured.Unstructured
}

// wanted returns the answers of both servers about foo.
func wanted(t *testing.T) asked {
	t.Helper()
	changed := func(value any, path ...string) *unstructured.Unstructured {
		out := foo("foo")
		if err := unstructured.SetNestedField(out.Object, value, path...); err != nil {
			t.Fatal(err)
		}
		return out
	}
	pruned := foo("foo")
	unstructured.RemoveNestedField(pruned.Object, "metadata", "annotations")
	return asked{
		Replicas: "3, cpu 500m", Components: "a 1, b 2", Dependencies: "ConfigMap d/c, Secret d/s", Status: `{"ready":1}`,
		Health:  "true",
		Revised: changed(int64(7), "spec", "replicas"), Retained: changed(true, "spec", "paused"),
		Aggregated: changed(int64(2), "status", "ready"), Pruned: pruned,
	}
}

func observedFoo() *unstructured.Unstructured {
	out := foo("foo")
	out.Object["spec"].(map[string]any)["paused"] = true
	return out
}

// change applies the operations that change an object, for the handlers of both servers.
func change(operation string, object, observed *unstructured.Unstructured, replicas int32, statuses int) error {
	switch operation {
	case "ReviseReplica":
		return unstructured.SetNestedField(object.Object, int64(replicas), "spec", "replicas")
	case "Retain":
		paused, _, err := unstructured.NestedBool(observed.Object, "spec", "paused")
		if err != nil {
			return err
		}
		return unstructured.SetNestedField(object.Object, paused, "spec", "paused")
	case "AggregateStatus":
		return unstructured.SetNestedField(object.Object, int64(statuses), "status", "ready")
	}
	unstructured.RemoveNestedField(object.Object, "metadata", "annotations")
	return nil
}

// foos is a webhook for all operations, made with Karmada's package.
type foos struct{ decoder *theirserver.Decoder }

func (f *foos) InjectDecoder(decoder *theirserver.Decoder) { f.decoder = decoder }

func (f *foos) Handle(_ context.Context, r theirserver.Request) theirserver.Response {
	object, observed := &unstructured.Unstructured{}, &unstructured.Unstructured{}
	if err := f.decoder.Decode(r, object); err != nil {
		return theirserver.Errored(http.StatusBadRequest, err)
	}
	if object.GetName() == "bad" {
		return theirserver.Errored(http.StatusUnprocessableEntity, errors.New(cannot))
	}
	response := theirserver.Succeeded("")
	switch r.Operation {
	case configv1alpha1.InterpreterOperationInterpretReplica:
		response.Replicas = new(int32(3))
		response.ReplicaRequirements = &workv1alpha2.ReplicaRequirements{
			ResourceRequest: corev1.ResourceList{"cpu": resource.MustParse("500m")},
		}
	case configv1alpha1.InterpreterOperationInterpretComponent:
		response.Components = []workv1alpha2.Component{{Name: "a", Replicas: 1}, {Name: "b", Replicas: 2}}
	case configv1alpha1.InterpreterOperationInterpretDependency:
		c := configv1alpha1.DependentObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "d", Name: "c"}
		s := configv1alpha1.DependentObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: "d", Name: "s",
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"ignored": "by Karmada"}}}
		response.Dependencies = []configv1alpha1.DependentObjectReference{c, c, s}
	case configv1alpha1.InterpreterOperationInterpretStatus:
		response.RawStatus = &runtime.RawExtension{Raw: []byte(`{"ready":1}`)}
	case configv1alpha1.InterpreterOperationInterpretHealth:
		response.Healthy = new(true)
	default:
		if r.ObservedObject != nil {
			if err := f.decoder.DecodeRaw(*r.ObservedObject, observed); err != nil {
				return theirserver.Errored(http.StatusBadRequest, err)
			}
		}
		replicas := int32(0)
		if r.DesiredReplicas != nil {
			replicas = *r.DesiredReplicas
		}
		if err := change(string(r.Operation), object, observed, replicas, len(r.AggregatedStatus)); err != nil {
			return theirserver.Errored(http.StatusInternalServerError, err)
		}
		changed, err := json.Marshal(object)
		if err != nil {
			return theirserver.Errored(http.StatusInternalServerError, err)
		}
		return theirserver.PatchResponseFromRaw(r.Object.Raw, changed)
	}
	return response
}

// TestKarmadaServer sends every operation to Karmada's own webhook server over TLS.
func TestKarmadaServer(t *testing.T) {
	server := httptest.NewTLSServer(theirserver.NewWebhook(&foos{}, theirserver.NewDecoder(runtime.NewScheme())))
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	c, err := caller.New(caller.Options{AllowedHosts: []string{"127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := c.SetConfigurations(
		caller.Configurations{Interpreting: []v1alpha1.ResourceInterpreterWebhookConfiguration{ourConfiguration(server.URL,
			ca)}}); err != nil {
		t.Fatal(err)
	}
	got, err := askOurs(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wanted(t), got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}

	large := foo("large")
	large.Object["spec"].(map[string]any)["unknown"] = strings.Repeat("x", theirserver.MaxRespBodyLength)
	for want, object := range map[string]*unstructured.Unstructured{cannot: foo("bad"),
		"unexpected end of JSON input": large} {
		_, err = c.Health(t.Context(), object)
		var failed *caller.CallError
		if !errors.As(err, &failed) || failed.Reason != caller.ReasonRefused || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", object.GetName(), err, want)
		}
	}
}

func askOurs(ctx context.Context, c *caller.Caller) (got asked, err error) {
	object := foo("foo")
	var errs []error
	failed := func(err error) { errs = append(errs, err) }
	replicas, requirements, err := c.Replicas(ctx, object)
	failed(err)
	if requirements != nil {
		got.Replicas = fmt.Sprintf("%d, cpu %s", replicas, requirements.ResourceRequest.Cpu())
	}
	components, err := c.Components(ctx, object)
	failed(err)
	for _, component := range components {
		got.Components = join(got.Components, fmt.Sprint(component.Name, " ", component.Replicas))
	}
	dependencies, err := c.Dependencies(ctx, object)
	failed(err)
	for _, d := range dependencies {
		got.Dependencies = join(got.Dependencies, d.Kind+" "+d.Namespace+"/"+d.Name)
	}
	status, err := c.Status(ctx, object)
	failed(err)
	if status != nil {
		got.Status = string(status.Raw)
	}
	healthy, err := c.Health(ctx, object)
	failed(err)
	got.Health = fmt.Sprint(healthy)
	got.Revised, err = c.Revise(ctx, object, 7)
	failed(err)
	got.Retained, err = c.Retain(ctx, object, observedFoo())
	failed(err)
	got.Aggregated, err = c.AggregateStatus(ctx, object, make([]interpreter.AggregatedStatusItem, 2))
	failed(err)
	got.Pruned, err = c.Prune(ctx, object)
	failed(err)
	return got, errors.Join(errs...)
}

func join(list, item string) string {
	if list == "" {
		return item
	}
	return list + ", " + item
}

func ourConfiguration(url string, ca []byte) v1alpha1.ResourceInterpreterWebhookConfiguration {
	all := []string{"*"}
	c := v1alpha1.ResourceInterpreterWebhookConfiguration{Webhooks: []v1alpha1.ResourceInterpreterWebhook{{
		Name: "foo.example.com.local", InterpreterContextVersions: []string{v1alpha1.Version},
		ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: ca},
		Rules: []v1alpha1.KindRuleWithOperations{{Operations: []v1alpha1.InterpreterOperation{v1alpha1.InterpreterOperationAll},
			KindRule: v1alpha1.KindRule{APIGroups: all, APIVersions: all, Kinds: all}}},
	}}}
	c.Name = "foo"
	return c
}

// ourFoos returns the same answers as foos.
var ourFoos = interpreter.HandlerFor[*unstructured.Unstructured]{
	Replica: func(context.Context, *unstructured.Unstructured) (int32, *interpreter.ReplicaRequirements, error) {
		return 3, &interpreter.ReplicaRequirements{ResourceRequest: corev1.ResourceList{"cpu": resource.MustParse("500m")}},
			nil
	},
	Components: func(context.Context, *unstructured.Unstructured) ([]interpreter.Component, error) {
		return []interpreter.Component{{Name: "a", Replicas: 1}, {Name: "b", Replicas: 2}}, nil
	},
	Dependencies: func(context.Context, *unstructured.Unstructured) ([]interpreter.DependentObjectReference, error) {
		return []interpreter.DependentObjectReference{
			{APIVersion: "v1", Kind: "ConfigMap", Namespace: "d", Name: "c"},
			{APIVersion: "v1", Kind: "Secret", Namespace: "d", Name: "s"},
		}, nil
	},
	Status: func(_ context.Context, object *unstructured.Unstructured) (any, error) {
		return object.Object["status"], nil
	},
	Health: func(_ context.Context, object *unstructured.Unstructured) (bool, error) {
		if object.GetName() == "bad" {
			return false, errors.New(cannot)
		}
		return true, nil
	},
	Revise: func(_ context.Context, object *unstructured.Unstructured, replicas int32) error {
		return change("ReviseReplica", object, nil, replicas, 0)
	},
	Retain: func(_ context.Context, desired, observed *unstructured.Unstructured) error {
		return change("Retain", desired, observed, 0, 0)
	},
	Aggregate: func(_ context.Context, object *unstructured.Unstructured,
		statuses []interpreter.AggregatedStatusItem) error {
		return change("AggregateStatus", object, nil, 0, len(statuses))
	},
	Prune: func(_ context.Context, object *unstructured.Unstructured) error {
		return change("Prune", object, nil, 0, 0)
	},
}

// TestKarmadaCaller makes Karmada's own caller send every operation to this SDK's server over TLS.
func TestKarmadaCaller(t *testing.T) {
	certDir, caBundle := interpretertest.Certificate(t)
	server, err := interpreter.NewServer(interpreter.ServerOptions{Addr: "127.0.0.1:0", CertDir: certDir})
	if err != nil {
		t.Fatal(err)
	}
	if err := interpreter.Register(server, "/foo", ourFoos); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	<-server.Ready()

	lists := map[schema.GroupVersionResource]string{
		{Group: "config.karmada.io", Version: "v1alpha1",
			Resource: "resourceinterpreterwebhookconfigurations"}: "ResourceInterpreterWebhookConfigurationList",
	}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists)
	theirs, err := theircaller.NewCustomizedInterpreter(genericmanager.NewSingleClusterInformerManager(ctx, client, 0),
		nil)
	if err != nil {
		t.Fatal(err)
	}
	url, all := "https://"+server.Addr().String()+"/foo", []string{"*"}
	configuration := &configv1alpha1.ResourceInterpreterWebhookConfiguration{Webhooks: []configv1alpha1.ResourceInterpreterWebhook{{
		Name: "foo.example.com.local", InterpreterContextVersions: []string{"v1alpha1"},
		ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: caBundle},
		Rules: []configv1alpha1.RuleWithOperations{{Operations: []configv1alpha1.InterpreterOperation{configv1alpha1.InterpreterOperationAll},
			Rule: configv1alpha1.Rule{APIGroups: all, APIVersions: all, Kinds: all}}},
	}}}
	configuration.Name = "foo"
	theirs.LoadConfig([]*configv1alpha1.ResourceInterpreterWebhookConfiguration{configuration})

	got, err := askTheirs(ctx, theirs)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wanted(t), got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	large := foo("large")
	large.Object["spec"].(map[string]any)["unknown"] = strings.Repeat("x", interpreter.MaxBytes)
	for want, object := range map[string]*unstructured.Unstructured{cannot: foo("bad"),
		"the body is over the limit": large} {
		_, _, err := theirs.InterpretHealth(ctx,
			&request.Attributes{Operation: configv1alpha1.InterpreterOperationInterpretHealth, Object: object})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", object.GetName(), err, want)
		}
	}
}

func askTheirs(ctx context.Context, c *theircaller.CustomizedInterpreter) (got asked, err error) {
	var errs []error
	failed := func(matched bool, err error) {
		if !matched {
			err = errors.Join(err, errors.New("no webhook matched"))
		}
		errs = append(errs, err)
	}
	of := func(operation configv1alpha1.InterpreterOperation) *request.Attributes {
		return &request.Attributes{Operation: operation, Object: foo("foo")}
	}
	replicas, requirements, matched, err := c.GetReplicas(ctx, of(configv1alpha1.InterpreterOperationInterpretReplica))
	failed(matched, err)
	if requirements != nil {
		got.Replicas = fmt.Sprintf("%d, cpu %s", replicas, requirements.ResourceRequest.Cpu())
	}
	components, matched, err := c.GetComponents(ctx, of(configv1alpha1.InterpreterOperationInterpretComponent))
	failed(matched, err)
	for _, component := range components {
		got.Components = join(got.Components, fmt.Sprint(component.Name, " ", component.Replicas))
	}
	dependencies, matched, err := c.GetDependencies(ctx, of(configv1alpha1.InterpreterOperationInterpretDependency))
	failed(matched, err)
	for _, d := range dependencies {
		got.Dependencies = join(got.Dependencies, d.Kind+" "+d.Namespace+"/"+d.Name)
	}
	status, matched, err := c.ReflectStatus(ctx, of(configv1alpha1.InterpreterOperationInterpretStatus))
	failed(matched, err)
	if status != nil {
		got.Status = string(status.Raw)
	}
	healthy, matched, err := c.InterpretHealth(ctx, of(configv1alpha1.InterpreterOperationInterpretHealth))
	failed(matched, err)
	got.Health = fmt.Sprint(healthy)
	revise := of(configv1alpha1.InterpreterOperationReviseReplica)
	revise.ReplicasSet = 7
	retain := of(configv1alpha1.InterpreterOperationRetain)
	retain.ObservedObj = observedFoo()
	aggregate := of(configv1alpha1.InterpreterOperationAggregateStatus)
	aggregate.AggregatedStatus = []workv1alpha2.AggregatedStatusItem{{ClusterName: "a"}, {ClusterName: "b"}}
	for _, a := range []struct {
		attributes *request.Attributes
		to         **unstructured.Unstructured
	}{
		{revise, &got.Revised}, {retain, &got.Retained}, {aggregate, &got.Aggregated},
		{of(configv1alpha1.InterpreterOperationPrune), &got.Pruned},
	} {
		*a.to, matched, err = c.Patch(ctx, a.attributes)
		failed(matched, err)
	}
	return got, errors.Join(errs...)
}

// TestKarmadaVectors compares the answers in the testdata of package interpreter with those of
// Karmada's server.
//
//	go test -C internal/peers -run TestKarmadaVectors -update .
func TestKarmadaVectors(t *testing.T) {
	const file = "../../interpreter/testdata/karmada-interpreter.json"
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var vectors []map[string]json.RawMessage
	if err := json.Unmarshal(content, &vectors); err != nil {
		t.Fatal(err)
	}
	for _, v := range vectors {
		var answer configv1alpha1.ResourceInterpreterContext
		if err := json.Unmarshal(v["answer"], &answer); err != nil {
			t.Fatal(err)
		}
		body := &recorder{header: http.Header{}}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(v["request"]))
		r.Header.Set("Content-Type", "application/json")
		theirserver.NewWebhook(fixedResponse{*answer.Response}, theirserver.NewDecoder(runtime.NewScheme())).ServeHTTP(body,
			r)
		sent := bytes.TrimSpace(body.body.Bytes())
		if diff := cmp.Diff(decoded(t, sent), decoded(t, v["answer"])); diff != "" && !*updateVectors {
			t.Errorf("%s: (-Karmada +testdata)\n%s", v["operation"], diff)
		}
		v["answer"] = sent
	}
	if !*updateVectors {
		return
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(vectors); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

func decoded(t *testing.T, text []byte) (out any) {
	t.Helper()
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// fixedResponse is a handler of Karmada's package that always returns one response.
type fixedResponse struct {
	response configv1alpha1.ResourceInterpreterResponse
}

func (f fixedResponse) InjectDecoder(*theirserver.Decoder) {}

func (f fixedResponse) Handle(context.Context, theirserver.Request) theirserver.Response {
	return theirserver.Response{ResourceInterpreterResponse: f.response}
}
