// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"slices"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/rsync/connector"
	kubeconnector "github.com/spokewire/sdk-go/rsync/connector/kube"
)

// eventually waits until problem returns no text.
func eventually(t *testing.T, problem func() string) {
	t.Helper()
	var said string
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if said = problem(); said == "" {
			return
		}
	}
	t.Fatalf("after 30 s: %s", said)
}

// TestKubeWebhookDown: an unavailable webhook is a retryable error.
func TestKubeWebhookDown(t *testing.T) {
	t.Parallel()
	s := newKubeSite(t, nil, kubeconnector.Options{})
	url, fail, none := "https://127.0.0.1:1/validate", admissionv1.Fail, admissionv1.SideEffectClassNone
	hooks := s.client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := hooks.Create(t.Context(), &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "policy.example.com", FailurePolicy: &fail, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig:      admissionv1.WebhookClientConfig{URL: &url},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": s.namespace}},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.OperationAll},
				Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
					Resources: []string{"configmaps"}},
			}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hooks.Delete(t.Context(), s.namespace, metav1.DeleteOptions{}) })
	for i := 0; ; i++ { // the server needs a moment to use the webhook
		err := s.connector.Apply(t.Context(), s.batch(manifestOf("a", "s3cr3t")))
		if err != nil {
			s.refused(err, connector.ErrRetryable, "ConfigMap", "HTTP 500", `webhook "policy.example.com"`)
			break
		}
		if i == 200 {
			t.Fatal("the webhook is not asked")
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err := hooks.Delete(t.Context(), s.namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		if err := s.connector.Apply(t.Context(), s.batch(manifestOf("a", "2"))); err != nil {
			return err.Error()
		}
		return ""
	})
}

// TestKubePropagation: the deletion has the propagation policy. With foreground, an object exists
// until its dependents are gone, and then the garbage collector removes the finalizer.
func TestKubePropagation(t *testing.T) {
	t.Parallel()
	for policy, finalizer := range map[metav1.DeletionPropagation]string{
		"": "", metav1.DeletePropagationBackground: "",
		metav1.DeletePropagationForeground: metav1.FinalizerDeleteDependents,
		metav1.DeletePropagationOrphan:     metav1.FinalizerOrphanDependents,
	} {
		t.Run(string(policy), func(t *testing.T) {
			s := newKubeSite(t, nil, kubeconnector.Options{Propagation: policy})
			s.apply(manifestOf("a", "1"))
			for range 2 { // the second deletion finds the object terminating or gone
				if err := s.connector.Delete(t.Context(), s.batch(manifestOf("a", "1"))); err != nil {
					t.Fatal(err)
				}
			}
			maps := s.client.CoreV1().ConfigMaps(s.namespace)
			if got := s.state(manifestOf("a", "1")); got.Exists != (finalizer != "") || got.Ready {
				t.Fatalf("after the deletion it is %+v", got)
			}
			if finalizer == "" {
				return
			}
			m, err := maps.Get(t.Context(), "a", metav1.GetOptions{})
			if err != nil || !slices.Contains(m.Finalizers, finalizer) {
				t.Fatalf("%+v, %v; want the finalizer %s", m, err, finalizer)
			}
			if _, err := maps.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
				metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			if got := s.state(manifestOf("a", "1")); got.Exists {
				t.Errorf("when its dependents are gone it is %+v", got)
			}
		})
	}
}
