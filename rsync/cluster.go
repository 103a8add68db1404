// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
)

// op is a call to a cluster for a task. It is repeated until it succeeds, or fails for good.
type op struct {
	run   *run
	task  *task
	phase phase

	cluster *cluster

	// The cluster's mutex guards the following fields.
	state    opState
	attempts int    // calls that failed, and probes while it waited
	polls    int    // times that it read states and had to wait longer
	again    bool   // the state of objects changed while the call was in progress
	cut      Reason // if set, the op may not wait any more
	lost     bool   // its call was cancelled: the cluster does not answer
	late     bool   // its call was cancelled: it made no progress, or the cluster was detached
	timer    clock.Timer
	cancel   context.CancelFunc

	hurried    time.Time    // when it last requested a probe for a cleanup
	waits      error        // the latest reason why it waits
	readySince time.Time    // since when all objects have been ready without a break
	accepted   map[int]bool // indexes of the resources that the cluster has applied or deleted
	progressed time.Time    // when the running call began, or last reported progress
}

type opState int

const (
	opQueued  opState = iota // waits for a free slot
	opRunning                // the call is in progress
	opParked                 // waits until the cluster answers again
	opDelayed                // waits before the next attempt or poll
	opEnded
)

// result is a message from a cluster to the run of an op.
type result struct {
	op       *op
	retrying bool   // the op continues; reason and err explain why it waits
	reason   Reason // empty if the op succeeded
	err      error
	states   []connector.State
}

// cluster has the calls to one cluster. Waiting ops are in its lists, and have no goroutine.
type cluster struct {
	id      appcontext.ClusterID
	session *session

	mu       sync.Mutex
	dead     bool // the session has removed it
	queue    []*op
	running  map[*op]struct{}
	parked   []*op
	cleanups cleanupQueue
	delayed  map[*op]struct{}
	down     bool
	why      error // the latest reason for down
	reported error // the last reason that was reported to waiting ops
	failed   int   // failed probes since the cluster went down
	probing  bool
	probes   int       // probes in progress
	probed   time.Time // when the last probe began
	asked    time.Time // when the current prober began its first probe, or zero
	unwatch  context.CancelFunc
	users    int // of the connector: calls, the prober, the watch
	idle     clock.Timer

	answeredAt time.Time // when a call last made progress or ended with an answer

	connMu sync.Mutex
	conn   connector.Connector
}

func (c *cluster) options() *Options { return &c.session.engine.options }

func (s *session) submit(o *op) {
	for s.ctx.Err() == nil {
		if s.cluster(o.task.cluster).submit(o) {
			return
		}
	}
}

func (c *cluster) submit(o *op) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return false
	}
	o.cluster = c
	switch {
	case !c.down:
		c.enqueueLocked(o)
	case o.cut != "":
		c.endLocked(o, result{reason: o.cut, err: c.why})
	default:
		o.reportWait(ReasonUnreachable, c.why)
		c.parkLocked(o)
	}
	return true
}

func (c *cluster) enqueueLocked(o *op) {
	o.state = opQueued
	c.queue = append(c.queue, o)
	c.dispatchLocked()
}

// reportWait reports to the run of an op why the op waits.
func (o *op) reportWait(reason Reason, err error) {
	o.run.deliver(result{op: o, retrying: true, reason: reason, err: err})
}

func (c *cluster) parkLocked(o *op) {
	if o.task.remnant != nil {
		c.parkCleanupLocked(o)
		return
	}
	o.state = opParked
	c.parked = append(c.parked, o)
	c.ensureProbeLocked()
}

// unparkLocked queues ops that have waited for the cluster.
func (c *cluster) unparkLocked(parked *[]*op) {
	for _, o := range *parked {
		o.state = opQueued
	}
	c.queue = append(c.queue, *parked...)
	*parked = nil
	c.dispatchLocked()
}

// dispatchLocked begins calls, up to Options.ClusterConcurrency at a time.
func (c *cluster) dispatchLocked() {
	for !c.down && len(c.queue) > 0 && len(c.running) < c.options().ClusterConcurrency {
		o := c.queue[0]
		c.queue = c.queue[1:]
		o.state, o.progressed = opRunning, c.options().Clock.Now()
		c.running[o] = struct{}{}
		c.useLocked(1)
		if !c.session.spawn(func() { c.call(o) }) {
			return
		}
	}
}

