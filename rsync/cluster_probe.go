// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
)

// markDownLocked notes that the cluster does not answer, with the error as the reason. No calls are
// made until a probe succeeds.
func (c *cluster) markDownLocked(err error) {
	if c.why = err; !errors.Is(err, connector.ErrUnreachable) {
		c.why = fmt.Errorf("%w: %w", connector.ErrUnreachable, err)
	}
	if !c.down {
		c.down, c.failed, c.reported = true, 0, c.why
		c.session.engine.metrics.down(1)
		klog.FromContext(c.session.ctx).Info("Lost contact with a cluster, probing it until it answers", "cluster",
			c.id.String())
	}
	for _, o := range c.queue {
		o.reportWait(ReasonUnreachable, c.why)
		c.parkLocked(o)
	}
	c.queue = nil
}

func (c *cluster) markUpLocked() {
	if !c.down {
		return
	}
	c.down = false
	c.session.engine.metrics.down(-1)
	c.session.observer.changed(c.id)
	c.unparkLocked(&c.parked)
}

// suspect starts probes after a call made no progress: the cluster may not answer.
func (c *cluster) suspect(o *op) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ensureProbeLocked()
	c.cutStalledLocked(o)
}

func (c *cluster) ensureProbeLocked() {
	if c.probing || c.dead {
		return
	}
	c.probing = true
	c.useLocked(1)
	if !c.session.spawn(c.probe) {
		c.probing = false
	}
}

// maxProbes is the maximum number of concurrent probes of a cluster.
const maxProbes = 10

// probe probes the cluster until it answers or no op waits for it. Probes start
// Options.ProbeInterval apart, also across two probers. A probe does not wait for the end of the
// previous one.
func (c *cluster) probe() {
	options := c.options()
	ctx, cancel := context.WithCancel(c.session.ctx)
	defer cancel() // the first answer ends all probes
	for {
		c.mu.Lock()
		pause := options.ProbeInterval - options.Clock.Since(c.probed)
		if c.probed.IsZero() {
			pause = 0
			if c.down { // spreads the probes of clusters that went down together
				pause = rand.N(options.ProbeInterval)
			}
		}
		c.mu.Unlock()
		c.session.engine.sleep(ctx, max(pause, 0))
		c.mu.Lock()
		switch {
		case ctx.Err() != nil && c.session.ctx.Err() == nil: // answered
			c.mu.Unlock()
			return
		case c.session.ctx.Err() != nil || !c.awaitedLocked():
			c.endProbeLocked()
			c.markUpLocked() // no op waits, and the next call detects an outage itself
			c.mu.Unlock()
			return
		}
		c.probed = options.Clock.Now()
		if c.asked.IsZero() {
			c.asked = c.probed
		}
		if c.probes < maxProbes {
			c.probes++
			c.useLocked(1)
			c.session.spawn(func() { c.probeOnce(ctx, cancel) })
		}
		c.mu.Unlock()
	}
}

func (c *cluster) probeOnce(ctx context.Context, cancel context.CancelFunc) {
	began := c.options().Clock.Now()
	err := c.ask(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.probes--
	c.useLocked(-1)
	if ctx.Err() == nil && c.answeredLocked(err, began) {
		cancel()
		c.endProbeLocked()
	}
}

// progressingLocked reports whether a call began or made progress within Options.ProbeTimeout, so
// its answer may be on the way.
func (c *cluster) progressingLocked() bool {
	for o := range c.running {
		if c.options().Clock.Since(o.progressed) < c.options().ProbeTimeout {
			return true
		}
	}
	return false
}

func (c *cluster) awaitedLocked() bool {
	return len(c.parked) > 0 || len(c.running) > 0
}

func (c *cluster) endProbeLocked() {
	c.probing, c.asked = false, time.Time{}
	c.useLocked(-1)
}

func (c *cluster) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.options().ProbeTimeout)
	defer cancel()
	conn, err := c.connector(ctx)
	if err == nil {
		err = guard(func() error { return conn.Probe(ctx) })
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = unreachable("probe: no answer within %s", c.options().ProbeTimeout)
	}
	c.session.engine.metrics.called("probe", err)
	return err
}

// answeredLocked handles the result of a probe. It reports whether probing is over. A terminal
// error counts as an answer, because a cluster without a configuration does not recover by itself.
// The waiting ops then call the cluster, and fail with the cause. A failed probe is ignored while
// calls make progress.
func (c *cluster) answeredLocked(err error, began time.Time) bool {
	if err == nil || errors.Is(connector.ClassOf(err), connector.ErrTerminal) || c.answeredAt.After(began) {
		c.markUpLocked()
		c.unparkLocked(&c.cleanups.ops)
		return true
	}
	if !c.down && c.progressingLocked() {
		return false
	}
	c.markDownLocked(err)
	// Waiting ops receive a changed reason, at growing intervals.
	if c.failed++; bits.OnesCount(uint(c.failed)) == 1 && c.reported.Error() != c.why.Error() {
		c.reported = c.why
		for _, o := range c.parked {
			o.reportWait(ReasonUnreachable, c.why)
		}
	}
	for o := range c.running { // these calls hang
		if o.progressed.Before(began) && o.cancel != nil {
			o.lost = true
			o.cancel()
		}
	}
	if limit := c.options().MaxRetries; limit > 0 {
		for _, o := range slices.Clone(c.parked) {
			if o.attempts++; o.attempts > limit {
				c.removeLocked(o)
				c.endLocked(o, result{reason: ReasonUnreachable, err: err})
			}
		}
	}
	return false
}

