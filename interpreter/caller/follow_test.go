// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package caller_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	"github.com/spokewire/sdk-go/internal/testing/metertest"
	"github.com/spokewire/sdk-go/interpreter/caller"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// TestInformersUpdateConfigurations checks that a caller uses the webhooks that are configured now.
func TestInformersUpdateConfigurations(t *testing.T) {
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{
			v1alpha1.ExploringWebhookConfigurations:   "ResourceExploringWebhookConfigurationList",
			v1alpha1.InterpreterWebhookConfigurations: "ResourceInterpreterWebhookConfigurationList",
		})
	registry := prometheus.NewRegistry()
	c, err := caller.New(caller.Options{Client: client, MetricsRegisterer: registry})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Health(t.Context(), object()); !errors.Is(err, caller.ErrNotReady) {
		t.Errorf("before Start: %v", err)
	}
	if err := c.SetConfigurations(caller.Configurations{}); err == nil ||
		!strings.Contains(err.Error(), "Options.Client") {
		t.Errorf("a list next to a client: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	<-c.Ready()

	eventually := func(want string) {
		t.Helper()
		for range 1000 {
			if got, err := c.Match(v1alpha1.InterpreterOperationInterpretHealth, workloadKind, true); err == nil && got == want {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		got, err := c.Match(v1alpha1.InterpreterOperationInterpretHealth, workloadKind, true)
		t.Fatalf("the webhook is %q (%v), want %q", got, err, want)
	}
	eventually("")
	b := interpreting("b", nowhere)
	create(t, client.Resource(v1alpha1.InterpreterWebhookConfigurations).Create, "ResourceInterpreterWebhookConfiguration",
		&b)
	eventually("b/w.b.example.com")
	a := exploring("a", nowhere)
	a.Webhooks[0].ExploreReviewVersions = []string{"v9"} // not valid, but still the first
	create(t, client.Resource(v1alpha1.ExploringWebhookConfigurations).Create, "ResourceExploringWebhookConfiguration", &a)
	eventually("a/w.a.example.com")
	_, err = c.Health(t.Context(), object())
	if failed := reason(t, err); failed.Reason != caller.ReasonConfiguration ||
		failed.Err.Error() != `exploreReviewVersions are ["v9"]: must include v1alpha1` {
		t.Error(err)
	}
	metertest.Expect(t, registry, map[string]float64{"spokewire_interpreter_caller_invalid_configurations": 1})
	if err := client.Resource(v1alpha1.ExploringWebhookConfigurations).Delete(t.Context(), "a",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually("b/w.b.example.com")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := c.Start(t.Context()); !errors.Is(err, caller.ErrStarted) {
		t.Errorf("the second Start: %v", err)
	}
}

func create(
	t *testing.T, f func(context.Context, *unstructured.Unstructured, metav1.CreateOptions,
		...string) (*unstructured.Unstructured, error), kind string, configuration any,
) {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(configuration)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetAPIVersion(v1alpha1.GroupVersion.String())
	u.SetKind(kind)
	if _, err := f(t.Context(), u, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
