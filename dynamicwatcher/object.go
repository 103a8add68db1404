// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/dynamicwatcher/internal/stream"
)

// object is a watched object, or all that a selector matches: what is known of it, and who wants to know. There may be very
// many, so it is kept small.
type object struct {
	watcher *Watcher
	id      ObjectIdentifier

	// The watcher's lock guards what follows.
	own      *follower     // keeps a stream on the object; nil before Start, while the group's is enough, and after the end
	live     bool          // its own stream has told what exists, and tells what happens
	group    *group        // with which it may share a stream; nil where not
	shared   bool          // it does
	settled  bool          // it is known what exists, or why that cannot be known
	waiting  chan struct{} // closed when it is settled; nil where nobody waits
	watchers few[*watching, subscription]
	state    State
	since    time.Time
	version  string // the last resource version that was told
	restarts int
	err      error                  // of the state
	synced   bool                   // known is what exists
	refusal  error                  // the last one, which settled it where it is not synced
	known    few[types.UID, string] // resource versions
	cached   map[types.UID]*unstructured.Unstructured
	told     bool      // that access was lost
	heard    time.Time // changes from then on may have been missed
	ended    time.Time // when the last stream ended in an orderly way
	opened   int64     // when the stream's first event came
}

// lag is how long an event may be under way.
const lag = 5 * time.Second

// orderly is how soon after the end of a stream its kind must be found to be gone to be the reason of that.
const orderly = 500 * time.Millisecond

// source is which of two streams tells of an object.
type source bool

const (
	ofOwn   source = false
	ofGroup source = true
)

// status is what users see of it. The lock is held.
func (o *object) status() WatchStatus {
	s := WatchStatus{
		Object: o.id, State: o.state, Since: o.since, Watchers: o.watchers.len(), Consolidated: o.shared,
		ResourceVersion: o.version, Restarts: o.restarts, Err: o.err,
	}
	if o.cared() {
		s.ResourceVersion = later(o.version, o.group.version)
	}
	return s
}

// cared reports whether the group's stream tells all that happens to the object. The lock is held.
func (o *object) cared() bool { return o.shared && o.group.telling }

// doubled reports whether the other stream tells of the object too, so that either may lag behind. The lock is held.
func (o *object) doubled(by source) bool {
	if by == ofGroup {
		return o.live
	}
	return o.group != nil && o.group.telling
}

// stale reports whether an event is old news, since another stream is ahead. What a stream begins with counts whatever its
// version, where there is no other: the server may have been restored from a backup. The lock is held.
func (o *object) stale(e stream.Event, by source, initial bool) bool {
	if o.group == nil || !o.group.open || initial && !o.doubled(by) {
		return false
	}
	return covered(e.ResourceVersion, o.version)
}

// advance notes the version that is told. The lock is held.
func (o *object) advance(version string, by source) {
	switch {
	case version == "":
	case o.doubled(by):
		o.version = later(o.version, version)
	default:
		o.version = version
	}
}

// enter changes the state. The lock is held.
func (o *object) enter(s State, err error) {
	if o.state != s {
		o.state, o.since = s, o.watcher.options.Clock.Now()
	}
	o.err = err
}

// settle lets go who waits to know what exists. The lock is held.
func (o *object) settle() {
	if o.settled = true; o.waiting != nil {
		close(o.waiting)
		o.waiting = nil
	}
}

// take takes an event of a stream, at its beginning perhaps. The lock is held.
func (o *object) take(e stream.Event, by source, initial bool) {
	if o.stale(e, by, initial) {
		return
	}
	o.advance(e.ResourceVersion, by)
	switch e.Type {
	case stream.Added, stream.Modified:
		o.appeared(e, initial)
	case stream.Deleted:
		if _, had := o.known.get(e.UID); had {
			o.forget(e.UID)
			o.notify(o.trigger(Deleted, e))
		}
	}
}

