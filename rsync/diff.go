// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
)

const (
	// diffClusters is the number of clusters that one Diff calls at a time. diffObjects is the
	// maximum number of objects in one call of a connector.
	diffClusters = 32
	diffObjects  = 100
	// maxDiffFields bounds the fields of a Diff, in bytes. Each app on a cluster has an equal
	// share.
	maxDiffFields = 32 << 20
)

// Diff has the changes that an event would make on the clusters.
type Diff struct {
	AppContextID string    `json:"appContextID"`
	Event        EventType `json:"event"`
	// From is the context that an Update is from.
	From string `json:"from,omitempty"`
	// Clusters are ordered by cluster, app and context.
	Clusters []ClusterDiff `json:"clusters"`
}

// ClusterDiff has the changes that an event would make to one app on one cluster.
type ClusterDiff struct {
	Cluster appcontext.ClusterID `json:"cluster"`
	App     string               `json:"app"`
	// AppContextID is the context of the app. The Diff of an Update also has entries of the contexts
	// that it replaces, with the objects that it deletes there.
	AppContextID string `json:"appContextID"`
	// Reason is empty if the cluster answered. Otherwise it is ReasonUnreachable,
	// ReasonRefusedForNow or ReasonRefused, the changes are unknown, and Message has the cause. A
	// connector that is no [connector.Differ] has ReasonRefused.
	Reason  Reason `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Changes has the objects that the event applies or deletes, ordered by object. Objects that
	// the event does not change are included.
	Changes []connector.Change `json:"changes,omitempty"`
}

// Count returns the number of objects with a change of one of the kinds.
func (d *Diff) Count(of ...connector.ChangeKind) int {
	n := 0
	for i := range d.Clusters {
		for j := range d.Clusters[i].Changes {
			if slices.Contains(of, d.Clusters[i].Changes[j].Kind) {
				n++
			}
		}
	}
	return n
}

// Err returns nil if all clusters answered. Otherwise it returns an error with the names of the
// others, which wraps ErrUnreachable or ErrFailed.
func (d *Diff) Err() error {
	var errs []error
	for i := range d.Clusters {
		c := &d.Clusters[i]
		switch {
		case c.Reason == "":
		case len(errs) == maxNamed:
			return fmt.Errorf("%w; and more", errors.Join(errs...))
		default:
			errs = append(errs, fmt.Errorf("%s on %s: %w: %s", c.App, c.Cluster, c.Reason.sentinel(), c.Message))
		}
	}
	return errors.Join(errs...)
}

// Diff returns the changes that an event would make if it began now. It changes nothing on clusters
// or in the store. The event is Instantiate, Terminate or Update. For Update, id names the new
// context, and the argument from names the earlier one. For other events that argument is empty.
// Diff needs no Start.
//
// Connectors must implement [connector.Differ]. Diff calls 32 clusters at a time. A cluster that
// does not answer within Options.CallTimeout, or before ctx ends, has a Reason in the result and is
// no error: see [Diff.Err]. As in the event, objects that another context holds are not deleted. If
// the event both applies and deletes a hook, the result has one change for the hook, and its
// Message names the deletion. The fields of all changes have at most 32 MiB; further fields are
// only counted.
//
// It returns ErrNotFound, ErrInvalidInput, ErrInvalidState if the event cannot begin, and
// ErrBroken.
func (e *Engine) Diff(ctx context.Context, event EventType, id, from string) (*Diff, error) {
	parts, err := e.diffParts(ctx, event, id, from)
	if err != nil {
		return nil, err
	}
	clusters := map[appcontext.ClusterID][]*diffPart{}
	for _, p := range parts {
		clusters[p.Cluster] = append(clusters[p.Cluster], p)
	}
	budget := maxDiffFields / max(len(parts), 1)
	var all sync.WaitGroup
	var mu sync.Mutex
	turns := make(chan struct{}, diffClusters)
	out := &Diff{AppContextID: id, Event: event, From: from, Clusters: []ClusterDiff{}}
	for cluster, parts := range clusters {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			diffs := e.diffCluster(ctx, cluster, parts, budget)
			mu.Lock()
			defer mu.Unlock()
			out.Clusters = append(out.Clusters, diffs...)
		})
	}
	all.Wait()
	slices.SortFunc(out.Clusters, func(a, b ClusterDiff) int {
		return cmp.Or(cmp.Compare(a.Cluster.String(), b.Cluster.String()), cmp.Compare(a.App, b.App),
			cmp.Compare(a.AppContextID, b.AppContextID))
	})
	return out, nil
}

// diffCluster returns the changes on one cluster. After a failure it sends no further requests.
func (e *Engine) diffCluster(
	ctx context.Context, cluster appcontext.ClusterID, parts []*diffPart, budget int,
) []ClusterDiff {
	conn, failure := e.differ(ctx, cluster)
	if failure == nil {
		defer func() { _ = conn.Close() }()
	}
	out := make([]ClusterDiff, len(parts))
	for i, p := range parts {
		d := &out[i]
		d.Cluster, d.App, d.AppContextID = cluster, p.App, p.AppContextID
		if failure == nil {
			//nolint:forcetypeassert // differ has checked it
			d.Changes, failure = e.diffPart(ctx, conn.(connector.Differ), p, budget)
		}
		if failure != nil {
			d.Changes, d.Reason, d.Message = nil, diffReason(ctx, failure), shorten(failure)
		}
	}
	return out
}

func (e *Engine) differ(ctx context.Context, cluster appcontext.ClusterID) (conn connector.Connector, err error) {
	defer recovered(&err)
	ctx, cancel := context.WithTimeout(ctx, e.options.CallTimeout)
	defer cancel()
	if conn, err = e.connectors.Connector(ctx, cluster.Provider, cluster.Name); err != nil {
		return nil, err
	}
	if _, ok := conn.(connector.Differ); !ok {
		_ = conn.Close()
		return nil, terminal("its connector cannot compare: it does not implement connector.Differ")
	}
	return conn, nil
}

func diffReason(ctx context.Context, err error) Reason {
	switch {
	case ctx.Err() != nil, errors.Is(err, context.DeadlineExceeded), errors.Is(err, connector.ErrUnreachable):
		return ReasonUnreachable
	case errors.Is(err, connector.ErrTerminal):
		return ReasonRefused
	}
	return ReasonRefusedForNow
}

// diffPart returns the changes of one app, with at most diffObjects objects in each request.
func (e *Engine) diffPart(
	ctx context.Context, conn connector.Differ, p *diffPart, budget int,
) ([]connector.Change, error) {
	if err := e.share(ctx, p); err != nil {
		return nil, storeTrouble(err)
	}
	out := slices.Clone(p.known)
	for apply, remove := p.Apply, p.Delete; len(apply)+len(remove) > 0; {
		batch := p.DiffBatch
		batch.Apply, apply = apply[:min(len(apply), diffObjects)], apply[min(len(apply), diffObjects):]
		room := min(diffObjects-len(batch.Apply), len(remove))
		batch.Delete, remove = remove[:room], remove[room:]
		changes, err := e.callDiff(ctx, conn, batch)
		if err != nil {
			return nil, err
		}
		for i := range changes {
			c := &changes[i]
			p.complete(c)
			for n := range c.Fields {
				f := &c.Fields[n]
				if budget -= len(f.Path) + len(f.Before) + len(f.After); budget < 0 {
					c.FieldsOmitted += len(c.Fields) - n
					c.Fields = slices.Clone(c.Fields[:n])
					break
				}
			}
		}
		out = append(out, changes...)
	}
	slices.SortStableFunc(out, func(a, b connector.Change) int { return a.Object.Compare(b.Object) })
	return out, nil
}

func joined(a, b string) string {
	if a != "" && b != "" {
		return a + "; " + b
	}
	return a + b
}

func (e *Engine) callDiff(
	ctx context.Context, conn connector.Differ, batch connector.DiffBatch,
) (changes []connector.Change, err error) {
	defer recovered(&err)
	limited, cancel := context.WithTimeout(ctx, e.options.CallTimeout)
	defer cancel()
	if changes, err = conn.Diff(limited, batch); err != nil {
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			err = unreachable("no answer within %s", e.options.CallTimeout)
		}
		return nil, err
	}
	asked := slices.Concat(batch.Apply, batch.Delete)
	same := func(c connector.Change, r appcontext.Resource) bool { return c.Object == r.Object }
	if !slices.EqualFunc(changes, asked, same) {
		return nil, terminal("its connector returned other changes (%d) than those of the %d objects", len(changes),
			len(asked))
	}
	return changes, nil
}
