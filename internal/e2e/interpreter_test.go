// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"io/fs"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/spokewire/sdk-go/internal/e2e/kube"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/caller"
	"github.com/spokewire/sdk-go/interpreter/native"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// interpreterCRDs writes the CustomResourceDefinitions of package v1alpha1 into a folder.
func interpreterCRDs(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.CopyFS(folder, v1alpha1.CRDs()); err != nil {
		t.Fatal(err)
	}
	if names, err := fs.Glob(os.DirFS(folder), "*.yaml"); err != nil || len(names) != 2 {
		t.Fatalf("the CRDs are %v: %v", names, err)
	}
	return folder
}

var installing sync.Mutex

// interpreterCluster returns the cluster that all tests share, with the CRDs. Only one test at a
// time installs them.
func interpreterCluster(t *testing.T) *kube.Cluster {
	t.Helper()
	installing.Lock()
	defer installing.Unlock()
	cluster := kube.Shared(t)
	cluster.InstallCRDs(interpreterCRDs(t))
	return cluster
}

// TestInterpreterConfigurations: both CRDs install, set defaults, and refuse invalid configurations
// with the paths of the fields. Validate refuses them too, without an API server.
func TestInterpreterConfigurations(t *testing.T) {
	t.Parallel()
	cluster := interpreterCluster(t)
	client, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"ResourceExploringWebhookConfiguration", "ResourceInterpreterWebhookConfiguration"} {
		c := configurations{t: t, client: client, kind: kind}
		t.Run(kind+"/defaults", func(t *testing.T) { c.defaults(t) })
		for _, test := range badConfigurations {
			if test.only != "" && test.only != kind {
				continue
			}
			t.Run(kind+"/"+test.name, func(t *testing.T) { c.refuses(t, test) })
		}
	}
}

// configurations creates configurations of one kind.
type configurations struct {
	t      *testing.T
	client dynamic.Interface
	kind   string
}

func (c *configurations) explores() bool { return strings.Contains(c.kind, "Exploring") }

func (c *configurations) resource() schema.GroupVersionResource {
	if c.explores() {
		return v1alpha1.ExploringWebhookConfigurations
	}
	return v1alpha1.InterpreterWebhookConfigurations
}

// of returns a valid configuration with a change.
func (c *configurations) of(name, change string) *unstructured.Unstructured {
	c.t.Helper()
	text := `
apiVersion: config.karmada.io/v1alpha1
metadata: {name: ` + name + `}
webhooks:
- name: w.example.com
  clientConfig: {url: "https://hook.example.com/interpret"}
  rules: [{operations: ["OPERATION"], apiGroups: [example.com], apiVersions: [v1], WHAT: [NAME]}]
  VERSIONS: [v1alpha1]
`
	words := []string{"OPERATION", "InterpretHealth", "WHAT", "kinds", "NAME", "Workload", "VERSIONS",
		"interpreterContextVersions"}
	if c.explores() {
		words = []string{"OPERATION", "ExploreHealthy", "WHAT", "resources", "NAME", "workloads", "VERSIONS",
			"exploreReviewVersions"}
	}
	if from, to, ok := strings.Cut(change, " => "); ok {
		if !strings.Contains(text, from) {
			c.t.Fatalf("there is no %q", from)
		}
		text = strings.Replace(text, from, to, 1)
	}
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(strings.NewReplacer(words...).Replace(text)), &u.Object); err != nil {
		c.t.Fatal(err)
	}
	u.SetKind(c.kind)
	return u
}