// appeared books that an object is what an event says. The lock is held.
func (o *object) appeared(e stream.Event, initial bool) {
	was, had := o.known.get(e.UID)
	o.known.set(e.UID, e.ResourceVersion)
	if e.Object != nil && o.cached != nil {
		o.cached[e.UID] = trim(e.Object)
	}
	switch {
	case !o.synced || had && was == e.ResourceVersion: // not news
	case initial && o.told: // sync tells that access is back, and so this
	case had:
		o.notify(o.trigger(Modified, e))
	default:
		o.notify(o.trigger(Added, e))
	}
}

func (o *object) forget(uid types.UID) {
	o.known.delete(uid)
	delete(o.cached, uid)
}

// sync ends the beginning of a stream: what was not told is gone, unless another stream has told of it since. The lock is
// held.
func (o *object) sync(e stream.Event, by source, beginning *few[types.UID, struct{}]) {
	doubled := o.doubled(by)
	gap := !doubled || by == ofOwn && !o.shared
	if !doubled || o.known.len()+beginning.len() > 0 { // else the other stream may have more to tell of the time before
		o.advance(e.ResourceVersion, by)
	}
	for uid, version := range o.known.all() {
		if _, there := beginning.get(uid); there || doubled && !covered(version, e.ResourceVersion) {
			continue
		}
		o.forget(uid)
		if o.synced && (o.id.Name == "" || beginning.len() == 0) { // else it was created anew, and that was told
			o.notify(o.trigger(Deleted, e))
		}
	}
	again := o.synced
	o.synced = true
	o.enter(Active, nil)
	if o.told || again && gap && o.watcher.options.Reconnect == NotifyAlways {
		o.notify(o.trigger(Resumed, e))
	}
	o.told = false
	o.welcomeAll()
	if gap {
		o.tellGlimpses(again)
	}
	o.heard = o.watcher.options.Clock.Now().Add(-lag)
	o.settle()
}

// bridge tells what a stream that has ended may not have told of the time before another began. The lock is held.
func (o *object) bridge() {
	if o.known.len() == 0 {
		o.heard = o.watcher.options.Clock.Now().Add(-lag)
		o.tellGlimpses(true)
	}
}

// tellGlimpses tells the watchers that may have seen what no stream told: an object that came and went while there was
// none. Those are whose last reconcile was under way then. The lock is held.
func (o *object) tellGlimpses(again bool) {
	if o.id.Name != "" && o.known.len() > 0 || !again && o.watcher.options.DisableInitialReconcile {
		return // that it is another would have been told, or a watcher wants to know of changes only
	}
	t := o.trigger(Resumed, stream.Event{})
	if o.known.len() == 0 {
		t.Type = Deleted
	}
	for watcher, s := range o.watchers.all() {
		_, busy := o.watcher.registry.busy[watcher.id]
		if !s.reads && watcher.begin <= o.opened && (busy || !watcher.ended.Before(o.heard)) && len(watcher.triggers) == 0 {
			o.watcher.notify(watcher, t)
		}
	}
}

// absent books that the kind does not exist, and so none of its objects. The lock is held.
func (o *object) absent() {
	if o.synced && o.known.len() > 0 {
		o.notify(o.trigger(Deleted, stream.Event{}))
	}
	o.known.clear()
	clear(o.cached)
	o.synced = true
	o.version = "" // a kind that comes back may begin anew
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
	for watcher, s := range o.watchers.all() {
		if s.waits {
			o.welcome(watcher, s)
		}
	}
}

// greet is welcome for a watcher that comes when it is known what exists.
func (o *object) greet(watcher ObjectIdentifier) {
	w := o.watcher.registry.watchers[watcher]
	s, _ := o.watchers.get(w)
	o.welcome(w, s)
}

// welcome tells a watcher what exists when it begins to watch. The lock is held.
func (o *object) welcome(watcher *watching, s subscription) {
	o.watchers.set(watcher, subscription{reads: s.reads})
	if s.reads || o.watcher.options.DisableInitialReconcile {
		return
	}
	t := o.trigger(Initial, stream.Event{})
	switch {
	case o.known.len() == 0 && s.seen == "":
		return
	case o.known.len() == 0:
		t.Type = Deleted
	case o.id.Name != "":
		for _, version := range o.known.all() {
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
	for watcher, s := range o.watchers.all() {
		if !s.waits {
			o.watcher.notify(watcher, t)
		}
	}
}
