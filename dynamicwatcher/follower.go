// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher

import (
	"context"
	"errors"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/spokewire/sdk-go/dynamicwatcher/internal/stream"
)

// follower keeps a stream on one object. It is a goroutine's; nothing that this waits for is waited for under the lock.
type follower struct {
	attempts
	object   *object
	cancel   context.CancelFunc
	refusals int
	refused  time.Time // when the first of them came
	synced   time.Time // when the stream has told what exists; the watcher's lock guards it
}

// attempts paces the streams that one goroutine begins.
type attempts struct {
	watcher *Watcher
	delay   wait.DelayFunc
	arrived time.Time // when the kind came
	asked   time.Time // when the stream was begun
	brief   bool      // the last stream ended soon after it was begun
}

const (
	// stable is how long a stream must have lasted for the next failure to be tried again at once.
	stable = 5 * time.Second
	// settling is for how long a kind has only just come. The server asks everybody to come again in a second meanwhile,
	// and is ready much sooner.
	settling = 2 * time.Second
	// maxSuggested bounds how long the server can make a watch wait.
	maxSuggested = time.Minute
)

// newBackoff returns the delays between attempts: 50 ms, growing to 30 s, each with jitter.
func newBackoff() wait.DelayFunc {
	return wait.Backoff{Duration: 50 * time.Millisecond, Factor: 1.8, Jitter: 0.5, Steps: 100, Cap: 20 * time.Second}.DelayFunc()
}

// pause waits before the next attempt: as long as the server asks for, or longer each time.
func (a *attempts) pause(ctx context.Context, err error) bool {
	if a.delay == nil {
		a.delay = newBackoff()
	}
	d := a.delay()
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok && a.watcher.options.Clock.Since(a.arrived) > settling {
		d = max(d, min(time.Duration(seconds)*time.Second, maxSuggested))
	}
	return a.watcher.sleep(ctx, d)
}

// over notes how a stream has ended that began at a time, and whether that was while it told what exists.
func (a *attempts) over(inBeginning bool, began time.Time) {
	if a.brief = inBeginning || a.watcher.options.Clock.Since(began) <= stable; !a.brief {
		a.delay = nil
	}
}

// sleep reports whether a time has passed: else ctx has ended.
func (w *Watcher) sleep(ctx context.Context, d time.Duration) bool {
	timer := w.options.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-ctx.Done():
		return false
	}
}

// launch begins to watch an object, unless it has a stream or waits for its group's. The lock is held.
func (w *Watcher) launch(o *object) {
	if w.ctx == nil || w.stopped || o.own != nil || o.group != nil && o.group.holds() {
		return
	}
	ctx, cancel := context.WithCancel(w.ctx)
	f := &follower{attempts: attempts{watcher: w}, object: o, cancel: cancel}
	o.own = f
	w.group.Go(func() {
		defer cancel()
		f.run(ctx)
	})
}

// quit ends the object's own stream. It does not wait. The lock is held.
func (o *object) quit() {
	if o.own != nil {
		o.own.cancel()
		o.own, o.live = nil, false
	}
}

// run keeps a stream on the object until ctx ends.
func (f *follower) run(ctx context.Context) {
	gvr := &ScopedGVR{}
	for ctx.Err() == nil {
		err := f.resolve(ctx, gvr)
		if err == nil {
			if f.object.unscope(gvr) {
				return
			}
			err = f.follow(ctx, gvr)
		}
		if ctx.Err() != nil || !f.recover(ctx, err, gvr) {
			return
		}
	}
}

// resolve looks up the kind, if it is not known, and checks that the object can be of it.
func (f *follower) resolve(ctx context.Context, gvr *ScopedGVR) (err error) {
	if !gvr.Empty() {
		return nil
	}
	if *gvr, err = f.watcher.kinds.resolve(ctx, f.object.id.GroupVersionKind()); err != nil {
		return err
	}
	return f.object.scoped(gvr)
}

