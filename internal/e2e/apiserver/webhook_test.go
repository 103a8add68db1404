// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
)

// review adds a label to all works, and refuses works with the word "forbidden" in their name.
func review(w http.ResponseWriter, r *http.Request) {
	var in admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Request == nil {
		http.Error(w, fmt.Sprint("decode: ", err), http.StatusBadRequest)
		return
	}
	patch, allowed := admissionv1.PatchTypeJSONPatch, !strings.Contains(in.Request.Name, "forbidden")
	in.Response = &admissionv1.AdmissionResponse{
		UID: in.Request.UID, Allowed: allowed, Warnings: []string{"seen by the webhook"},
		Result: &metav1.Status{Message: "the webhook refuses this name"},
	}
	if allowed && in.Request.Operation != admissionv1.Delete {
		in.Response.PatchType = &patch
		in.Response.Patch = []byte(`[{"op":"add","path":"/metadata/labels","value":{"reviewed":"` +
			in.Request.UserInfo.Username + `"}}]`)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(in) // the client reports a broken response
}

// testWebhook checks that the webhooks of the cluster change and refuse works.
func testWebhook(t *testing.T, s *scene) {
	server := httptest.NewTLSServer(http.HandlerFunc(review))
	t.Cleanup(server.Close)
	fail, side, url := registrationv1.Fail, registrationv1.SideEffectClassNone, server.URL+"/works"
	seconds := int32(30) // the maximum
	core := kubernetes.NewForConfigOrDie(s.cluster.Config())
	configurations := core.AdmissionregistrationV1().MutatingWebhookConfigurations()
	if _, err := configurations.Create(t.Context(), &registrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "works"},
		Webhooks: []registrationv1.MutatingWebhook{{
			Name: "works.example.com", FailurePolicy: &fail, SideEffects: &side, AdmissionReviewVersions: []string{"v1"},
			TimeoutSeconds: &seconds,
			ClientConfig: registrationv1.WebhookClientConfig{
				URL: &url, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			Rules: []registrationv1.RuleWithOperations{{
				Operations: []registrationv1.OperationType{registrationv1.Create, registrationv1.Update, registrationv1.Delete},
				Rule: registrationv1.Rule{APIGroups: []string{"work.open-cluster-management.io"}, APIVersions: []string{"v1"},
					Resources: []string{"manifestworks"}},
			}},
		}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	client, attempt := workclientset.NewForConfigOrDie(s.cluster.Config()), 0
	e2etest.Eventually(t, "the webhook is called", func() error {
		attempt++
		name := fmt.Sprint("reviewed-", attempt)
		if err := s.create(client, "cluster1", name); err != nil {
			return err
		}
		w, err := s.works("cluster1").Get(t.Context(), name, metav1.GetOptions{})
		if err == nil && w.Labels["reviewed"] != "admin" {
			err = fmt.Errorf("the labels of %s are %v", name, w.Labels)
		}
		return err
	})
	err := s.create(client, "cluster1", "forbidden")
	if err == nil || !strings.Contains(err.Error(), "the webhook refuses this name") {
		t.Errorf("create: %v, want the refusal of the webhook", err)
	}
	label := []byte(`{"metadata":{"labels":{"reviewed":"no"}}}`)
	w, err := s.works("cluster1").Patch(t.Context(), fmt.Sprint("reviewed-", attempt), types.MergePatchType, label,
		metav1.PatchOptions{})
	if err != nil || w.Labels["reviewed"] != "admin" {
		t.Errorf("patch: labels %v, %v; want those of the webhook", w.Labels, err)
	}
	if err := s.works("cluster1").Delete(t.Context(), w.Name, metav1.DeleteOptions{}); err != nil {
		t.Errorf("delete: %v", err)
	}
	if err := configurations.Delete(t.Context(), "works", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}
