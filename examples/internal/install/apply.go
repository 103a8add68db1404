// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
	"github.com/spokewire/sdk-go/examples/internal/command"
)

// apply applies manifests in their order, with server-side apply and the field manager
// NAME-install, and prints a line for each object. Fields of these manifests belong to the command,
// and other fields stay.
func apply(ctx context.Context, o Options, manifests []byte, stdout io.Writer) error {
	config, err := command.LoadKubeconfig("--kubeconfig", o.kubeconfig)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	kinds, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(kinds))
	all, err := objects(manifests)
	if err != nil {
		return err
	}
	for _, u := range all {
		if err := applyObject(ctx, client, mapper, u, o.Name+"-install"); err != nil {
			return fmt.Errorf("apply %s %s on %s: %w", u.GetKind(), u.GetName(), config.Host, err)
		}
		if _, err := fmt.Fprintf(stdout, "applied %s %s\n", u.GetKind(), u.GetName()); err != nil {
			return err
		}
	}
	return nil
}

func applyObject(
	ctx context.Context, client dynamic.Interface, mapper meta.RESTMapper, u *unstructured.Unstructured, manager string,
) error {
	if u.GetName() == v1alpha1.CRDName { // never an older schema than the cluster's
		return v1alpha1.EnsureCRD(ctx, client.Resource(v1alpha1.CRDResource))
	}
	mapping, err := mapper.RESTMapping(u.GroupVersionKind().GroupKind(), u.GroupVersionKind().Version)
	if meta.IsNoMatchError(err) && u.GroupVersionKind().Group == "monitoring.coreos.com" {
		return fmt.Errorf("%w: install the Prometheus Operator, or omit --monitoring", err)
	}
	if err != nil {
		return err
	}
	var resource dynamic.ResourceInterface = client.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		resource = client.Resource(mapping.Resource).Namespace(u.GetNamespace())
	}
	_, err = resource.Apply(ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: manager, Force: true})
	return err
}
