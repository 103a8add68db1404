// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher

import (
	"context"
	"errors"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/spokewire/sdk-go/dynamicwatcher/internal/stream"
)

// object is a watched object, or all that a selector matches. One goroutine keeps a stream on it; nothing that it waits
// for is waited for under the lock.
type object struct {
	watcher *dynamicWatcher
	id      ObjectIdentifier
	cancel  context.CancelFunc // nil before Start
	settled chan struct{}      // closed when it is first known what exists, or why that cannot be known

	// The watcher's lock guards what follows.
	watchers map[*watching]subscription
	status   WatchStatus
	synced   bool                 // known is what exists
	refusal  error                // the last one, which settled it where it is not synced
	known    map[types.UID]string // resource versions
	cached   map[types.UID]*unstructured.Unstructured
	told     bool      // that access was lost
	heard    time.Time // changes from then on may have been missed
	ended    time.Time // when the last stream ended in an orderly way
	opened   int64     // when the stream's first event came

	// The goroutine's own.
	delay    wait.DelayFunc
	arrived  time.Time // when its kind came
	asked    time.Time // when the stream was begun
	brief    bool      // the last stream ended soon after it was begun
	refusals int
	refused  time.Time // when the first of them came
}

// follow reads one stream until it ends, and returns why. The goroutine of each object waits here nearly all the time: what
// is on its stack then decides how large the stack is, so the work is done in functions that return.
func (o *object) follow(ctx context.Context, gvr *ScopedGVR) error {
	s, beginning, err := o.open(ctx, gvr)
	if err != nil {
		return err
	}
	defer s.Close()
	began := o.watcher.options.Clock.Now()
	for {
		if err = s.Wait(); err == nil {
			beginning, err = o.next(s, beginning)
		}
		if err != nil {
			o.finish(err, beginning != nil, began)
			return err
		}
	}
}

// open begins a stream, and the set of what exists, while that is told.
func (o *object) open(ctx context.Context, gvr *ScopedGVR) (stream.Stream, map[types.UID]struct{}, error) {
	t := stream.Target{Whole: o.watcher.options.EnableCache, Resource: gvr.GroupVersionResource, Namespace: o.id.Namespace, Name: o.id.Name, Selector: o.id.Selector}
	if !gvr.Namespaced {
		t.Namespace = ""
	}
	o.brief = false
	o.asked = o.watcher.options.Clock.Now()
	s, err := o.watcher.opener.Open(ctx, t, o.establishing())
	return s, map[types.UID]struct{}{}, err
}

// next takes the next event of a stream.
func (o *object) next(s stream.Stream, beginning map[types.UID]struct{}) (map[types.UID]struct{}, error) {
	e, err := s.Next()
	if err != nil {
		return beginning, err
	}
	if e.Type == stream.Synced {
		o.refusals = 0
		if beginning != nil {
			o.watcher.metrics.established(o.watcher.options.Clock.Since(o.asked))
		}
	}
	return o.took(e, beginning), nil
}

// finish notes how a stream has ended, and whether that was while it told what exists.
func (o *object) finish(err error, inBeginning bool, began time.Time) {
	if o.brief = inBeginning || o.watcher.options.Clock.Since(began) <= stable; !o.brief {
		o.delay = nil
	}
	if !inBeginning && errors.Is(err, io.EOF) {
		o.endedOrderly()
	}
}

// lag is how long an event may be under way.
const lag = 5 * time.Second

// orderly is how soon after the end of a stream its kind must be found to be gone to be the reason of that.
const orderly = 500 * time.Millisecond

// stable is how long a stream must have lasted for the next failure to be tried again at once.
const stable = 5 * time.Second

// establishing notes that a stream is begun, and returns the version to begin at.
func (o *object) establishing() string {
	o.watcher.mu.Lock()
	defer o.watcher.mu.Unlock()
	if o.status.State == Active {
		o.enter(Establishing, nil)
	}
	return o.status.ResourceVersion
}

func (o *object) endedOrderly() {
	o.watcher.mu.Lock()
	defer o.watcher.mu.Unlock()
	o.ended = o.watcher.options.Clock.Now()
}

// enter changes the state. The lock is held.
func (o *object) enter(s State, err error) {
	if o.status.State != s {
		o.status.State, o.status.Since = s, o.watcher.options.Clock.Now()
	}
	o.status.Err = err
}

// settle lets go who waits to know what exists. The lock is held.
func (o *object) settle() {
	select {
	case <-o.settled:
	default:
		close(o.settled)
	}
}

