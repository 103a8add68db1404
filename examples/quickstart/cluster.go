// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/restmapper"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/internal/command"
)

// createdBy is the annotation of created objects, with the UID of their work. Other objects stay
// when the work is deleted.
const createdBy = "spokewire.github.io/quickstart-work"

// cluster is a real cluster, or one in memory that only stores objects.
type cluster struct {
	name   string
	client dynamic.Interface
	mapper meta.ResettableRESTMapper // nil in memory
}

// openClusters opens the clusters of the options.
func openClusters(o options) ([]*cluster, error) {
	var clusters []*cluster
	for _, kubeconfig := range o.Kubeconfigs {
		config, err := command.LoadKubeconfig("--kubeconfig", kubeconfig)
		if err != nil {
			return nil, err
		}
		config.QPS, config.Burst = 100, 200
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			return nil, fmt.Errorf("--kubeconfig %s: %w", kubeconfig, err)
		}
		d, err := discovery.NewDiscoveryClientForConfig(config)
		if err != nil {
			return nil, fmt.Errorf("--kubeconfig %s: %w", kubeconfig, err)
		}
		mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(d))
		clusters = append(clusters, &cluster{client: client, mapper: mapper})
	}
	for range o.Clusters {
		if len(o.Kubeconfigs) == 0 {
			clusters = append(clusters, &cluster{client: fake.NewSimpleDynamicClient(runtime.NewScheme())})
		}
	}
	for i, c := range clusters {
		c.name = fmt.Sprintf("cluster%d", i+1)
	}
	return clusters, nil
}

// apply creates or patches the objects of a work. A failed object does not block the others.
func (c *cluster) apply(ctx context.Context, w *workv1.ManifestWork) error {
	var errs []error
	for i := range w.Spec.Workload.Manifests {
		resource, obj, err := c.resolve(w, i)
		if err == nil {
			err = applyObject(ctx, resource, obj, string(w.UID))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s %q: %w", obj.GetKind(), obj.GetName(), err))
		}
	}
	return errors.Join(errs...)
}

func applyObject(
	ctx context.Context, resource dynamic.ResourceInterface, obj *unstructured.Unstructured, uid string,
) error {
	if _, err := resource.Get(ctx, obj.GetName(), metav1.GetOptions{}); apierrors.IsNotFound(err) {
		if err := unstructured.SetNestedField(obj.Object, uid, "metadata", "annotations", createdBy); err != nil {
			return err
		}
		_, err := resource.Create(ctx, obj, metav1.CreateOptions{})
		return err
	}
	patch, err := obj.MarshalJSON()
	if err != nil {
		return err
	}
	_, err = resource.Patch(ctx, obj.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// remove deletes the created objects of a work. It returns an error while any of them exists.
func (c *cluster) remove(ctx context.Context, w *workv1.ManifestWork) error {
	var errs []error
	for i := range slices.Backward(w.Spec.Workload.Manifests) {
		resource, obj, err := c.resolve(w, i)
		if meta.IsNoMatchError(err) {
			continue // its kind is deleted, and it with its kind
		}
		if err == nil {
			err = removeObject(ctx, resource, obj.GetName(), string(w.UID))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s %q: %w", obj.GetKind(), obj.GetName(), err))
		}
	}
	return errors.Join(errs...)
}

func removeObject(ctx context.Context, resource dynamic.ResourceInterface, name, uid string) error {
	live, err := resource.Get(ctx, name, metav1.GetOptions{})
	if err != nil || live.GetAnnotations()[createdBy] != uid {
		return ignoreNotFound(err)
	}
	if err := resource.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return ignoreNotFound(err)
	}
	if _, err := resource.Get(ctx, name, metav1.GetOptions{}); err != nil {
		return ignoreNotFound(err)
	}
	return errors.New("still exists")
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// resolve decodes a manifest, and returns the resource of its kind.
func (c *cluster) resolve(
	w *workv1.ManifestWork, manifest int,
) (dynamic.ResourceInterface, *unstructured.Unstructured, error) {
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(w.Spec.Workload.Manifests[manifest].Raw); err != nil {
		return nil, obj, err
	}
	gvk := obj.GroupVersionKind()
	if c.mapper == nil {
		gvr, _ := meta.UnsafeGuessKindToResource(gvk)
		return c.client.Resource(gvr).Namespace(obj.GetNamespace()), obj, nil
	}
	mapping, err := c.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) { // its definition may be new
		c.mapper.Reset()
		mapping, err = c.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	}
	if err != nil {
		return nil, obj, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace && obj.GetNamespace() == "" {
		obj.SetNamespace(metav1.NamespaceDefault)
	}
	return c.client.Resource(mapping.Resource).Namespace(obj.GetNamespace()), obj, nil
}
