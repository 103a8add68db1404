// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"github.com/spokewire/sdk-go/internal/yamldoc"
	"github.com/spokewire/sdk-go/rsync/connector"
)

var _ connector.Differ = &conn{}

// Diff compares manifests with the objects of the cluster.
func (c *Cluster) Diff(ctx context.Context, batch connector.DiffBatch) ([]connector.Change, error) {
	as := connector.Batch{AppContextID: batch.AppContextID, App: batch.App, Cluster: batch.Cluster,
		Resources: slices.Concat(batch.Apply, batch.Delete)}
	if err := c.begin(ctx, VerbDiff, as); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]connector.Change, len(as.Resources))
	for i, r := range as.Resources {
		change := &out[i]
		change.Object, change.Kind = r.Object, connector.ChangeKindNone
		have := c.objects[r.Object]
		switch {
		case i >= len(batch.Apply) && have != nil:
			change.Kind = connector.ChangeKindDelete
		case i >= len(batch.Apply):
		case have == nil:
			change.Kind = connector.ChangeKindCreate
		case !bytes.Equal(have.manifest, r.Manifest):
			change.Kind = connector.ChangeKindUpdate
			change.SetFields(contentOf(have.manifest), contentOf(r.Manifest))
		}
	}
	return out, nil
}

// contentOf decodes a manifest. It returns nil for a broken manifest, which this cluster accepts.
func contentOf(manifest []byte) (content map[string]any) {
	if text, err := yamldoc.JSON(manifest); err != nil || json.Unmarshal(text, &content) != nil {
		return nil
	}
	return content
}
