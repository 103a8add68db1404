// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubecluster applies works to a real cluster, with a kubeconfig file.
//
// Each work has an AppliedWork on the cluster, which owns the applied objects and outlives the
// agent. After a crash, package [appliedwork] finds out which objects belong to it. If the
// AppliedWork is deleted, all its objects are deleted. The methods use the helpers of that package:
// [Cluster.ApplyWork] uses Ensure, Apply and Prune, and [Cluster.RemoveWork] uses Teardown or
// Release. See works.go.
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
	"github.com/spokewire/sdk-go/examples/internal/command"
	"github.com/spokewire/sdk-go/examples/quickstart/internal/kinds"
)

// requestTimeout is the time limit of every request to the cluster.
const requestTimeout = 10 * time.Second

// Cluster is one real cluster. Its methods may be called concurrently, but only once at a time for
// each work.
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
	installed bool               // whether the CRD is installed
	audited   map[types.UID]bool // AppliedWorks with a complete inventory
}

// New reads a kubeconfig file, or the default of kubectl if the name is empty, and uses the current
// context. The hub identifies the origin of the works: works of another hub with the same names are
// different works. It must be the same each time. Otherwise the AppliedWorks of an earlier process
// are not found. New sends no request.
func New(kubeconfig, hub string) (*Cluster, error) {
	if kubeconfig == "" {
		if _, err := command.LoadKubeconfig(""); err != nil {
			return nil, err // it has advice
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
	tracker, err := appliedwork.NewTracker(appliedwork.Options{
		Client: client, Metadata: objects, Discovery: discoverer,
	})
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

// Name returns the kubeconfig's current context as a valid name of a cluster.
func (c *Cluster) Name() string { return c.name }

// Host returns the address of the API server.
func (c *Cluster) Host() string { return c.host }

// clusterName converts the name of a context, such as "admin@prod", to a valid name of a namespace.
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

// Kind returns a kind from discovery, which is cached. Unknown kinds are looked up again each time,
// since a CustomResourceDefinition may have been added.
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