// took takes an event, and returns what of the stream's beginning has been told: nil once that is over.
func (o *object) took(e stream.Event, beginning map[types.UID]struct{}) map[types.UID]struct{} {
	o.watcher.mu.Lock()
	defer o.watcher.mu.Unlock()
	if beginning == nil {
		o.heard = o.watcher.options.Clock.Now().Add(-lag)
	} else if len(beginning) == 0 {
		o.opened = o.watcher.ticks
	}
	if e.ResourceVersion != "" {
		o.status.ResourceVersion = e.ResourceVersion
	}
	switch e.Type {
	case stream.Added, stream.Modified:
		if beginning != nil {
			beginning[e.UID] = struct{}{}
		}
		was, had := o.known[e.UID]
		o.known[e.UID] = e.ResourceVersion
		if e.Object != nil && o.cached != nil {
			o.cached[e.UID] = trim(e.Object)
		}
		switch {
		case !o.synced || had && was == e.ResourceVersion: // not news
		case beginning != nil && o.told: // sync tells that access is back, and so this
		case had:
			o.notify(o.trigger(Modified, e))
		default:
			o.notify(o.trigger(Added, e))
		}
	case stream.Deleted:
		if _, had := o.known[e.UID]; had {
			o.forget(e.UID)
			o.notify(o.trigger(Deleted, e))
		}
	case stream.Synced:
		if beginning != nil {
			o.sync(e, beginning)
		}
		return nil
	}
	return beginning
}

func (o *object) forget(uid types.UID) {
	delete(o.known, uid)
	delete(o.cached, uid)
}

// sync ends the beginning of a stream: what was not told is gone. The lock is held.
func (o *object) sync(e stream.Event, beginning map[types.UID]struct{}) {
	for uid := range o.known {
		if _, there := beginning[uid]; !there {
			o.forget(uid)
			if o.synced && (o.id.Name == "" || len(beginning) == 0) { // else it was created anew, and that was told
				o.notify(o.trigger(Deleted, e))
			}
		}
	}
	again := o.synced
	o.synced = true
	o.enter(Active, nil)
	if o.told || again && o.watcher.options.Reconnect == NotifyAlways {
		o.notify(o.trigger(Resumed, e))
	}
	o.told = false
	o.welcomeAll()
	o.tellGlimpses(again)
	o.heard = o.watcher.options.Clock.Now().Add(-lag)
	o.settle()
}

// tellGlimpses tells the watchers that may have seen what no stream told: an object that came and went while there was
// none. Those are whose last reconcile was under way then. The lock is held.
func (o *object) tellGlimpses(again bool) {
	if o.id.Name != "" && len(o.known) > 0 || !again && o.watcher.options.DisableInitialReconcile {
		return // that it is another would have been told, or a watcher wants to know of changes only
	}
	t := o.trigger(Resumed, stream.Event{})
	if len(o.known) == 0 {
		t.Type = Deleted
	}
	for watcher := range o.watchers {
		_, busy := o.watcher.busy[watcher.id]
		if watcher.begin <= o.opened && (busy || !watcher.ended.Before(o.heard)) && len(watcher.triggers) == 0 {
			o.watcher.notify(watcher, t)
		}
	}
}

// stillAbsent is absent for a kind that may have come and gone.
func (o *object) stillAbsent() {
	o.watcher.mu.Lock()
	defer o.watcher.mu.Unlock()
	o.absent()
}

// absent books that the kind does not exist, and so none of its objects. The lock is held.
func (o *object) absent() {
	if o.synced && len(o.known) > 0 {
		o.notify(o.trigger(Deleted, stream.Event{}))
	}
	clear(o.known)
	clear(o.cached)
	o.synced = true
	o.status.ResourceVersion = "" // a kind that comes back may begin anew
	o.welcomeAll()
	o.opened = o.watcher.ticks
	now := o.watcher.options.Clock.Now()
	if now.Sub(o.ended) > orderly { // else the stream that has just ended told all
		o.tellGlimpses(true)
	}
	o.heard = now
	o.settle()
}

func (o *object) welcomeAll() {
	for watcher, s := range o.watchers {
		if s.waits {
			o.welcome(watcher, s)
		}
	}
}

// greet is welcome for a watcher that comes when it is known what exists.
func (o *object) greet(watcher ObjectIdentifier) {
	w := o.watcher.registry.watchers[watcher]
	o.welcome(w, o.watchers[w])
}

// welcome tells a watcher what exists when it begins to watch. The lock is held.
func (o *object) welcome(watcher *watching, s subscription) {
	o.watchers[watcher] = subscription{}
	if o.watcher.options.DisableInitialReconcile {
		return
	}
	t := o.trigger(Initial, stream.Event{})
	switch {
	case len(o.known) == 0 && s.seen == "":
		return
	case len(o.known) == 0:
		t.Type = Deleted
	case o.id.Name != "":
		for _, version := range o.known {
			t.ResourceVersion = version
		}
		if t.ResourceVersion == s.seen {
			return
		}
	}
	o.watcher.notify(watcher, t)
}

func (o *object) trigger(t TriggerType, e stream.Event) Trigger {
	if e.Name == "" { // the watched object itself, if it is one
		e.Namespace, e.Name = o.id.Namespace, o.id.Name
	}
	return Trigger{Watched: o.id, Type: t, Namespace: e.Namespace, Name: e.Name, ResourceVersion: e.ResourceVersion}
}

// notify tells all watchers that are not to be told of the beginning yet. The lock is held.
func (o *object) notify(t Trigger) {
	for watcher, s := range o.watchers {
		if !s.waits {
			o.watcher.notify(watcher, t)
		}
	}
}
