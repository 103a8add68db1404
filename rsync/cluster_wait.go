// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/spokewire/sdk-go/rsync/connector"
)

// After its call has ended, an op may have to wait: until objects are ready or gone, or until its
// next attempt.

// contentLocked ends an op after a successful call, unless the op waits for a state of its objects.
func (c *cluster) contentLocked(o *op, states []connector.State, conn connector.Connector) {
	wanting, failed := unsatisfied(o.phase.verb, states)
	switch {
	case failed != nil:
		c.endLocked(o, result{reason: ReasonHookFailed, err: failed, states: states})
	case wanting == nil && o.heldLocked():
		c.endLocked(o, result{states: states})
	default:
		if o.cut == "" {
			c.ensureWatchLocked(conn)
		}
		if wanting == nil {
			wanting = fmt.Errorf("all objects are ready, and must stay ready for %s", o.phase.hold)
		} else {
			o.readySince = time.Time{}
		}
		c.pollLocked(o, wanting)
	}
}

// heldLocked reports whether the objects of an op, which are ready now, have stayed ready for the
// hold.
func (o *op) heldLocked() bool {
	now := o.cluster.options().Clock.Now()
	if o.readySince.IsZero() {
		o.readySince = now
	}
	return now.Sub(o.readySince) >= o.phase.hold
}

// pollLocked makes an op read the states again, at once if they have changed.
func (c *cluster) pollLocked(o *op, wanting error) {
	o.waits = wanting
	switch {
	case o.cut != "":
		c.endLocked(o, result{reason: o.cut, err: wanting})
	case o.again:
		o.again = false
		c.enqueueLocked(o)
	default:
		o.polls++
		if o.polls >= toldFrom && bits.OnesCount(uint(o.polls)) == 1 {
			o.reportWait(ReasonNotReady, wanting)
		}
		poll := c.options().PollInterval
		d := min(poll*time.Duration(max(o.polls/4, 1)), 10*poll)
		if !o.readySince.IsZero() {
			d = min(d, o.readySince.Add(o.phase.hold).Sub(c.options().Clock.Now()))
		}
		c.delayLocked(o, d)
	}
}

var errCut = errors.New("it had to end before it was done")

// toldFrom is the number of polls before an op reports that its objects are not ready or gone. The
// next reports follow after 2, 4 and 8 times as many, which limits writes for objects that take
// long.
const toldFrom = 4

// unsatisfied returns wanting for the first object that lacks the state that the verb waits for. It
// returns failed for an object that can never reach that state.
func unsatisfied(v verb, states []connector.State) (wanting, failed error) {
	for i := range states {
		s := &states[i]
		switch {
		case v == readyVerb && s.Failed:
			return nil, &connector.Error{Class: connector.ErrTerminal, Object: s.Object,
				Err: errors.New("it has failed: " + s.Message)}
		case wanting != nil:
		case v == readyVerb && !s.Exists:
			wanting = wantingError(s, "is not there yet")
		case v == readyVerb && !s.Ready:
			wanting = wantingError(s, "is not ready yet")
		case v == goneVerb && s.Exists:
			wanting = wantingError(s, "is not gone yet")
		}
	}
	return wanting, nil
}

func wantingError(s *connector.State, what string) error {
	if s.Message != "" {
		what += ": " + s.Message
	}
	return fmt.Errorf("%s %s", s.Object, what)
}

// retryLocked makes an op wait for its next attempt, if it has one left.
func (c *cluster) retryLocked(o *op, reason Reason, err error) {
	o.attempts++
	o.waits, o.readySince = err, time.Time{}
	limit := c.options().MaxRetries
	switch {
	case o.cut != "":
		c.endLocked(o, result{reason: o.cut, err: err})
	case limit > 0 && o.attempts > limit && o.task.remnant == nil:
		c.endLocked(o, result{reason: reason, err: err})
	case reason == ReasonUnreachable || o.task.remnant != nil:
		o.reportWait(reason, err)
		c.parkLocked(o)
	default:
		o.reportWait(ReasonRefusedForNow, err)
		c.delayLocked(o, c.options().Backoff.delay(o.attempts))
	}
}

func (c *cluster) delayLocked(o *op, d time.Duration) {
	o.state = opDelayed
	c.delayed[o] = struct{}{}
	o.timer = c.options().Clock.AfterFunc(d, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.wakeLocked(o)
	})
}

func (c *cluster) wakeLocked(o *op) {
	if _, ok := c.delayed[o]; !ok {
		return
	}
	delete(c.delayed, o)
	o.timer.Stop()
	if c.down {
		c.parkLocked(o)
		return
	}
	c.enqueueLocked(o)
}