func (c *cluster) call(o *op) {
	options := c.options()
	ctx, cancel := context.WithCancel(c.session.ctx)
	defer cancel()
	c.mu.Lock()
	o.cancel = cancel
	if o.cut == ReasonDetached {
		o.late = true
		cancel()
	}
	c.mu.Unlock()
	var conn connector.Connector
	var states []connector.State
	err := o.share(ctx)
	if err == nil { // from here on the time limits apply to the cluster
		c.mu.Lock()
		o.progressed = options.Clock.Now()
		c.mu.Unlock()
		defer newStallTimer(o, options.ProbeInterval, func() { c.suspect(o) }).stop()
		defer newStallTimer(o, options.CallTimeout, func() { c.giveUp(o) }).stop()
		if conn, err = c.connector(ctx); err == nil {
			states, err = o.do(ctx, conn)
		}
	}
	if c.session.ctx.Err() != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.useLocked(-1)
		return
	}
	c.session.engine.metrics.called(o.phase.verb, err)
	c.finish(o, states, err, conn)
}

// cutStalledLocked cancels a call that may not wait any more, if for Options.ProbeInterval the call
// made no progress and no probe was answered.
func (c *cluster) cutStalledLocked(o *op) {
	silent := func(since time.Time) bool { return c.options().Clock.Since(since) >= c.options().ProbeInterval }
	if o.state == opRunning && o.cut != "" && o.cancel != nil && silent(o.progressed) && !c.asked.IsZero() &&
		silent(c.asked) {
		o.late = true
		o.cancel()
	}
}

func (c *cluster) giveUp(o *op) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o.state == opRunning && o.cancel != nil {
		o.late = true
		o.cancel()
	}
}

// do makes the call, for the resources that earlier calls of the op have not handled.
func (o *op) do(ctx context.Context, conn connector.Connector) (states []connector.State, err error) {
	defer recovered(&err)
	if err := o.leaveHooks(ctx, conn); err != nil {
		return nil, err
	}
	all, positions := o.remaining()
	resources, indexes, left := o.task.split(o.phase.verb, all, positions)
	if o.phase.verb == deleteVerb && len(left) > 0 {
		if err := o.handOver(ctx, conn, all, positions); err != nil {
			return nil, err
		}
		resources, indexes, _ = o.task.split(o.phase.verb, all, positions)
	}
	if len(resources) == 0 {
		return nil, nil
	}
	batch := connector.Batch{
		AppContextID: o.task.remnant.contextID(o.run.id), App: o.task.app, Cluster: o.cluster.id, Resources: resources,
		Progress: func(index int) {
			if index >= 0 && index < len(indexes) {
				o.progress(indexes[index])
			}
		},
	}
	switch o.phase.verb {
	case applyVerb:
		batch.Holder = o.holder
		return nil, conn.Apply(ctx, batch)
	case deleteVerb:
		return nil, o.deleteOwn(ctx, conn, batch)
	}
	if states, err = conn.Get(ctx, batch); err == nil {
		err = checkStates(batch.Resources, states)
	}
	if err == nil {
		err = o.applyMissing(ctx, conn, batch, states)
	}
	return states, err
}

// applyMissing applies missing pre-delete and post-delete hooks again while the op waits for them.
// Another context that is deleted at the same time may have deleted a hook of the same name:
// contexts hold nothing while they are deleted.
func (o *op) applyMissing(
	ctx context.Context, conn connector.Connector, batch connector.Batch, states []connector.State,
) error {
	if o.phase.verb != readyVerb || !o.task.event.removes() || o.polls < toldFrom {
		return nil
	}
	var missing []appcontext.Resource
	for i := range states {
		if !states[i].Exists {
			missing = append(missing, batch.Resources[i])
		}
	}
	if len(missing) == 0 {
		return nil
	}
	batch.Resources, batch.Progress, batch.Holder = missing, nil, o.holder
	return conn.Apply(ctx, batch)
}

