// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package manifestwork

import (
	"context"
	"errors"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/internal/driver"
)

// conn is the connector of one cluster.
type conn struct {
	works     worktyped.ManifestWorkInterface
	options   *Options
	id        appcontext.ClusterID
	namespace string

	mu sync.Mutex
	// holders has the work in which an object was last seen. It may be wrong.
	holders map[appcontext.Object]string
	read    map[string]*readWork // the works as they were last read
	places  int                  // the number of objects in them
}

// maxAttempts limits the attempts of a call after conflicts with other writers.
const maxAttempts = 10

// begin runs before each call. It returns the error of Options.Reachable, with a class.
func (c *conn) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.options.Reachable == nil {
		return nil
	}
	err := c.options.Reachable(ctx, c.id)
	var known *connector.Error
	switch {
	case err == nil, errors.As(err, &known):
		return err
	case errors.Is(err, connector.ErrTerminal), errors.Is(err, connector.ErrRetryable):
		return err
	case ctx.Err() != nil:
		return c.failed(ctx, "", "", err)
	}
	return &connector.Error{Class: connector.ErrUnreachable, Err: err}
}

// Apply puts each object into the work that has it, and a new object into the work of its app.
func (c *conn) Apply(ctx context.Context, batch connector.Batch) error {
	if err := c.begin(ctx); err != nil {
		return err
	}
	entries, err := entriesOf(batch.Resources)
	if err != nil || len(entries) == 0 {
		return err
	}
	own := workName(c.options.Manager, batch.AppContextID, batch.App)
	return c.retried(ctx, own, func() error { return c.apply(ctx, batch, own, entries) })
}

// retried repeats a round while it conflicts with other writers, up to maxAttempts times.
func (c *conn) retried(ctx context.Context, own string, round func() error) error {
	for range maxAttempts {
		if err := round(); !moved(err) {
			return err
		}
	}
	return c.failed(ctx, "write", own, errRivals)
}

func (c *conn) apply(ctx context.Context, batch connector.Batch, own string, entries []entry) error {
	works, err := c.find(ctx, own, objectsIn(batch.Resources), held)
	if err != nil {
		return err
	}
	var order []*holder
	parts := map[*holder][]entry{}
	for _, e := range entries {
		h := holderOf(works, e.object)
		if h == nil {
			h = works[0]
		}
		if h.work.DeletionTimestamp != nil {
			return driver.Fault(connector.ErrRetryable, e.object,
				"the work %s is being deleted, and its agent has not finished", h.work.Name)
		}
		if len(parts[h]) == 0 {
			order = append(order, h)
		}
		parts[h] = append(parts[h], e)
	}
	for _, h := range order {
		next := put(h.work, parts[h], c.options)
		if next == h.work {
			continue
		}
		if err := sized(next, parts[h], c.options.MaxWorkBytes); err != nil {
			return err
		}
		if h.absent {
			next.Annotations[AnnotationAppContext], next.Annotations[AnnotationApp] = batch.AppContextID, batch.App
			_, err = c.works.Create(ctx, next, metav1.CreateOptions{FieldManager: c.options.Manager})
		} else {
			_, err = c.works.Update(ctx, next, metav1.UpdateOptions{FieldManager: c.options.Manager})
		}
		if err != nil {
			return c.interfered(ctx, "write", next.Name, err)
		}
		c.remember(h.work.Name, parts[h])
	}
	return nil
}

// interfered classifies an error, unless a new round may succeed.
func (c *conn) interfered(ctx context.Context, doing, name string, err error) error {
	if moved(err) && ctx.Err() == nil {
		return err
	}
	return c.failed(ctx, doing, name, err)
}

// Delete removes the objects from all works that have them. A work without objects is deleted.
func (c *conn) Delete(ctx context.Context, batch connector.Batch) error {
	if err := c.begin(ctx); err != nil {
		return err
	}
	if len(batch.Resources) == 0 {
		return nil
	}
	own := workName(c.options.Manager, batch.AppContextID, batch.App)
	return c.retried(ctx, own, func() error { return c.delete(ctx, own, objectsIn(batch.Resources)) })
}

func objectsIn(resources []appcontext.Resource) []appcontext.Object {
	out := make([]appcontext.Object, len(resources))
	for i := range resources {
		out[i] = resources[i].Object
	}
	return out
}

func (c *conn) delete(ctx context.Context, own string, objects []appcontext.Object) error {
	works, err := c.find(ctx, own, objects, held)
	if err != nil {
		return err
	}
	set := map[appcontext.Object]bool{}
	for _, o := range objects {
		set[o] = true
	}
	for _, h := range works {
		if h.absent || h.work.DeletionTimestamp != nil {
			continue
		}
		next := take(h.work, set, c.options)
		if next == h.work {
			continue
		}
		if len(next.Spec.Workload.Manifests) == 0 {
			err = c.works.Delete(ctx, next.Name, metav1.DeleteOptions{
				Preconditions: &metav1.Preconditions{UID: &next.UID, ResourceVersion: &next.ResourceVersion},
			})
			if apierrors.IsNotFound(err) {
				err = nil
			}
		} else {
			_, err = c.works.Update(ctx, next, metav1.UpdateOptions{FieldManager: c.options.Manager})
		}
		if err != nil {
			return c.interfered(ctx, "write", next.Name, err)
		}
	}
	return nil
}

// Get returns the states that the agents have reported.
func (c *conn) Get(ctx context.Context, batch connector.Batch) ([]connector.State, error) {
	if err := c.begin(ctx); err != nil {
		return nil, err
	}
	objects := objectsIn(batch.Resources)
	works, err := c.find(ctx, workName(c.options.Manager, batch.AppContextID, batch.App), objects, known)
	if err != nil {
		return nil, err
	}
	states := make([]connector.State, len(objects))
	for i, object := range objects {
		states[i] = stateOf(object, works, c.options)
	}
	return states, nil
}

// Probe lists one work. It also returns nil if the hub rejects the request: the next call returns
// the error.
func (c *conn) Probe(ctx context.Context) error {
	if err := c.begin(ctx); err != nil {
		return err
	}
	_, err := c.works.List(ctx, c.listOptions(1))
	err = c.failed(ctx, "list", "", err)
	if errors.Is(err, connector.ErrUnreachable) || ctx.Err() != nil {
		return err
	}
	return nil
}

// Close does nothing: the clientset belongs to the caller.
func (c *conn) Close() error { return nil }

// WatchStatus watches the connector's works for the cluster.
func (c *conn) WatchStatus(ctx context.Context, changed func()) error {
	first, err := c.works.List(ctx, c.listOptions(1))
	if err != nil {
		return c.failed(ctx, "list", "", err)
	}
	options := c.listOptions(0)
	options.ResourceVersion = first.ResourceVersion
	w, err := c.works.Watch(ctx, options)
	if err != nil {
		return c.failed(ctx, "watch", "", err)
	}
	defer w.Stop()
	changed() // for changes before the watch
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, ok := <-w.ResultChan():
			if !ok {
				return nil
			}
			if _, ok := event.Object.(*workv1.ManifestWork); !ok {
				return c.failed(ctx, "watch", "", apierrors.FromObject(event.Object))
			}
			changed()
		}
	}
}

func (c *conn) listOptions(limit int64) metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: LabelManager + "=" + c.options.Manager, Limit: limit}
}
