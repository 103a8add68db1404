// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package aggregated runs package cloudevents/work/apiserver in the process of a test. A cluster of
// package kube with Options.Aggregates authenticates and authorizes the requests, and forwards
// requests of its clients.
package aggregated

import (
	"net"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/rest"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work/apiserver"
	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
)

// service is the name of the server's Service.
const service = "works"

// Server is an aggregated API server of the works of a source or an agent.
type Server struct {
	t         testing.TB
	cluster   *kube.Cluster
	authority *certtest.Authority
	cert, key string // the files of the certificate
	address   string
}

// New returns a server that is not started.
func New(t testing.TB, cluster *kube.Cluster) *Server {
	t.Helper()
	s := &Server{t: t, cluster: cluster, authority: certtest.New(t), address: "127.0.0.1:0"}
	s.cert, s.key = s.authority.Issue(t, service, service+".default.svc").Write(t, t.TempDir(), "serving")
	return s
}

// Start serves the works of a backend until stop or the end of the test. It may be called again after
// stop: the address stays.
func (s *Server) Start(backend apiserver.Backend) (stop func()) {
	s.t.Helper()
	listener, err := net.Listen("tcp", s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	s.address = listener.Addr().String()
	o := apiserver.NewOptions()
	o.Recommended.SecureServing.Listener = listener
	o.Recommended.SecureServing.ServerCert.CertKey = genericoptions.CertKey{CertFile: s.cert, KeyFile: s.key}
	o.Recommended.CoreAPI.CoreAPIKubeconfigPath = s.cluster.Kubeconfig()
	server, err := apiserver.New(backend, o)
	if err != nil {
		s.t.Fatal(err)
	}
	return e2etest.Background(s.t, server.Start)
}

// Register registers the API in the cluster. It returns when the cluster forwards requests for works.
func (s *Server) Register() {
	s.t.Helper()
	s.cluster.Register(schema.GroupVersion(workv1.GroupVersion), service, s.address, s.authority.PEM)
	s.wait("the cluster forwards requests for works", s.cluster.Config())
}

// Config returns a configuration for requests that do not pass the API server of the cluster.
func (s *Server) Config() *rest.Config {
	s.t.Helper()
	config := s.cluster.Config()
	config.Host, config.CAData, config.CAFile = "https://"+s.address, []byte(s.authority.PEM), ""
	s.wait("the server accepts the users of the cluster", config)
	return config
}

// wait waits until requests with a configuration succeed.
func (s *Server) wait(what string, config *rest.Config) {
	s.t.Helper()
	e2etest.Eventually(s.t, what, func() error {
		works, err := workclientset.NewForConfig(config)
		if err == nil {
			_, err = works.WorkV1().ManifestWorks("").List(s.t.Context(), metav1.ListOptions{})
		}
		return err
	})
}
