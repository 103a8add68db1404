// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
)

// Delete requests the deletion of the objects, in the steps of deleteSteps. It stops when the
// cluster rejects a request.
func (c *cluster) Delete(ctx context.Context, batch connector.Batch) error {
	if err := ctx.Err(); err != nil {
		return endedError(err)
	}
	for i := range batch.Resources {
		if o := batch.Resources[i].Object; isProtected(o) {
			return fault(connector.ErrTerminal, o, "the namespace is protected, and is not deleted")
		}
	}
	for _, step := range deleteSteps(batch.Resources) {
		if err := c.parallel(step, func(i int) error {
			err := c.delete(ctx, &batch.Resources[i])
			if err == nil {
				batch.Done(i)
			}
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) delete(ctx context.Context, r *appcontext.Resource) error {
	options, err := json.Marshal(&metav1.DeleteOptions{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}, PropagationPolicy: &c.options.Propagation,
	})
	if err != nil {
		return err
	}
	o, gvk := r.Object, c.kindOf(r)
	return c.call(ctx, o, "delete", func(ctx context.Context, cl *client) error {
		c.interest.want(gvk, o, gone)
		err := c.retryFresh(func(fresh bool) error {
			k, err := c.place(ctx, cl, gvk, o, fresh)
			if err != nil {
				return err
			}
			return cl.rest.Delete().AbsPath(k.path(o.Namespace, o.Name)...).MaxRetries(0).Body(options).Do(ctx).Error()
		})
		if absent(err) || apierrors.IsNotFound(err) && !pathGone(err) {
			c.interest.settle(gvk, o)
			return nil
		}
		return err
	})
}

// kindOf returns the kind of an object in the version of its manifest, or without a version if the
// manifest is broken.
func (c *cluster) kindOf(r *appcontext.Resource) schema.GroupVersionKind {
	gvk := schema.GroupVersionKind{Group: r.Object.Group, Kind: r.Object.Kind}
	if len(r.Manifest) > c.options.MaxObjectBytes {
		return gvk
	}
	content, err := contentOf(r.Manifest)
	if err != nil {
		return gvk
	}
	version, _, _ := unstructured.NestedString(content, "apiVersion")
	if gv, err := schema.ParseGroupVersion(version); err == nil && gv.Group == gvk.Group {
		gvk.Version = gv.Version
	}
	return gvk
}

// place returns the served kind of an object. An object that was applied in a version that is no
// longer served still exists in other versions.
func (c *cluster) place(
	ctx context.Context, cl *client, gvk schema.GroupVersionKind, o appcontext.Object, fresh bool,
) (kind, error) {
	k, err := c.kinds.find(ctx, cl, gvk, fresh)
	var other *otherVersionError
	switch {
	case err != nil && !errors.As(err, &other):
		return k, err
	case !k.patched:
		return k, errNotApplied
	case !validNames(o):
		return k, errName
	case k.namespaced && o.Namespace == "":
		return k, errNoNamespace
	case !k.namespaced && o.Namespace != "":
		return k, errNamespace
	}
	return k, nil
}
