// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"

	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/client-go/rest"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/internal/engine"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/clientset"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/restapi"
)

// name is the name of the server in logs and of its health checks.
const name = "manifestworks"

// Backend is a source or an agent: a *work.Source or a *work.Agent.
type Backend interface {
	// Clientset returns the clientset of the works.
	Clientset() workclientset.Interface
	// Livez and Readyz are the checks for probes.
	Livez(*http.Request) error
	Readyz(*http.Request) error
}

// Server is an aggregated API server for the works of a source or an agent.
type Server struct {
	generic *genericapiserver.GenericAPIServer
	started atomic.Bool
}

// New returns a server for the works of a backend. It reads certificates, and the configuration of
// the front proxy from the cluster, so it returns an error while the cluster does not answer. It
// opens the port, unless Options.Recommended.SecureServing has a Listener. Each set of options is
// for one server.
//
// The server serves a backend that its owner starts and ends. While the backend is not ready,
// /readyz fails. A lost connection to the broker does not matter. After the end of the backend,
// requests for works return ServiceUnavailable.
func New(b Backend, o *Options) (*Server, error) {
	if b == nil {
		return nil, errors.New("apiserver.New: the backend must not be nil")
	}
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("apiserver.New: %w", err)
	}
	works := b.Clientset()
	verbs, ok := clientset.VerbsOf(works, "")
	if !ok {
		return nil, fmt.Errorf("apiserver.New: the backend must be a *work.Source or a *work.Agent, not a %T", b)
	}
	config, err := o.config()
	if err != nil {
		return nil, fmt.Errorf("apiserver.New: %w", err)
	}
	config.AddReadyzChecks(healthz.NamedCheck(name, ready(b, verbs)))
	config.AddHealthChecks(healthz.NamedCheck(name+"-running", b.Livez))
	options := restapi.Options{ReadOnly: o.ReadOnly}
	group, document := restapi.Discovery(works, options)
	config.AggregatedDiscoveryGroupManager = groups{aggregated.NewResourceManager("apis"), document}
	generic, err := config.Complete().New(name, genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, fmt.Errorf("apiserver.New: %w", err)
	}
	options.Authorizer, options.Admission = generic.Authorizer, config.AdmissionControl
	if err := install(works, group, options, generic); err != nil {
		return nil, fmt.Errorf("apiserver.New: %w", err)
	}
	return &Server{generic: generic}, nil
}

// ready returns the readiness check of a backend. A lost connection to the broker is no failure:
// works are served, and writes are queued. A Service without a ready server would end all reads, and
// the deletion of all namespaces of the cluster.
func ready(b Backend, verbs clientset.Verbs) func(*http.Request) error {
	return func(r *http.Request) error {
		err := b.Readyz(r)
		if engine.IsDisconnected(err) && verbs.Synced() {
			return nil
		}
		return err
	}
}

// config returns the configuration of the generic server.
func (o *Options) config() (*genericapiserver.RecommendedConfig, error) {
	serving := o.Recommended.SecureServing
	if err := serving.MaybeDefaultWithSelfSignedCerts("localhost", nil, []net.IP{net.IPv4(127, 0, 0, 1)}); err != nil {
		return nil, fmt.Errorf("generate a certificate: %w", err)
	}
	if api := o.Recommended.CoreAPI; api != nil {
		if _, err := rest.InClusterConfig(); api.CoreAPIKubeconfigPath == "" && errors.Is(err, rest.ErrNotInCluster) {
			return nil, errors.New("the server does not run in a pod: set --kubeconfig to the kubeconfig of its cluster")
		}
		if a := o.Recommended.Authentication; a != nil {
			a.RemoteKubeConfigFile = cmp.Or(a.RemoteKubeConfigFile, api.CoreAPIKubeconfigPath)
		}
		if a := o.Recommended.Authorization; a != nil {
			a.RemoteKubeConfigFile = cmp.Or(a.RemoteKubeConfigFile, api.CoreAPIKubeconfigPath)
		}
	}
	if err := readClientCA(o.Recommended.Authentication); err != nil {
		return nil, err
	}
	config := genericapiserver.NewRecommendedConfig(restapi.Codecs)
	config.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	config.BuildHandlerChainFunc = buildHandlerChain
	config.ShutdownDelayDuration = o.ShutdownDelay
	config.ShutdownWatchTerminationGracePeriod = o.WatchGracePeriod
	config.SkipOpenAPIInstallation = true // the handler of the works serves the documents
	if err := o.Recommended.ApplyTo(config); err != nil {
		return nil, err
	}
	if config.LoopbackClientConfig == nil {
		return nil, errors.New("the server needs a secure port")
	}
	return config, nil
}

// Start serves until ctx ends. Then /readyz fails, the server waits for Options.ShutdownDelay, ends
// watches, waits for other requests and returns nil. End the backend after that: until then,
// requests need it. Start returns an error if it cannot serve. A second call returns
// [cloudevents.ErrStarted].
func (s *Server) Start(ctx context.Context) error {
	if s.started.Swap(true) {
		return cloudevents.ErrStarted
	}
	if err := s.generic.PrepareRun().RunWithContext(ctx); err != nil {
		return fmt.Errorf("serve the API of works: %w", err)
	}
	return nil
}
