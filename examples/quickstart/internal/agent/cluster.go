// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/examples/quickstart/internal/kinds"
)

// Cluster is what the agent needs of a cluster. Package memcluster and package kubecluster implement it.
// Methods are called concurrently and return Kubernetes API errors.
type Cluster interface {
	// Kind resolves a kind. Where the cluster does not have it (yet), the error satisfies meta.IsNoMatchError.
	Kind(ctx context.Context, gvk schema.GroupVersionKind) (kinds.Kind, error)
	// Get returns an object, or NotFound.
	Get(ctx context.Context, kind kinds.Kind, namespace, name string) (*unstructured.Unstructured, error)
	// Apply does a server-side apply and returns the object as stored.
	Apply(ctx context.Context, kind kinds.Kind, obj *unstructured.Unstructured, o metav1.ApplyOptions) (*unstructured.Unstructured, error)
	// Delete removes an object, or asks for its removal: it may still be there for a while. If uid is given
	// and the object has another one, it returns Conflict.
	Delete(ctx context.Context, kind kinds.Kind, namespace, name string, uid types.UID) error
}
