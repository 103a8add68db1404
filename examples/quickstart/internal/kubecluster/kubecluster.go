// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubecluster gives the agent a real cluster, by way of a kubeconfig file.
//
// Each work has an AppliedWork there, which owns what the work has brought, in a way that outlives the agent: what is in
// it and what is not is [appliedwork]'s to know after a crash, and whoever deletes the AppliedWork has everything go. The
// agent's calls become those of its helpers: [Cluster.ApplyWork] is Ensure, Apply and Prune, [Cluster.RemoveWork] is Teardown
// or Release. See works.go.
package kubecluster

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/spokewire/sdk-go/appliedwork"
	kubeconfigs "github.com/spokewire/sdk-go/examples/internal/kubeconfig"
	"github.com/spokewire/sdk-go/examples/quickstart/internal/kinds"
)

// requestTimeout bounds every request, so that a cluster which does not answer is an error and no hang.
const requestTimeout = 10 * time.Second

// Cluster is one real cluster. Its methods may be called concurrently, for each work by one caller at a time.
type Cluster struct {
	name   string
	host   string
	hub    string
	client dynamic.Interface
	mapper meta.ResettableRESTMapper

	tracker   *appliedwork.Tracker
	applier   *appliedwork.Applier
	pruner    *appliedwork.Pruner
	collector *appliedwork.Collector

	mu        sync.Mutex
	installed bool               // whether the CRD is there
	audited   map[types.UID]bool // AppliedWorks whose objects are known to be in their inventories
}

// New reads a kubeconfig file, or what kubectl would read where that is "", and uses the current context. The hub is where the works come from: works of another hub
// with the same names are others. It must be the same each time, or the AppliedWorks of an earlier process are not
// found again. New sends no request.
func New(kubeconfig, hub string) (*Cluster, error) {
	if kubeconfig == "" {
		if _, err := kubeconfigs.Load(""); err != nil {
			return nil, err // says what kubectl would look for
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil)
	raw, err := loader.RawConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	config.Timeout = requestTimeout
	config.UserAgent = "spokewire-quickstart"
	config.QPS, config.Burst = 100, 200
	config.WarningHandler = rest.NoWarnings{}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	discoverer, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	tracker, err := appliedwork.NewTracker(appliedwork.Options{Client: client, Metadata: objects, Discovery: discoverer})
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	return &Cluster{
		name:      clusterName(raw.CurrentContext),
		host:      config.Host,
		hub:       hub,
		client:    client,
		mapper:    restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discoverer)),
		tracker:   tracker,
		applier:   appliedwork.NewApplier(tracker),
		pruner:    appliedwork.NewPruner(tracker),
		collector: appliedwork.NewCollector(tracker),
		audited:   map[types.UID]bool{},
	}, nil
}

// Name is the kubeconfig's current context as a valid name of a cluster.
func (c *Cluster) Name() string { return c.name }

// Host is the address of the API server.
func (c *Cluster) Host() string { return c.host }

// clusterName makes the name of a context, such as "admin@prod", one that a namespace may have.
func clusterName(context string) string {
	name := strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' || 'a' <= r && r <= 'z' {
			return r
		}
		return '-'
	}, strings.ToLower(context))
	name = strings.Trim(name, "-")
	if name == "" {
		return "cluster"
	}
	return strings.TrimRight(name[:min(len(name), 60)], "-")
}

// Kind asks the cluster's discovery. What is known is remembered; for what is not, the cluster is asked again
// each time, as a CustomResourceDefinition may have come meanwhile.
func (c *Cluster) Kind(_ context.Context, gvk schema.GroupVersionKind) (kinds.Kind, error) {
	mapping, err := c.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		c.mapper.Reset()
		mapping, err = c.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	}
	if err != nil {
		return kinds.Kind{}, err
	}
	return kinds.Kind{
		GVK:        gvk,
		Resource:   mapping.Resource.Resource,
		Namespaced: mapping.Scope.Name() == meta.RESTScopeNameNamespace,
	}, nil
}
