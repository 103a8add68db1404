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
	"github.com/spokewire/sdk-go/rsync/connector/internal/driver"
)

// Delete requests the deletion of the objects, in steps.
func (c *cluster) Delete(ctx context.Context, batch connector.Batch) error {
	if err := ctx.Err(); err != nil {
		return driver.Ended(err)
	}
	for i := range batch.Resources {
		if o := batch.Resources[i].Object; isProtected(o) {
			return driver.Fault(connector.ErrTerminal, o, "the namespace is protected, and is not deleted")
		}
	}
	for _, step := range steps(batch.Resources, true) {
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
	o, gvk := r.Object, c.kindOf(r)
	c.interest.want(gvk, o, gone)
	missing, err := c.requestDelete(ctx, "delete", gvk, o, metav1.DeleteOptions{PropagationPolicy: &c.options.Propagation})
	if missing {
		c.interest.settle(gvk, o)
	}
	return err
}

// requestDelete requests a deletion. It reports whether the object does not exist, which is no
// error.
func (c *cluster) requestDelete(
	ctx context.Context, doing string, gvk schema.GroupVersionKind, o appcontext.Object, options metav1.DeleteOptions,
) (missing bool, err error) {
	options.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}
	body, err := json.Marshal(&options)
	if err != nil {
		return false, err
	}
	err = c.call(ctx, o, doing, func(ctx context.Context, cl *client) error {
		err := c.served(ctx, cl, gvk, o, func(k kind) error {
			return cl.rest.Delete().AbsPath(k.path(o.Namespace, o.Name)...).MaxRetries(0).Body(body).Do(ctx).Error()
		})
		if missing = absent(err) || apierrors.IsNotFound(err) && !pathGone(err); missing {
			return nil
		}
		return err
	})
	return missing, err
}

// kindOf returns the kind of an object, without a version if the manifest is broken.
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

// place returns the served kind of an object, also in another version.
func (c *cluster) place(
	ctx context.Context, cl *client, gvk schema.GroupVersionKind, o appcontext.Object, fresh bool,
) (kind, error) {
	k, err := c.kinds.find(ctx, cl, gvk, fresh)
	if err != nil && !errors.As(err, new(*otherVersionError)) {
		return k, err
	}
	return k, k.check(o)
}

// served calls a function with the kind, and again if the cached path is no longer served.
func (c *cluster) served(
	ctx context.Context, cl *client, gvk schema.GroupVersionKind, o appcontext.Object, do func(kind) error,
) error {
	return retryFresh(func(fresh bool) error {
		k, err := c.place(ctx, cl, gvk, o, fresh)
		if err != nil {
			return err
		}
		return do(k)
	})
}
