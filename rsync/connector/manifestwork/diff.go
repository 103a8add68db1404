// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package manifestwork

import (
	"context"
	"slices"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/internal/driver"
)

var _ connector.Differ = &conn{}

// Diff compares manifests with the manifests in the works. An unchanged object has a message if the
// agent has not applied its work.
func (c *conn) Diff(ctx context.Context, batch connector.DiffBatch) ([]connector.Change, error) {
	if err := c.begin(ctx); err != nil {
		return nil, err
	}
	resources := slices.Concat(batch.Apply, batch.Delete)
	objects := objectsIn(resources)
	works, err := c.find(ctx, workName(c.options.Manager, batch.AppContextID, batch.App), objects, held)
	if err != nil {
		return nil, err
	}
	out := make([]connector.Change, len(resources))
	for i := range resources {
		out[i] = connector.Change{Object: objects[i], Kind: connector.ChangeKindNone}
		if i < len(batch.Apply) {
			diffApply(&out[i], works, &resources[i])
		} else {
			diffDelete(&out[i], works)
		}
	}
	return out, nil
}

func diffApply(change *connector.Change, works []*holder, r *appcontext.Resource) {
	entries, err := entriesOf([]appcontext.Resource{*r})
	if err != nil {
		change.Kind, change.Message = connector.ChangeKindRefused, driver.Cause(err).Error()
		return
	}
	h := holderOf(works, r.Object)
	if h == nil || !held(h, r.Object) {
		change.Kind = connector.ChangeKindCreate
		return
	}
	if h.work.DeletionTimestamp != nil {
		change.Kind, change.Message = connector.ChangeKindCreate, errDeleting.Error()
		return
	}
	if raw := h.work.Spec.Workload.Manifests[h.at[r.Object]].Raw; !sameJSON(raw, entries[0].raw) {
		change.Kind = connector.ChangeKindUpdate
		change.SetFields(fieldsOf(raw), fieldsOf(entries[0].raw))
	} else if err := reported(h.work); err != nil {
		change.Message = err.Error()
	}
}

func diffDelete(change *connector.Change, works []*holder) {
	for _, h := range works {
		switch {
		case held(h, change.Object) && h.work.DeletionTimestamp == nil:
			change.Kind, change.Message = connector.ChangeKindDelete, ""
			return
		case known(h, change.Object):
			change.Message = "it is being removed: " + removing(h.work)
		}
	}
}

func fieldsOf(raw []byte) map[string]any {
	content, err := contentOf(raw)
	if err != nil {
		return nil
	}
	fields, _ := content.(map[string]any)
	return fields
}
