// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc

import (
	"context"
	"iter"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc/rsyncv1"
)

// objectDiffBytes limits the fields of an object. Connectors of the SDK return at most 16 KiB.
const objectDiffBytes = 32 << 10

func (s *service) Diff(r *rsyncv1.DiffRequest, stream grpc.ServerStreamingServer[rsyncv1.DiffResponse]) error {
	ctx := stream.Context()
	return s.call(ctx, "Diff", func() error {
		ids := []string{r.GetId()}
		if r.GetFromId() != "" {
			ids = append(ids, r.GetFromId())
		}
		if err := s.authorize(ctx, VerbRead, ids...); err != nil {
			return err
		}
		ctx, cancel := s.during(ctx)
		defer cancel()
		end, err := s.longTurn(ctx)
		if err != nil {
			return err
		}
		defer end()
		d, err := s.engine.Diff(ctx, rsync.EventType(r.GetEvent()), r.GetId(), r.GetFromId())
		if err := ended(ctx, err); err != nil {
			return err
		}
		messages := each(pages(clusterDiffParts(d.Clusters)), func(page []*rsyncv1.ClusterDiff) *rsyncv1.DiffResponse {
			return &rsyncv1.DiffResponse{Clusters: page}
		})
		return deliver(ctx, s, messages, stream.Send)
	})
}

func clusterDiffParts(all []rsync.ClusterDiff) iter.Seq[*rsyncv1.ClusterDiff] {
	objects := func(d *rsync.ClusterDiff) iter.Seq[[]*rsyncv1.ObjectDiff] {
		return pagesOf(d.Changes, objectDiffMessage)
	}
	return partsOf(all, objects,
		func(d *rsync.ClusterDiff, objects []*rsyncv1.ObjectDiff, continued bool) *rsyncv1.ClusterDiff {
			if continued {
				return &rsyncv1.ClusterDiff{Continued: true, Objects: objects}
			}
			return &rsyncv1.ClusterDiff{
				Cluster: clusterMessage(&d.Cluster), App: d.App, AppContextId: d.AppContextID,
				Reason: string(d.Reason), Message: valid(d.Message), Objects: objects,
			}
		})
}

// objectDiffMessage omits fields beyond objectDiffBytes.
func objectDiffMessage(c *connector.Change) *rsyncv1.ObjectDiff {
	out := &rsyncv1.ObjectDiff{Object: objectMessage(&c.Object), Change: string(c.Kind),
		FieldsOmitted: int64(c.FieldsOmitted), Message: valid(c.Message)}
	size := 0
	for i := range c.Fields {
		f := &rsyncv1.FieldDiff{Path: valid(c.Fields[i].Path), Before: valid(c.Fields[i].Before),
			After: valid(c.Fields[i].After)}
		if size += proto.Size(f); size > objectDiffBytes {
			out.FieldsOmitted += int64(len(c.Fields) - i)
			break
		}
		out.Fields = append(out.Fields, f)
	}
	return out
}

// valid replaces bytes that a message cannot contain, and that other connectors may return.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// Diff returns the changes that an event would make: see [rsync.Engine.Diff]. The result has at
// most 32 KiB of fields for an object, and a count of the other fields.
func (c *Client) Diff(ctx context.Context, event rsync.EventType, id, from string) (*rsync.Diff, error) {
	if err := checkText("the event or ID", string(event), id, from); err != nil {
		return nil, err
	}
	var out *rsync.Diff
	_, err := c.retry(ctx, c.options.RetryTimeout, func() error {
		out = &rsync.Diff{AppContextID: id, Event: event, From: from, Clusters: []rsync.ClusterDiff{}}
		engine, release, err := c.waits.take()
		if err != nil {
			return err
		}
		defer release()
		stream, err := engine.Diff(ctx, &rsyncv1.DiffRequest{Event: string(event), Id: id, FromId: from})
		if err != nil {
			return err
		}
		return receive(stream.Recv,
			func(m *rsyncv1.DiffResponse) { out.Clusters = withClusterDiffs(out.Clusters, m.GetClusters()) })
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func withClusterDiffs(all []rsync.ClusterDiff, parts []*rsyncv1.ClusterDiff) []rsync.ClusterDiff {
	for _, m := range parts {
		if !m.GetContinued() || len(all) == 0 {
			all = append(all, rsync.ClusterDiff{
				Cluster: clusterOf(m.GetCluster()), App: m.GetApp(), AppContextID: m.GetAppContextId(),
				Reason: rsync.Reason(m.GetReason()), Message: m.GetMessage(),
			})
		}
		d := &all[len(all)-1]
		d.Changes = append(d.Changes, valuesOf(m.GetObjects(), changeOfObject)...)
	}
	return all
}

func changeOfObject(m *rsyncv1.ObjectDiff) connector.Change {
	return connector.Change{
		Object: objectOf(m.GetObject()), Kind: connector.ChangeKind(m.GetChange()),
		FieldsOmitted: int(m.GetFieldsOmitted()), Message: m.GetMessage(),
		Fields: valuesOf(m.GetFields(), func(f *rsyncv1.FieldDiff) connector.FieldChange {
			return connector.FieldChange{Path: f.GetPath(), Before: f.GetBefore(), After: f.GetAfter()}
		}),
	}
}
