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
	"time"

	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
)

// op is a call to a cluster for a task, until it is done or failed for good.
type op struct {
	run   *run
	task  *task
	phase phase

	cluster *cluster

	// The rest is the cluster's, under its mutex.
	state    opState
	attempts int    // calls that failed, and probes while it waited
	polls    int    // times that it asked and was not content
	again    bool   // the state of objects changed while it asked
	cut      Reason // set: it may not wait any more
	lost     bool   // its call was cancelled, because the cluster does not answer
	late     bool   // its call was cancelled, because it made no progress
	timer    clock.Timer
	cancel   context.CancelFunc

	hurried    time.Time    // when it last asked to go on with a cleanup
	waits      error        // what it waited for last
	readySince time.Time    // when all objects were first seen ready, with no break since
	accepted   map[int]bool // indexes of the resources that the cluster has applied or deleted
	progressed time.Time    // when the running call began, or last reported progress
}

type opState int

const (
	opQueued  opState = iota // waits for its turn
	opRunning                // the call is under way
	opParked                 // waits until the cluster answers again
	opDelayed                // waits before it is tried or asks again
	opEnded
)

// result is what a cluster tells a run of an op.
type result struct {
	op       *op
	retrying bool   // it goes on; the rest says what is wrong
	reason   Reason // empty: it is done
	err      error
	states   []connector.State
}

// cluster has the calls to one cluster. Those who wait for it are in lists here, and have no goroutine.
type cluster struct {
	id      appcontext.ClusterID
	session *session

	mu       sync.Mutex
	dead     bool // forgotten by the session
	queue    []*op
	running  map[*op]struct{}
	parked   []*op
	cleanups cleanupQueue
	delayed  map[*op]struct{}
	down     bool
	why      error // it is down, or was
	reported error // the last reason that was reported to waiting ops
	failed   int   // probes since it is down
	probing  bool
	probes   int       // under way
	probed   time.Time // when the last probe began
	asked    time.Time // when the prober's first one did, or zero
	unwatch  context.CancelFunc
	users    int // of the connector: calls, the prober, the watch
	idle     clock.Timer

	answeredAt time.Time // when a call last made progress or ended with an answer

	connMu sync.Mutex
	conn   connector.Connector
}

// submit hands an op to its cluster.
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
	case c.down && o.cut != "":
		c.end(o, result{reason: o.cut, err: c.why})
		return true
	case c.down:
		o.run.deliver(result{op: o, retrying: true, reason: ReasonUnreachable, err: c.why})
		c.park(o)
		return true
	}
	c.enqueue(o)
	return true
}

func (c *cluster) enqueue(o *op) {
	o.state = opQueued
	c.queue = append(c.queue, o)
	c.dispatch()
}

func (c *cluster) park(o *op) {
	if o.task.remnant != nil {
		c.parkCleanup(o)
		return
	}
	o.state = opParked
	c.parked = append(c.parked, o)
	c.ensureProbe()
}

// dispatch begins calls, as many as may be under way. Like all methods without a lock of their own
// it is called with c.mu held.
func (c *cluster) dispatch() {
	for !c.down && len(c.queue) > 0 && len(c.running) < c.session.engine.options.ClusterConcurrency {
		o := c.queue[0]
		c.queue = c.queue[1:]
		o.state, o.progressed = opRunning, c.session.engine.options.Clock.Now()
		c.running[o] = struct{}{}
		c.use(1)
		if !c.session.spawn(func() { c.call(o) }) {
			return
		}
	}
}

// call does the op once.
func (c *cluster) call(o *op) {
	options := &c.session.engine.options
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
	if err == nil { // from here on the time is the cluster's
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
		c.use(-1)
		return
	}
	c.session.engine.metrics.called(o.phase.verb, err)
	c.finish(o, states, err, conn)
}

// cutStalled cancels a call that may not wait any more, if neither it nor a probe was answered for
// Options.ProbeInterval.
func (c *cluster) cutStalled(o *op) {
	options := &c.session.engine.options
	silent := func(since time.Time) bool { return options.Clock.Since(since) >= options.ProbeInterval }
	if o.state == opRunning && o.cut != "" && o.cancel != nil && silent(o.progressed) && !c.asked.IsZero() && silent(c.asked) {
		o.late = true
		o.cancel()
	}
}

