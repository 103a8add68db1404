// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericoptions "k8s.io/apiserver/pkg/server/options"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work/apiserver"
	"github.com/spokewire/sdk-go/internal/testing/background"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
)

// newCluster serves the ConfigMap with the CA of clients, and permits alice everything. It answers no
// list: the controller that reads the ConfigMap never succeeds. newCluster returns a kubeconfig.
func newCluster(t *testing.T, data map[string]string) (kubeconfig string) {
	t.Helper()
	cluster := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/configmaps/extension-apiserver-authentication"):
			_ = json.NewEncoder(w).Encode(&corev1.ConfigMap{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
				ObjectMeta: metav1.ObjectMeta{Name: "extension-apiserver-authentication", Namespace: "kube-system"}, Data: data,
			})
		case strings.HasSuffix(r.URL.Path, "/subjectaccessreviews"):
			var review struct{ Spec struct{ User string } }
			_ = json.NewDecoder(r.Body).Decode(&review)
			_, _ = fmt.Fprintf(w, `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview",
				"status":{"allowed":%t}}`, review.Spec.User == "alice")
		default:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(cluster.Close)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: c,
		clusters: [{name: c, cluster: {server: %q}}], contexts: [{name: c, context: {cluster: c}}]}`, cluster.URL),
		0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// TestClientCertificateAtStart: the first request with a client certificate of the cluster is not
// anonymous.
func TestClientCertificateAtStart(t *testing.T) {
	ca := certtest.New(t)
	o, address := alone(t)
	o.Recommended.Authentication = genericoptions.NewDelegatingAuthenticationOptions()
	o.Recommended.Authorization = genericoptions.NewDelegatingAuthorizationOptions()
	kubeconfig := newCluster(t, map[string]string{"client-ca-file": ca.PEM})
	o.Recommended.Authentication.RemoteKubeConfigFile = kubeconfig
	o.Recommended.Authorization.RemoteKubeConfigFile = kubeconfig
	source := newSource(t, memory.New())
	background.Run(t, source.Start)
	server, err := apiserver.New(source, o)
	if err != nil {
		t.Fatal(err)
	}
	background.Run(t, server.Start)
	client := &http.Client{Timeout: patience, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{
			InsecureSkipVerify: true, Certificates: []tls.Certificate{ca.Issue(t, "alice").Certificate},
		},
	}}
	r, err := http.NewRequestWithContext(t.Context(), "GET", "https://"+address+worksPath, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if text, err := io.ReadAll(response.Body); err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("list: %s %s %v, want OK", response.Status, text, err)
	}
}

func TestInvalidClientCA(t *testing.T) {
	for want, data := range map[string]string{
		"apiserver.New: read the CA of clients from the ConfigMap extension-apiserver-authentication of kube-system": "x",
		"": "",
	} {
		o, _ := alone(t)
		o.Recommended.Authentication = genericoptions.NewDelegatingAuthenticationOptions()
		o.Recommended.Authentication.RemoteKubeConfigFile = newCluster(t, map[string]string{"client-ca-file": data})
		server, err := apiserver.New(newSource(t, memory.New()), o)
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("New with the CA %q: %v, want %q", data, err, want)
		}
		if err == nil {
			background.Run(t, server.Start) // its end also ends what New has created
		}
	}
}
