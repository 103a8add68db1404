// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
)

func (o *observer) readCluster(c *observedCluster) {
	began := o.now()
	o.mu.Lock()
	ids := o.dueLocked(c)
	contexts := make([]*observedContext, len(ids))
	for i, id := range ids {
		contexts[i] = o.contexts[id]
	}
	o.mu.Unlock()
	o.observe(c.id, contexts)
	o.mu.Lock()
	defer o.mu.Unlock()
	c.busy = false
	c.earliest = o.now().Add(max(observePause, observeShare*o.now().Sub(began)))
	if o.clusters[c.id] == c {
		o.scheduleLocked(c)
	}
}

// observe reads contexts on a cluster with one connector, until a call fails.
func (o *observer) observe(id appcontext.ClusterID, contexts []*observedContext) {
	ctx := o.session.ctx
	c, failure := o.session.observed(id)
	var conn connector.Connector
	if failure == nil {
		defer c.endObserved()
		limited, cancel := context.WithTimeout(ctx, o.session.engine.options.CallTimeout)
		conn, failure = c.connector(limited)
		cancel()
	}
	for _, oc := range contexts {
		if ctx.Err() != nil {
			return
		}
		if oc == nil {
			continue
		}
		if err := o.observeContext(ctx, oc, id, conn, failure); err != nil && errors.Is(err, connector.ErrUnreachable) {
			failure = err
		}
	}
	if failure == nil && ctx.Err() == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if o.has(id) {
			c.ensureWatchLocked(conn)
		}
	}
}

// observed returns a cluster for use by an observer, or an error if the cluster does not answer.
func (s *session) observed(id appcontext.ClusterID) (*cluster, error) {
	for {
		c := s.cluster(id)
		if used, err := c.useObserved(); used || err != nil {
			return c, err
		}
	}
}

// useObserved adds a user of the connector. It returns false for a cluster that the session has
// dropped.
func (c *cluster) useObserved() (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.down:
		return false, c.why
	case c.dead:
		return false, nil
	}
	c.useLocked(1)
	return true, nil
}

func (c *cluster) endObserved() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.useLocked(-1)
}

// observeContext stores changed observations of a context on a cluster. It returns an error of the
// cluster.
func (o *observer) observeContext(
	ctx context.Context, c *observedContext, id appcontext.ClusterID, conn connector.Connector, failure error,
) error {
	c.mu.Lock()
	v, h := c.view, c.head
	if v == nil {
		c.dirty[id] = true // the next load schedules another read
	}
	c.mu.Unlock()
	if v == nil || v.detached.has(id) {
		return nil
	}
	for _, app := range h.appsOn(id) {
		seen, err := o.read(ctx, h, v, app.Name, id, conn, failure)
		if ctx.Err() != nil {
			return nil
		}
		if seen == nil { // the store has failed
			o.again(c.id, id, o.now().Add(o.session.engine.options.Backoff.Max))
			return nil
		}
		failure = cmp.Or(failure, err)
		o.record(ctx, c, v, app.Name, id, seen)
	}
	return failure
}

// read reads an app on a cluster. It returns nil if reading the store failed, and the error of the
// cluster.
func (o *observer) read(
	ctx context.Context, h *head, v *view, app string, id appcontext.ClusterID, conn connector.Connector, failure error,
) (*observation, error) {
	e := o.session.engine
	seen := &observation{}
	if failure == nil {
		var err error
		n := neighbor{cluster: id, id: h.ID, generation: h.Generation, app: app}
		if seen.resources, err = e.resourcesOf(ctx, &n); err != nil {
			return nil, nil
		}
		failure = o.ask(ctx, conn, h.ID, app, id, seen)
	}
	if failure != nil {
		seen.reason, seen.message = diffReason(ctx, failure), shorten(failure)
		return seen, failure
	}
	return o.leaveToOthers(ctx, h.ID, v, id, seen), nil
}

// ask reads the states of an app's objects. With ObserveDrift, it also compares them with their
// manifests.
func (o *observer) ask(
	ctx context.Context, conn connector.Connector, id, app string, cluster appcontext.ClusterID, seen *observation,
) error {
	e := o.session.engine
	list := filter(seen.resources, isObserved)
	err := e.observeStates(ctx, conn, connector.Batch{
		AppContextID: id, App: app, Cluster: cluster, Resources: list, WatchFor: 3 * e.options.ObserveInterval,
	}, seen)
	e.metrics.called(readVerb, err)
	differ, ok := conn.(connector.Differ)
	if err != nil || !ok || e.options.Observe < ObserveDrift || len(list) == 0 {
		return err
	}
	part := &diffPart{event: Instantiate, DiffBatch: connector.DiffBatch{
		AppContextID: id, App: app, Cluster: cluster, Apply: list,
		Holder: func(ctx context.Context, object appcontext.Object) (string, error) {
			return e.otherHolder(ctx, id, nil, cluster, object)
		},
	}}
	changes, err := e.diffPart(ctx, differ, part, maxObservedFields)
	e.metrics.called("diff", err)
	seen.compared = err == nil
	for i := range changes {
		c := &changes[i]
		switch {
		case isDrift(c):
			seen.changes = append(seen.changes, *c)
		case c.Kind != connector.ChangeKindNone:
			seen.compared = false
			seen.message = cmp.Or(seen.message,
				shortenTo(fmt.Sprintf("%s cannot be compared: %s", c.Object, c.Message), maxObservedText))
		}
	}
	return err
}

// observeStates reads the states of objects. The time limit grows with the number of objects.
func (e *Engine) observeStates(
	ctx context.Context, conn connector.Connector, batch connector.Batch, seen *observation,
) (err error) {
	defer recovered(&err)
	ctx, cancel := context.WithTimeout(ctx, e.options.CallTimeout*time.Duration(1+len(batch.Resources)/diffObjects))
	defer cancel()
	if len(batch.Resources) == 0 {
		return nil
	}
	seen.states, err = conn.Get(ctx, batch)
	switch {
	case err == nil:
		err = checkStates(batch.Resources, seen.states)
	case errors.Is(err, context.DeadlineExceeded):
		err = unreachable("it did not answer in time")
	}
	return err
}

// leaveToOthers removes objects from the drift if the manifest of another context takes precedence.
// It returns nil if reading the store failed.
func (o *observer) leaveToOthers(
	ctx context.Context, id string, v *view, cluster appcontext.ClusterID, seen *observation,
) *observation {
	if len(seen.changes) == 0 {
		return seen
	}
	objects := map[appcontext.Object]bool{}
	for i := range seen.changes {
		objects[seen.changes[i].Object] = true
	}
	theirs, err := o.session.engine.overriding(ctx, id, &v.record, cluster, objects)
	if err != nil {
		return nil
	}
	own := seen.changes[:0]
	for i := range seen.changes {
		if _, ok := theirs[seen.changes[i].Object]; !ok {
			own = append(own, seen.changes[i])
		}
	}
	seen.changes = own
	return seen
}

// same reports whether two observations are equal except for their times.
func (o *observed) same(before *observed) bool {
	next := *o
	next.Time = before.Time
	return bytes.Equal(encode(&next), encode(before))
}
