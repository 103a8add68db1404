// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"time"

	"k8s.io/utils/clock"
)

const (
	// maxNotes limits the wait reasons of an app on a cluster that an event writes immediately.
	// After that it writes the latest reason once per noteInterval.
	maxNotes     = 16
	noteInterval = time.Minute
)

// notes limits how often the wait reason of a task is written.
type notes struct {
	count int
	last  time.Time // when the last one was due to be written
	late  bool      // the task has a reason that is not written yet
}

// wait returns how long the next note must wait.
func (n *notes) wait(now time.Time) time.Duration {
	if n.count < maxNotes {
		return 0
	}
	return max(n.last.Add(noteInterval).Sub(now), 0)
}

// note records the wait reason of a task when it changes.
func (r *run) note(t *task, reason Reason, message string) {
	again := reason != ReasonRefusedForNow && message != t.message // the other reasons are rare
	if reason == t.reason && !again {
		return
	}
	t.reason, t.message = reason, message
	now := r.engine.options.Clock.Now()
	if wait := t.notes.wait(now); wait > 0 {
		r.noteLater(t, wait)
		return
	}
	t.dirty = true
	t.notes.count++
	t.notes.last, t.notes.late = now, false
}

// lateNotes has the tasks of an event with delayed notes. One timer wakes the run for all of them.
type lateNotes struct {
	tasks []*task
	due   time.Time // of the timer
	timer clock.Timer
}

func (r *run) noteLater(t *task, wait time.Duration) {
	if t.notes.late {
		return
	}
	t.notes.late = true
	late := &r.work.late
	late.tasks = append(late.tasks, t)
	if late.timer == nil {
		r.wakeLate(wait)
	}
}

func (r *run) wakeLate(after time.Duration) {
	late := &r.work.late
	late.due = r.engine.options.Clock.Now().Add(after)
	late.timer = r.session.addAfter(r.id, after)
}

func (r *run) noteNow() {
	late, now := &r.work.late, r.engine.options.Clock.Now()
	if len(late.tasks) == 0 || now.Before(late.due) {
		return
	}
	late.stop()
	tasks := late.tasks
	late.tasks = nil
	next := noteInterval
	for _, t := range tasks {
		wait := t.notes.wait(now)
		switch {
		case t.end != "": // the end was written
		case wait > 0:
			late.tasks, next = append(late.tasks, t), min(next, wait)
		default:
			t.dirty = true
			t.notes.last, t.notes.late = now, false
			r.work.enqueue(t)
		}
	}
	if len(late.tasks) > 0 {
		r.wakeLate(next)
	}
}

func (l *lateNotes) stop() {
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
}
