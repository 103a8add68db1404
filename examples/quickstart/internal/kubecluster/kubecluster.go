// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubecluster gives the agent a real cluster, by way of a kubeconfig file.
package kubecluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/spokewire/sdk-go/examples/quickstart/internal/kinds"
)

// requestTimeout bounds every request, so that a cluster which does not answer is an error and no hang.
const requestTimeout = 10 * time.Second

// Cluster is one real cluster. Its methods may be called concurrently.
type Cluster struct {
	name   string
	host   string
	client dynamic.Interface
	mapper meta.ResettableRESTMapper
}

// New reads a kubeconfig file and uses its current context. It sends no request.
func New(kubeconfig string) (*Cluster, error) {
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}
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
	config.QPS, config.Burst = 50, 100
	config.WarningHandler = rest.NoWarnings{}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	discoverer, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	return &Cluster{
		name:   clusterName(raw.CurrentContext),
		host:   config.Host,
		client: client,
		mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discoverer)),
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

// Get returns an object, or NotFound.
func (c *Cluster) Get(ctx context.Context, kind kinds.Kind, namespace, name string) (*unstructured.Unstructured, error) {
	return c.resource(kind, namespace).Get(ctx, name, metav1.GetOptions{})
}

// Apply does a server-side apply.
func (c *Cluster) Apply(ctx context.Context, kind kinds.Kind, obj *unstructured.Unstructured, o metav1.ApplyOptions) (*unstructured.Unstructured, error) {
	return c.resource(kind, obj.GetNamespace()).Apply(ctx, obj.GetName(), obj, o)
}

// Delete asks for the removal of an object; what belongs to it follows. To wait for that (foreground) would take
// half a minute for a kind that was just defined, until the garbage collector has noticed it.
func (c *Cluster) Delete(ctx context.Context, kind kinds.Kind, namespace, name string, uid types.UID) error {
	policy := metav1.DeletePropagationBackground
	o := metav1.DeleteOptions{PropagationPolicy: &policy}
	if uid != "" {
		o.Preconditions = &metav1.Preconditions{UID: &uid}
	}
	return c.resource(kind, namespace).Delete(ctx, name, o)
}

func (c *Cluster) resource(kind kinds.Kind, namespace string) dynamic.ResourceInterface {
	if !kind.Namespaced {
		return c.client.Resource(kind.GVR())
	}
	return c.client.Resource(kind.GVR()).Namespace(namespace)
}