// ensureWatchLocked starts a watch for ops that wait for a state, if the connector supports it.
func (c *cluster) ensureWatchLocked(conn connector.Connector) {
	watcher, ok := conn.(connector.StatusWatcher)
	if !ok || c.unwatch != nil || c.dead {
		return
	}
	ctx, cancel := context.WithCancel(c.session.ctx)
	c.unwatch = cancel
	c.useLocked(1)
	if !c.session.spawn(func() {
		defer cancel()
		err := guard(func() error { return watcher.WatchStatus(ctx, c.changed) })
		if err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).V(1).Info("Lost the watch on a cluster's objects, polling them", "cluster",
				c.id.String(), "reason", err.Error())
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if ctx.Err() == nil { // unwatchIdleLocked has not ended it, so no other watch runs
			c.unwatch = nil
		}
		c.useLocked(-1)
	}) {
		cancel()
	}
}

// changed wakes the ops that wait for a state. Ops that are reading states read them again
// afterwards, if they must still wait.
func (c *cluster) changed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session.observer.changed(c.id)
	for o := range c.running {
		o.again = o.phase.verb == readyVerb || o.phase.verb == goneVerb
	}
	for o := range c.delayed {
		if o.phase.verb == readyVerb || o.phase.verb == goneVerb {
			c.wakeLocked(o)
		}
	}
}

// unwatchIdleLocked ends the watch when no op waits for a state, and no context on the cluster is
// observed.
func (c *cluster) unwatchIdleLocked() {
	if c.unwatch != nil && len(c.delayed) == 0 && len(c.running) == 0 && len(c.queue) == 0 &&
		!c.session.observer.has(c.id) {
		c.unwatch()
		c.unwatch = nil // the next watch need not wait for the end of this one
	}
}

// cluster returns the cluster with an ID, and adds it if needed. The cluster may be dead already.
func (s *session) cluster(id appcontext.ClusterID) *cluster {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.clusters[id]
	if c == nil {
		c = &cluster{id: id, session: s, running: map[*op]struct{}{}, delayed: map[*op]struct{}{}}
		s.clusters[id] = c
	}
	return c
}

func (c *cluster) connector(ctx context.Context) (connector.Connector, error) {
	c.connMu.Lock()
	defer c.connMu.Unlock()
	if c.conn == nil {
		conn, err := open(ctx, c.session.engine.connectors, c.id)
		if err != nil {
			return nil, err
		}
		c.conn = conn
	}
	return c.conn, nil
}

func open(
	ctx context.Context, connectors connector.Connectors, id appcontext.ClusterID,
) (conn connector.Connector, err error) {
	defer recovered(&err)
	if conn, err = connectors.Connector(ctx, id.Provider, id.Name); err == nil && conn == nil {
		err = terminal("the connectors returned neither a connector nor an error")
	}
	return conn, err
}

// useLocked changes the number of users of the connector. After Options.ConnectorIdle without users
// the session retires the cluster.
func (c *cluster) useLocked(n int) {
	c.users += n
	if c.idle != nil {
		c.idle.Stop()
		c.idle = nil
	}
	if c.users == 0 && c.session.ctx.Err() == nil {
		c.idle = c.options().Clock.AfterFunc(c.options().ConnectorIdle, c.retire)
	}
}

func (c *cluster) retire() {
	c.session.mu.Lock()
	c.mu.Lock()
	busy := c.dead || c.session.ctx.Err() != nil || c.users > 0 || len(c.queue)+len(c.parked)+len(c.delayed) > 0
	// The session ends only after close has returned. While cleanups wait the cluster stays: the
	// next probe opens a connector again, which may have another configuration.
	if !busy && c.session.spawn(c.close) && len(c.cleanups.ops) == 0 {
		c.dead = true
		delete(c.session.clusters, c.id)
	}
	c.mu.Unlock()
	c.session.mu.Unlock()
}

func (c *cluster) close() {
	c.connMu.Lock()
	defer c.connMu.Unlock()
	c.mu.Lock()
	used := c.users > 0 && !c.dead
	c.mu.Unlock()
	if c.conn == nil || used {
		return
	}
	if err := guard(c.conn.Close); err != nil {
		klog.FromContext(c.session.ctx).Error(err, "Failed to close a connector", "cluster", c.id.String())
	}
	c.conn = nil
}

// closeClusters closes all clusters. It must be called after all goroutines of the session have
// ended.
func (s *session) closeClusters() {
	s.mu.Lock()
	all := s.clusters
	s.clusters = map[appcontext.ClusterID]*cluster{}
	s.mu.Unlock()
	for _, c := range all {
		c.mu.Lock()
		c.dead = true
		if c.idle != nil {
			c.idle.Stop()
		}
		for o := range c.delayed {
			o.timer.Stop()
		}
		c.cleanups.stopLocked()
		if c.down {
			s.engine.metrics.down(-1)
		}
		c.mu.Unlock()
		c.close()
	}
}
