// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// remaining returns the resources that the cluster has not accepted yet, and their indexes in the
// phase. A retried op continues with them.
func (o *op) remaining() (resources []appcontext.Resource, indexes []int) {
	o.cluster.mu.Lock()
	defer o.cluster.mu.Unlock()
	for i := range o.phase.resources {
		if !o.accepted[i] {
			resources, indexes = append(resources, o.phase.resources[i]), append(indexes, i)
		}
	}
	return resources, indexes
}

// handedOver is the index of a resource that does not belong to the phase.
const handedOver = -1

// progress records that the cluster has handled a resource of the phase, so it answers.
func (o *op) progress(index int) {
	c := o.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	o.progressed = c.options().Clock.Now()
	c.answeredAt = o.progressed
	if index != handedOver && (o.phase.verb == applyVerb || o.phase.verb == deleteVerb) {
		if o.accepted == nil {
			o.accepted = map[int]bool{}
		}
		o.accepted[index] = true
		o.attempts = 0
	}
}

func (o *op) stalled() time.Duration {
	o.cluster.mu.Lock()
	defer o.cluster.mu.Unlock()
	return o.cluster.options().Clock.Since(o.progressed)
}

// stallTimer calls a function whenever an op has made no progress for a limit, until it is stopped.
type stallTimer struct {
	op    *op
	limit time.Duration
	call  func()

	mu      sync.Mutex
	timer   clock.Timer
	stopped bool
}

func newStallTimer(o *op, limit time.Duration, call func()) *stallTimer {
	t := &stallTimer{op: o, limit: limit, call: call}
	t.start(limit)
	return t
}

func (t *stallTimer) start(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.stopped {
		t.timer = t.op.cluster.options().Clock.AfterFunc(d, t.check)
	}
}

func (t *stallTimer) check() {
	left := t.limit - t.op.stalled()
	if left <= 0 {
		t.call()
		left = t.limit
	}
	t.start(left)
}

func (t *stallTimer) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	t.timer.Stop()
}
