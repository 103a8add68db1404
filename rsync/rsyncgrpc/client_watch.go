// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc

import (
	"context"
	"errors"
	"io"
	"iter"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc/rsyncv1"
)

// Watch returns the changes of a context: see [rsync.Engine.Watch]. It does not read ahead: for a
// slow reader the server ends the stream, and the client resumes it.
func (c *Client) Watch(ctx context.Context, id string, fromRevision int64) iter.Seq2[rsync.Change, error] {
	return func(yield func(rsync.Change, error) bool) {
		if err := checkText("the ID", id); err != nil {
			yield(rsync.Change{}, err)
			return
		}
		p := position{next: fromRevision}
		var o outage
		for ctx.Err() == nil {
			progress, more, err := c.watchOnce(ctx, id, &p, yield)
			if !more || ctx.Err() != nil {
				return
			}
			if !c.temporary(ctx, err) {
				yield(rsync.Change{}, fromStatus(err))
				return
			}
			if progress {
				o = outage{}
			}
			if progress && reasonOf(err) == "SLOW" {
				continue
			}
			if !c.pause(ctx, &o, forever, err) {
				return
			}
		}
	}
}

// watchOnce yields the changes of one stream. It returns whether there were any, and whether more
// may follow. Then err is the reason why the stream ended.
func (c *Client) watchOnce(
	ctx context.Context, id string, p *position, yield func(rsync.Change, error) bool,
) (progress, more bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the stream
	engine, release, err := c.waits.take()
	if err != nil {
		return false, true, err
	}
	defer release()
	stream, err := engine.Watch(ctx, &rsyncv1.WatchRequest{Id: id, FromRevision: p.next})
	if err != nil {
		return false, true, err
	}
	for {
		response, err := stream.Recv()
		if err != nil {
			return progress, !errors.Is(err, io.EOF), err
		}
		initial := p.next == 0
		if initial {
			p.next, progress = snapshotEnd(response), true
		}
		for _, m := range response.GetChanges() {
			change := changeOf(m)
			if !initial && !p.advance(&change) {
				continue
			}
			progress = true
			if !yield(change, nil) || change.Deleted {
				return true, false, nil
			}
		}
	}
}

// snapshotEnd returns the revision from which a watch continues after its snapshot.
func snapshotEnd(m *rsyncv1.WatchResponse) int64 {
	var last int64
	for _, change := range m.GetChanges() {
		last = max(last, change.GetRevision())
	}
	return last + 1
}

// position is the progress of a watch. After a stream has ended between two changes of one
// revision, the watch requests the revision again, and omits the subjects that it has seen. No
// subject changes twice in one revision.
type position struct {
	next     int64 // the revision to watch from; 0 before the snapshot
	revision int64 // of the last change
	seen     map[subject]bool
}

type subject struct {
	seq               uint64
	app               string
	cluster           appcontext.ClusterID
	rollout           uint64
	observed, deleted bool // observed: an observation, not a status
}

func subjectOf(c *rsync.Change) subject {
	switch {
	case c.Element != nil:
		return subject{seq: c.Element.Seq}
	case c.Cluster != nil:
		return subject{app: c.Cluster.App, cluster: c.Cluster.Cluster}
	case c.Observed != nil:
		return subject{app: c.Observed.App, cluster: c.Observed.Cluster, observed: true}
	}
	return subject{rollout: c.Rollout, deleted: c.Deleted}
}

// advance reports whether a change is new, and records it.
func (p *position) advance(c *rsync.Change) bool {
	switch {
	case c.Revision < p.revision:
		return false
	case c.Revision > p.revision || p.seen == nil:
		p.revision, p.next, p.seen = c.Revision, c.Revision, map[subject]bool{}
	}
	s := subjectOf(c)
	if p.seen[s] {
		return false
	}
	p.seen[s] = true
	return true
}