// giveUp cancels a call that makes no progress.
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

// applyMissing applies hooks of an app's end again that the op waits for and that do not exist. Another context that is
// deleted at the same time may have deleted a hook of the same name: contexts hold nothing while they are deleted.
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

// checkStates demands a state of each object: what a connector leaves out would pass for ready, or for gone.
func checkStates(resources []appcontext.Resource, states []connector.State) error {
	if len(states) != len(resources) {
		return &connector.Error{Class: connector.ErrTerminal, Err: fmt.Errorf("its connector tells %d states of %d objects", len(states), len(resources))}
	}
	for i := range states {
		if states[i].Object != resources[i].Object {
			return &connector.Error{Class: connector.ErrTerminal, Object: resources[i].Object, Err: errors.New("its connector tells the state of another object in its place")}
		}
	}
	return nil
}

// recovered makes an error of a connector's panic, so that it ends neither the work on other
// clusters nor the process. What it panicked with may be content of a manifest, and is in no error.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = &connector.Error{Class: connector.ErrTerminal, Err: fmt.Errorf("its connector panicked with a %T", p)}
	}
}

// finish takes the outcome of a call.
func (c *cluster) finish(o *op, states []connector.State, err error, conn connector.Connector) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, o)
	c.use(-1)
	defer c.dispatch()
	class := connector.ClassOf(err)
	switch { // the error of a cancelled call only says that the call was cancelled
	case err == nil:
	case o.lost:
		class, err = connector.ErrUnreachable, c.why
	case o.late:
		class = connector.ErrUnreachable
		silence := c.session.engine.options.Clock.Since(o.progressed).Truncate(time.Second)
		err = &connector.Error{Class: class, Err: fmt.Errorf("%s made no progress for %s", o.phase.verb, silence)}
	case errors.Is(err, context.DeadlineExceeded):
		class = connector.ErrUnreachable
	}
	cut := o.late && o.cut != ""
	o.lost, o.late = false, false
	if !errors.Is(class, connector.ErrUnreachable) {
		c.answeredAt = c.session.engine.options.Clock.Now()
	}
	switch {
	case err == nil:
		if o.task.remnant != nil {
			c.cleanups.probes = 0
		}
		c.content(o, states, conn)
	case errors.As(err, new(*releasingError)):
		c.poll(o, err)
	case cut: // the cluster may just be slow
		c.end(o, result{reason: o.cut, err: err})
	case o.task.remnant != nil && !errors.Is(class, connector.ErrUnreachable):
		c.retry(o, ReasonRefusedForNow, err)
	case errors.Is(class, connector.ErrTerminal):
		c.end(o, result{reason: ReasonRefused, err: err})
	case errors.Is(class, connector.ErrUnreachable):
		c.markDown(err)
		c.retry(o, ReasonUnreachable, err)
	default:
		c.retry(o, ReasonRetriesExhausted, err)
	}
}

func (c *cluster) end(o *op, r result) {
	o.state = opEnded
	r.op = o
	c.use(0) // a cleanup waits without a use
	c.unwatchIdle()
	o.run.deliver(r)
}

// cut ends the wait of an op, now or when its call is done. One that waits for its turn only is
// left alone, unless hard is set or the cluster does not answer.
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
		c.cutStalled(o)
		return
	case o.state == opEnded, o.state == opQueued && !hard && !c.down:
		return
	}
	c.remove(o)
	c.end(o, result{reason: reason, err: cmp.Or(o.waits, errCut)})
}

// forget takes an op out without a word.
func (c *cluster) forget(o *op) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(o)
	if o.state == opRunning && o.cancel != nil {
		o.cancel()
	}
	o.cut = ReasonStopped
	c.unwatchIdle()
}

func (c *cluster) remove(o *op) {
	same := func(p *op) bool { return p == o }
	c.queue = slices.DeleteFunc(c.queue, same)
	c.parked = slices.DeleteFunc(c.parked, same)
	c.cleanups.ops = slices.DeleteFunc(c.cleanups.ops, same)
	if _, ok := c.delayed[o]; ok {
		delete(c.delayed, o)
		o.timer.Stop()
	}
}