func (c *configurations) defaults(t *testing.T) {
	u, err := c.client.Resource(c.resource()).Create(t.Context(), c.of("defaults", ""), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	webhooks, _, _ := unstructured.NestedSlice(u.Object, "webhooks")
	first := webhooks[0].(map[string]any)
	if first["timeoutSeconds"] != int64(10) || c.explores() && first["failurePolicy"] != "Fail" {
		t.Errorf("the defaults are %v", first)
	}
	if errs := validate(t, u); len(errs) > 0 {
		t.Errorf("Validate refuses what the API server takes: %v", errs)
	}
}

// badConfiguration is an invalid configuration that must be refused.
type badConfiguration struct {
	name, change string
	field        string // in the errors of the API server and of Validate
	ours         string // only in the error of Validate
	only         string
}

var badConfigurations = []badConfiguration{
	{name: "name", change: "w.example.com => example", field: "webhooks[0].name"},
	{name: "two names", change: "webhooks: => webhooks:\n- {name: w.example.com, clientConfig: {url: 'https://a/'}, " +
		"VERSIONS: [v1alpha1]}", field: "webhooks[1]"},
	{name: "http", change: "https://hook => http://hook", field: "webhooks[0].clientConfig.url"},
	{name: "user", change: "https://hook => https://me:secret@hook", field: "webhooks[0].clientConfig.url"},
	{name: "query", change: "/interpret => /interpret?a=b", field: "webhooks[0].clientConfig.url"},
	{name: "fragment", change: "/interpret => /interpret#a", field: "webhooks[0].clientConfig.url"},
	{name: "neither", change: `{url: "https://hook.example.com/interpret"} => {}`, field: "webhooks[0].clientConfig"},
	{name: "both", change: `{url: => {service: {name: a, namespace: b}, url:`, field: "webhooks[0].clientConfig"},
	{name: "CA bundle", change: `{url: => {caBundle: YWJj, url:`, ours: "webhooks[0].clientConfig.caBundle"},
	{name: "timeout 0", change: "  rules: =>   timeoutSeconds: 0\n  rules:", field: "webhooks[0].timeoutSeconds"},
	{name: "timeout 31", change: "  rules: =>   timeoutSeconds: 31\n  rules:", field: "webhooks[0].timeoutSeconds"},
	{name: "no version", change: "VERSIONS: [v1alpha1] => VERSIONS: []", field: "webhooks[0].VERSIONS"},
	{name: "unknown version", change: "VERSIONS: [v1alpha1] => VERSIONS: [v9]", field: "webhooks[0].VERSIONS"},
	{name: "operation", change: `"OPERATION" => "Guess"`, field: "webhooks[0].rules[0].operations[0]"},
	{name: "all and one operation", change: `"OPERATION" => "*", "OPERATION"`, field: "webhooks[0].rules[0].operations"},
	{name: "all and one kind", change: `[NAME] => ["*", NAME]`, field: "webhooks[0].rules[0].kinds",
		only: "ResourceInterpreterWebhookConfiguration"},
	{name: "all and one resource", change: `[NAME] => ["*", NAME]`, ours: "webhooks[0].rules[0].resources",
		only: "ResourceExploringWebhookConfiguration"},
	{name: "policy", change: "  rules: =>   failurePolicy: Maybe\n  rules:", field: "webhooks[0].failurePolicy",
		only: "ResourceExploringWebhookConfiguration"},
}

func (c *configurations) refuses(t *testing.T, bad badConfiguration) {
	u := c.of("bad", bad.change)
	versions := "interpreterContextVersions"
	if c.explores() {
		versions = "exploreReviewVersions"
	}
	want := strings.Replace(bad.field, "VERSIONS", versions, 1)
	ours := want
	if bad.ours != "" {
		ours = bad.ours
	}
	if text := validate(t, u).ToAggregate(); text == nil || !strings.Contains(text.Error(), ours) {
		t.Errorf("Validate says %v, which does not name %s", text, ours)
	} else if strings.Contains(text.Error(), "secret") {
		t.Errorf("Validate shows a password: %v", text)
	}
	created, err := c.client.Resource(c.resource()).Create(t.Context(), u, metav1.CreateOptions{})
	if bad.ours != "" { // a schema cannot detect it
		if err != nil {
			t.Errorf("the API server can refuse it: %v", err)
		}
		_ = c.client.Resource(c.resource()).Delete(t.Context(), "bad", metav1.DeleteOptions{})
		return
	}
	if !apierrors.IsInvalid(err) {
		t.Fatalf("the API server took it: %v %v", created, err)
	}
	var fields []string
	for _, cause := range err.(apierrors.APIStatus).Status().Details.Causes {
		fields = append(fields, cause.Field)
	}
	if !strings.Contains(strings.Join(fields, " ")+" ", want+" ") {
		t.Errorf("the API server names %v, want %s: %v", fields, want, err)
	}
}

// validate returns the errors of Validate for a configuration.
func validate(t *testing.T, u *unstructured.Unstructured) field.ErrorList {
	t.Helper()
	if strings.Contains(u.GetKind(), "Exploring") {
		var c v1alpha1.ResourceExploringWebhookConfiguration
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &c); err != nil {
			t.Fatal(err)
		}
		return c.Validate()
	}
	var c v1alpha1.ResourceInterpreterWebhookConfiguration
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &c); err != nil {
		t.Fatal(err)
	}
	return c.Validate()
}