// follow reads one stream until it ends, and returns why. The goroutine of each object waits here nearly all the time: what
// is on its stack then decides how large the stack is, so the work is done in functions that return.
func (f *follower) follow(ctx context.Context, gvr *ScopedGVR) error {
	s, beginning, err := f.open(ctx, gvr)
	if err != nil {
		return err
	}
	defer s.Close()
	began := f.watcher.options.Clock.Now()
	for {
		if err = s.Wait(); err == nil {
			beginning, err = f.next(s, beginning)
		}
		if err != nil {
			f.finish(err, beginning != nil, began)
			return err
		}
	}
}

// open begins a stream, and the set of what exists, while that is told.
func (f *follower) open(ctx context.Context, gvr *ScopedGVR) (stream.Stream, *few[types.UID, struct{}], error) {
	id := f.object.id
	t := stream.Target{Whole: f.watcher.options.EnableCache, Resource: gvr.GroupVersionResource, Namespace: id.Namespace, Name: id.Name, Selector: id.Selector}
	if !gvr.Namespaced {
		t.Namespace = ""
	}
	f.brief = false
	f.asked = f.watcher.options.Clock.Now()
	s, err := f.watcher.opener.Open(ctx, t, f.establishing())
	return s, &few[types.UID, struct{}]{}, err
}

// establishing notes that a stream is begun, and returns the version to begin at.
func (f *follower) establishing() string {
	o := f.object
	o.watcher.mu.Lock()
	defer o.watcher.mu.Unlock()
	if o.cared() { // it is to take over
		return later(o.version, o.group.version)
	}
	if o.own == f && o.state == Active {
		o.enter(Establishing, nil)
	}
	if o.group != nil && o.group.telling { // or to hand over
		o.enter(Establishing, nil)
		return later(o.version, o.group.version)
	}
	return o.version
}

// next takes the next event of a stream.
func (f *follower) next(s stream.Stream, beginning *few[types.UID, struct{}]) (*few[types.UID, struct{}], error) {
	e, err := s.Next()
	if err != nil {
		return beginning, err
	}
	if f.object.id.Name != "" && misplaced(e, f.object.id.Namespace) {
		return beginning, errScope
	}
	if e.Type == stream.Synced {
		f.refusals = 0
		if beginning != nil {
			f.watcher.metrics.established(f.watcher.options.Clock.Since(f.asked))
		}
	}
	return f.took(e, beginning), nil
}

// took takes an event, and returns what of the stream's beginning has been told: nil once that is over.
func (f *follower) took(e stream.Event, beginning *few[types.UID, struct{}]) *few[types.UID, struct{}] {
	o := f.object
	o.watcher.mu.Lock()
	defer o.watcher.mu.Unlock()
	if o.own != f {
		return beginning
	}
	switch {
	case beginning == nil:
		o.heard = o.watcher.options.Clock.Now().Add(-lag)
	case beginning.len() == 0:
		o.opened = o.watcher.ticks
	}
	if beginning != nil && e.Type == stream.Synced {
		f.tookAll(e, beginning)
		return nil
	}
	if beginning != nil && (e.Type == stream.Added || e.Type == stream.Modified) {
		beginning.set(e.UID, struct{}{})
	}
	o.take(e, ofOwn, beginning != nil)
	return beginning
}

// tookAll ends the beginning of the stream. The lock is held.
func (f *follower) tookAll(e stream.Event, beginning *few[types.UID, struct{}]) {
	o := f.object
	o.sync(e, ofOwn, beginning)
	o.live, f.synced = true, o.watcher.options.Clock.Now()
	if o.group != nil {
		o.group.handOver(o, f.asked, e.ResourceVersion)
	}
}

// finish notes how a stream has ended, and whether that was while it told what exists.
func (f *follower) finish(err error, inBeginning bool, began time.Time) {
	f.over(inBeginning, began)
	if !inBeginning && errors.Is(err, io.EOF) {
		f.watcher.mu.Lock()
		defer f.watcher.mu.Unlock()
		f.object.ended = f.watcher.options.Clock.Now()
	}
}
