// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"context"
	"maps"
	"slices"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
)

// An event that applies may delete hooks by their policies, long after its begin. Other contexts do
// not wait for that. So the event reads the records of other contexts before each such call, and
// again in the next phase. If another context then holds a deleted hook, the engine applies the
// manifest of that context.

// findHoldersNow finds the hooks of a phase that another context holds. The phase deletes hooks by
// their policies, or waits until they are gone, and must leave these hooks.
func (o *op) findHoldersNow(ctx context.Context) error {
	t := o.task
	objects := objectsOf(o.phase.resources)
	replaced, err := o.replaced(ctx)
	if err != nil {
		return err
	}
	found, err := o.run.engine.holders(ctx, o.run.id, o.cluster.id, objects, &others{},
		func(n *neighbor, r *record) bool {
			return r.Holds && !slices.Contains(replaced, n.id)
		})
	if err != nil {
		return err
	}
	if o.phase.verb == deleteVerb { // the next phase does not wait for objects that this one leaves
		maps.DeleteFunc(t.left, func(object appcontext.Object, _ holder) bool { return objects[object] })
	}
	if t.left == nil {
		t.left = map[appcontext.Object]holder{}
	}
	maps.Copy(t.left, found)
	return nil
}

// leaveHooks finds the hooks that a phase must leave. If another context now holds a hook that the
// task has deleted, leaveHooks applies the manifest of that context.
func (o *op) leaveHooks(ctx context.Context, conn connector.Connector) error {
	if o.task.event.removes() || o.task.event == Heal || o.phase.verb != deleteVerb && o.phase.verb != goneVerb {
		return nil
	}
	if err := o.findHoldersNow(ctx); err != nil {
		return storeTrouble(err)
	}
	for _, r := range o.phase.resources {
		h, held := o.task.left[r.Object]
		if !held || !o.task.deleted[r.Object] {
			continue
		}
		if _, err := o.applyFor(ctx, conn, &h, []appcontext.Resource{r}, true); err != nil {
			return err
		}
		delete(o.task.deleted, r.Object)
	}
	return nil
}

// deleteOwn deletes resources. It records deleted hooks: the next phase looks for contexts that now
// hold them.
func (o *op) deleteOwn(ctx context.Context, conn connector.Connector, batch connector.Batch) error {
	if o.task.event.removes() {
		return conn.Delete(ctx, batch)
	}
	if o.task.deleted == nil {
		o.task.deleted = map[appcontext.Object]bool{}
	}
	maps.Copy(o.task.deleted, objectsOf(batch.Resources))
	return conn.Delete(ctx, batch)
}