// checkStates requires a state for each object: a missing one would count as ready or gone.
func checkStates(resources []appcontext.Resource, states []connector.State) error {
	if len(states) != len(resources) {
		return terminal("its connector returned %d states for %d objects", len(states), len(resources))
	}
	for i := range states {
		if states[i].Object != resources[i].Object {
			return &connector.Error{Class: connector.ErrTerminal, Object: resources[i].Object,
				Err: errors.New("its connector returned the state of another object instead")}
		}
	}
	return nil
}

// recovered converts a panic of a connector to an error. The error omits the panic value, which may
// be content of a manifest.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = terminal("its connector panicked with a %T", p)
	}
}

// guard calls a connector, and converts a panic to an error.
func guard(call func() error) (err error) {
	defer recovered(&err)
	return call()
}

func (c *cluster) finish(o *op, states []connector.State, err error, conn connector.Connector) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, o)
	c.useLocked(-1)
	defer c.dispatchLocked()
	class := connector.ClassOf(err)
	switch { // the error of a cancelled call does not show why it was cancelled
	case err == nil:
	case o.lost:
		class, err = connector.ErrUnreachable, c.why
	case o.late:
		class = connector.ErrUnreachable
		silence := c.options().Clock.Since(o.progressed).Truncate(time.Second)
		err = unreachable("%s made no progress for %s", o.phase.verb, silence)
	case errors.Is(err, context.DeadlineExceeded):
		class = connector.ErrUnreachable
	}
	cut := o.late && o.cut != ""
	o.lost, o.late = false, false
	if !errors.Is(class, connector.ErrUnreachable) {
		c.answeredAt = c.options().Clock.Now()
	}
	switch {
	case err == nil:
		if o.task.remnant != nil {
			c.cleanups.probes = 0
		}
		c.contentLocked(o, states, conn)
	case errors.As(err, new(*releasingError)):
		c.pollLocked(o, err)
	case cut: // the cluster may just be slow
		c.endLocked(o, result{reason: o.cut, err: err})
	case o.task.remnant != nil && !errors.Is(class, connector.ErrUnreachable):
		c.retryLocked(o, ReasonRefusedForNow, err)
	case errors.Is(class, connector.ErrTerminal):
		c.endLocked(o, result{reason: ReasonRefused, err: err})
	case errors.Is(class, connector.ErrUnreachable):
		c.markDownLocked(err)
		c.retryLocked(o, ReasonUnreachable, err)
	default:
		c.retryLocked(o, ReasonRetriesExhausted, err)
	}
}

func (c *cluster) endLocked(o *op, r result) {
	o.state = opEnded
	r.op = o
	c.useLocked(0) // parked cleanups do not count as users, so the idle timer may start
	c.unwatchIdleLocked()
	o.run.deliver(r)
}

// cut ends the wait of an op, now or when its call returns. A queued op stays, unless hard is set
// or the cluster does not answer.
func (c *cluster) cut(o *op, reason Reason, hard bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o.cut = reason
	switch {
	case o.state == opRunning:
		if c.down && o.cancel != nil {
			o.lost = true
			o.cancel()
		}
		c.cutStalledLocked(o)
		return
	case o.state == opEnded, o.state == opQueued && !hard && !c.down:
		return
	}
	c.removeLocked(o)
	c.endLocked(o, result{reason: reason, err: cmp.Or(o.waits, errCut)})
}

func (c *cluster) forget(o *op) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removeLocked(o)
	if o.state == opRunning && o.cancel != nil {
		o.cancel()
	}
	o.cut = ReasonStopped
	c.unwatchIdleLocked()
}

func (c *cluster) removeLocked(o *op) {
	same := func(p *op) bool { return p == o }
	c.queue = slices.DeleteFunc(c.queue, same)
	c.parked = slices.DeleteFunc(c.parked, same)
	c.cleanups.ops = slices.DeleteFunc(c.cleanups.ops, same)
	if _, ok := c.delayed[o]; ok {
		delete(c.delayed, o)
		o.timer.Stop()
	}
}
