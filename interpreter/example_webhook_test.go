// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpreter_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// Pool is a custom resource.
type Pool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Size int32 `json:"size"`
	} `json:"spec"`
	Status struct {
		Ready int32 `json:"ready"`
	} `json:"status"`
}

// A webhook interprets a custom resource. The control plane sends requests with TLS.
func Example() {
	certificates, control := selfSigned()
	server, err := interpreter.NewServer(interpreter.ServerOptions{Addr: "127.0.0.1:0", CertDir: certificates})
	if err != nil {
		log.Fatal(err)
	}
	err = interpreter.Register(server, "/interpret-pool", interpreter.HandlerFor[*Pool]{
		Replica: func(_ context.Context, p *Pool) (int32, *interpreter.ReplicaRequirements, error) {
			return p.Spec.Size, nil, nil
		},
		Revise: func(_ context.Context, p *Pool, replicas int32) error {
			p.Spec.Size = replicas // the server makes the patch
			return nil
		},
		Health: func(_ context.Context, p *Pool) (bool, error) { return p.Status.Ready == p.Spec.Size, nil },
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- server.Start(ctx) }()
	<-server.Ready()

	url := "https://" + server.Addr().String() + "/interpret-pool"
	response, err := control.Post(url, "application/json", strings.NewReader(`{
		"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterContext",
		"request": {"uid": "1", "operation": "InterpretHealth", "name": "web",
			"kind": {"group": "example.com", "version": "v1", "kind": "Pool"},
			"object": {"apiVersion": "example.com/v1", "kind": "Pool", "metadata": {"name": "web"},
				"spec": {"size": 3}, "status": {"ready": 3}}}}`))
	if err != nil {
		log.Fatal(err)
	}
	var review struct {
		Response v1alpha1.ResourceInterpreterResponse
	}
	err = json.NewDecoder(response.Body).Decode(&review)
	fmt.Println("healthy:", *review.Response.Healthy, err, response.Body.Close())
	control.CloseIdleConnections()
	cancel()
	fmt.Println(<-ended, os.RemoveAll(certificates))
	// Output:
	// healthy: true <nil> <nil>
	// <nil> <nil>
}

// selfSigned returns a folder with a certificate, and a client that trusts it. On a cluster,
// cert-manager makes the certificate.
func selfSigned() (folder string, client *http.Client) {
	s := httptest.NewTLSServer(nil)
	folder, err := os.MkdirTemp("", "certificates")
	if err != nil {
		log.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(s.TLS.Certificates[0].PrivateKey)
	if err != nil {
		log.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"tls.crt": {Type: "CERTIFICATE", Bytes: s.Certificate().Raw}, "tls.key": {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(filepath.Join(folder, name), pem.EncodeToMemory(block), 0o600); err != nil {
			log.Fatal(err)
		}
	}
	s.Close()
	return folder, s.Client()
}
