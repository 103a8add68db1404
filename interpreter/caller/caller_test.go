// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package caller_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/spokewire/sdk-go/internal/testing/alloctest"
	"github.com/spokewire/sdk-go/internal/testing/metertest"
	"github.com/spokewire/sdk-go/interpreter/caller"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// TestSetConfigurationsReturnsFirstErrors checks that only the first errors are in the text: the
// text of thousands takes quadratic time.
func TestSetConfigurationsReturnsFirstErrors(t *testing.T) {
	c := configured(t, caller.Options{}, inter())
	broken := make([]v1alpha1.ResourceInterpreterWebhookConfiguration, 20)
	for i := range broken {
		broken[i] = interpreting(fmt.Sprint("c", i), nowhere, make([]v1alpha1.KindRuleWithOperations, 2001)...)
	}
	var text string
	allocated, took := alloctest.Cost(func() { text = c.SetConfigurations(inter(broken...)).Error() })
	if !strings.HasPrefix(text, "[c0: webhooks[0].rules: Too many: 2001") ||
		!strings.HasSuffix(text, ", 160090 more errors]") {
		t.Errorf("%.2000s", text)
	}
	if allocated > 256<<20 || took > 20*time.Second {
		t.Errorf("allocated %d MiB in %s", allocated>>20, took)
	}
}

// TestUnreadableConfigurationKeepsEarlierVersion checks that a webhook stays active when its configuration becomes
// unreadable. A deleted webhook is removed, and a recreated webhook is used again. Each problem is
// logged once.
func TestUnreadableConfigurationKeepsEarlierVersion(t *testing.T) {
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{
			v1alpha1.ExploringWebhookConfigurations:   "ResourceExploringWebhookConfigurationList",
			v1alpha1.InterpreterWebhookConfigurations: "ResourceInterpreterWebhookConfigurationList",
		})
	resource := client.Resource(v1alpha1.InterpreterWebhookConfigurations)
	registry := prometheus.NewRegistry()
	c, err := caller.New(caller.Options{Client: client, MetricsRegisterer: registry})
	if err != nil {
		t.Fatal(err)
	}
	a := interpreting("a", nowhere)
	create(t, resource.Create, "ResourceInterpreterWebhookConfiguration", &a)
	good, err := resource.Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	ctx, cancel := context.WithCancel(
		klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log)))))
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	<-c.Ready()
	update := func(version string, change func(hook map[string]any)) {
		u := good.DeepCopy()
		u.SetResourceVersion(version)
		hooks, _, _ := unstructured.NestedSlice(u.Object, "webhooks")
		change(hooks[0].(map[string]any))
		_ = unstructured.SetNestedSlice(u.Object, hooks, "webhooks")
		if _, err := resource.Update(t.Context(), u, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually := func(invalid float64, want string) {
		t.Helper()
		var got string
		for range 1000 {
			got, err = c.Match(v1alpha1.InterpreterOperationInterpretHealth, workloadKind, true)
			if got == want && metertest.Values(t, registry)["spokewire_interpreter_caller_invalid_configurations"] == invalid {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Fatalf("the webhook is %q (%v), want %q and %v invalid configurations", got, err, want, invalid)
	}
	const found = "a/w.a.example.com"
	eventually(0, found)
	update("2", func(hook map[string]any) { hook["timeoutSeconds"] = "a while" })
	eventually(1, found)
	update("3", func(map[string]any) {})
	eventually(0, found)
	update("4", func(hook map[string]any) { hook["rules"] = "all" })
	eventually(1, found)
	if err := resource.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(0, "")
	create(t, resource.Create, "ResourceInterpreterWebhookConfiguration", &a)
	eventually(0, found)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := strings.Count(log.String(), "Found invalid webhook configuration"); n != 2 {
		t.Errorf("the log has %d problems, want 2:\n%s", n, &log)
	}
}

func TestSetConfigurations(t *testing.T) {
	c := configured(t, caller.Options{}, inter(interpreting("good", nowhere)))
	bad := interpreting("bad", admissionregistrationv1.WebhookClientConfig{})
	bad.Webhooks[0].TimeoutSeconds = new(int32(31))
	err := c.SetConfigurations(inter(bad))
	want := "[bad: webhooks[0].clientConfig: Required value: exactly one of url and service is required, bad: " +
		"webhooks[0].timeoutSeconds: Invalid value: 31: must be between 1 and 30 seconds]"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if got, err := c.Match(v1alpha1.InterpreterOperationPrune, workloadKind, true); got != "good/w.good.example.com" ||
		err != nil {
		t.Errorf("what was there before is gone: %q %v", got, err)
	}
	err = c.SetConfigurations(explore(exploring("a", nowhere, resourceRule("*", "*", "*", "workloads", "*"))))
	if err == nil || err.Error() != "invalid Options.Mapper: required: a rule of the Explore protocol names a resource" {
		t.Error(err)
	}
	empty, err := caller.New(caller.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := empty.Health(t.Context(), object()); !errors.Is(err, caller.ErrNotReady) {
		t.Errorf("before any configuration: %v", err)
	}
}