// TestInterpreterCaller: a caller receives updates from the API server, and calls a webhook over
// TLS with objects of the server.
func TestInterpreterCaller(t *testing.T) {
	t.Parallel()
	cluster := kube.Start(t, kube.Options{}) // no other test installs the CRDs or creates configurations on it
	client, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	deployment := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	mapper.Add(deployment, meta.RESTScopeNamespace)
	c, err := caller.New(caller.Options{Client: client, Mapper: mapper, AllowedHosts: []string{"127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- c.Start(ctx) }()
	select {
	case <-c.Ready(): // without the CRDs, no configuration exists
	case <-time.After(time.Minute):
		t.Fatal("the caller is not ready without the CRDs")
	}

	server, ca := interpreterWebhook(t)
	go func() { ended <- server.Start(ctx) }()
	<-server.Ready()
	cluster.InstallCRDs(interpreterCRDs(t))
	configuration := v1alpha1.ResourceExploringWebhookConfiguration{Webhooks: []v1alpha1.ResourceExploringWebhook{{
		Name: "native.example.com", ExploreReviewVersions: []string{"v1alpha1"},
		Rules: []v1alpha1.RuleWithOperations{{Operations: []v1alpha1.OperationType{"*"}}},
	}}}
	hook := &configuration.Webhooks[0]
	hook.ClientConfig.URL, hook.ClientConfig.CABundle = new("https://"+server.Addr().String()+"/native"), []byte(ca.PEM)
	hook.Rules[0].APIGroups, hook.Rules[0].APIVersions, hook.Rules[0].Resources = []string{"apps"}, []string{"v1"},
		[]string{"deployments"}
	configuration.Name = "native"
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&configuration)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("ResourceExploringWebhookConfiguration"))
	if _, err := client.Resource(v1alpha1.ExploringWebhookConfigurations).Create(ctx, u,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	matches(t, c, deployment, "native/native.example.com")

	deployments := client.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1",
		Resource: "deployments"}).Namespace("default")
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 2, selector: {matchLabels: {a: b}},
		template: {metadata: {labels: {a: b}}, spec: {serviceAccountName: web, containers: [{name: c, image: c, resources: {requests: {cpu: 100m}}}]}}}}`), &object.Object); err != nil {
		t.Fatal(err)
	}
	if object, err = deployments.Create(ctx, object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	replicas, requirements, err := c.Replicas(ctx, object)
	if err != nil || replicas != 2 || requirements.ResourceRequest.Cpu().String() != "100m" {
		t.Errorf("replicas %d, requirements %+v: %v", replicas, requirements, err)
	}
	revised, err := c.Revise(ctx, object, 5)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := deployments.Update(ctx, revised, metav1.UpdateOptions{}); err != nil {
		t.Errorf("the API server refuses the revised object: %v", err)
	}
	want := object.DeepCopy()
	_ = unstructured.SetNestedField(want.Object, int64(5), "spec", "replicas")
	if diff := cmp.Diff(want, revised); diff != "" {
		t.Errorf("more than the replicas was changed: %s", diff)
	}
	if err := client.Resource(v1alpha1.ExploringWebhookConfigurations).Delete(ctx, "native",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	matches(t, c, deployment, "")
	cancel()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// interpreterWebhook returns a server for the native kinds that is not started.
func interpreterWebhook(t *testing.T) (*interpreter.Server, *certtest.Authority) {
	t.Helper()
	ca, folder := certtest.New(t), t.TempDir()
	ca.Issue(t, "webhook").Write(t, folder, "tls")
	server, err := interpreter.NewServer(interpreter.ServerOptions{Addr: "127.0.0.1:0", CertDir: folder})
	if err != nil {
		t.Fatal(err)
	}
	if err := interpreter.Register(server, "/native", native.New()); err != nil {
		t.Fatal(err)
	}
	return server, ca
}

// matches waits until the caller selects a webhook. The informer looks for a missing CRD every ten
// seconds.
func matches(t *testing.T, c *caller.Caller, gvk schema.GroupVersionKind, want string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		got, err := c.Match(v1alpha1.InterpreterOperationInterpretReplica, gvk, true)
		if err == nil && got == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the webhook is %q (%v), want %q", got, err, want)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
