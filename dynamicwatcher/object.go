// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/dynamicwatcher/internal/stream"
)

// object is a watched object, or all objects that a selector matches: its state and its watchers.
type object struct {
	watcher *Watcher
	id      ObjectIdentifier

	// The watcher's mutex guards the following fields.
	delivery   delivery
	own        *single // its own watch; nil if delivery is without one
	group      *shared // the watch that it may share; nil if it may share none
	list       listPhase
	waiting    chan struct{} // closed at the next settleLocked; nil if nothing waits
	watchers   smallMap[*watching, subscription]
	state      State
	since      time.Time
	version    string // all changes up to this version were received
	restarts   int
	err        error                       // the reason for the state
	refusal    error                       // the server's last refusal
	known      smallMap[types.UID, string] // resource versions
	cached     map[types.UID]*unstructured.Unstructured
	accessLost bool      // the watchers were notified of it
	seenUntil  time.Time // later changes may have been missed
	ended      time.Time // when the last stream ended in an orderly way
}

// lag is the maximum delay of an event.
const lag = 5 * time.Second

// orderly limits the time from the orderly end of a stream to the deletion of its kind as the
// reason.
const orderly = 500 * time.Millisecond

func (o *object) statusLocked() WatchStatus {
	return WatchStatus{
		Object: o.id, State: o.state, Since: o.since, Watchers: o.watchers.len(), Consolidated: o.delivery.shared(),
		ResourceVersion: o.lastVersionLocked(), Restarts: o.restarts, Err: o.err,
	}
}

// deliveredLocked reports whether a shared watch delivers the object's changes.
func (o *object) deliveredLocked() bool { return o.delivery.shared() && o.group.phase.Delivers() }

// deliverLocked makes a step of the delivery. It does not wait for an own watch that it ends.
func (o *object) deliverLocked(s deliveryStep) {
	was := o.delivery
	o.delivery = was.after(s)
	if o.own != nil && !o.delivery.own() {
		o.own.cancel()
		o.own = nil
	}
	if was.shared() != o.delivery.shared() {
		o.group.countLocked(o.delivery.shared())
	}
}

func (o *object) lastVersionLocked() string {
	if o.group != nil && o.group.phase.Delivers() {
		return stream.Later(o.version, o.group.version)
	}
	return o.version
}

func (o *object) enterLocked(s State, err error) {
	if o.state != s {
		o.state, o.since = s, o.watcher.options.Clock.Now()
	}
	o.err = err
}

func (o *object) suspendLocked() {
	if o.state == StateActive {
		o.enterLocked(StateEstablishing, nil)
	}
}

// changedLocked returns a channel that is closed at the next settleLocked.
func (o *object) changedLocked() <-chan struct{} {
	if o.waiting == nil {
		o.waiting = make(chan struct{})
	}
	return o.waiting
}

// currentLocked returns nil if the cache is current, also if the server does not have the kind.
func (o *object) currentLocked() error {
	switch {
	case o.state == StateActive, o.state == StatePendingKind && o.list.synced():
		return nil
	case o.err != nil:
		return fmt.Errorf("watch %s: %s: %w", o.id, o.state, o.err)
	}
	return fmt.Errorf("watch %s: %s", o.id, o.state)
}

// settleLocked makes a step of the first list, and wakes the callers that wait.
func (o *object) settleLocked(s listStep) {
	if o.list = o.list.after(s); o.waiting != nil {
		close(o.waiting)
		o.waiting = nil
	}
}

// takeLocked handles an event of the watch that delivers the changes of the object.
func (o *object) takeLocked(e stream.Event) {
	switch {
	case o.group != nil && stream.Covered(e.ResourceVersion, o.version): // the previous watch was ahead
		return
	case e.ResourceVersion != "":
		o.version = e.ResourceVersion
	}
	switch e.Type {
	case stream.Added, stream.Modified:
		o.observeLocked(e, false)
	case stream.Deleted:
		if _, had := o.known.get(e.UID); had {
			o.forgetLocked(e.UID)
			o.notifyLocked(o.trigger(TriggerDeleted, e))
		}
	}
}

func (o *object) observeLocked(e stream.Event, initial bool) {
	was, had := o.known.get(e.UID)
	o.known.set(e.UID, e.ResourceVersion)
	if e.Object != nil && o.cached != nil {
		o.cached[e.UID] = trim(e.Object)
	}
	switch {
	case !o.list.synced() || had && was == e.ResourceVersion: // nothing has changed
	case initial && o.accessLost: // syncLocked sends Resumed, which includes this
	case had:
		o.notifyLocked(o.trigger(TriggerModified, e))
	default:
		o.notifyLocked(o.trigger(TriggerAdded, e))
	}
}

func (o *object) forgetLocked(uid types.UID) {
	o.known.delete(uid)
	delete(o.cached, uid)
}

// syncLocked replaces the known objects with those that a stream has sent at a version. From then
// on the object receives its changes from that stream. If an open stream has delivered more, the
// snapshot is ignored.
func (o *object) syncLocked(version string, exists *snapshot) {
	open := o.state == StateActive
	if open {
		o.seenUntil = o.watcher.options.Clock.Now().Add(-lag)
		if o.delivery.shared() {
			o.version = o.lastVersionLocked()
		}
		if stream.Covered(version, o.version) {
			return
		}
	}
	if version != "" {
		o.version = version
	}
	for _, e := range exists.all() {
		o.observeLocked(e, true)
	}
	for uid := range o.known.all() {
		if _, there := exists.get(uid); there {
			continue
		}
		o.forgetLocked(uid)
		if o.list.synced() && (o.id.Name == "" || exists.len() == 0) { // otherwise its recreation was reported
			o.notifyLocked(o.trigger(TriggerDeleted, stream.Event{ResourceVersion: version}))
		}
	}
	again := o.list.synced()
	o.settleLocked(listSent)
	o.enterLocked(StateActive, nil)
	if o.accessLost || again && !open && o.watcher.options.Reconnect == NotifyAlways {
		o.notifyLocked(o.trigger(TriggerResumed, stream.Event{ResourceVersion: version}))
	}
	o.accessLost = false
	o.notifyInitialAllLocked()
	o.notifyMissedLocked(again)
	o.seenUntil = o.watcher.options.Clock.Now().Add(-lag)
}

// notifyMissedLocked notifies watchers whose reconciles may have read an object that was created
// and deleted while no stream was open.
func (o *object) notifyMissedLocked(again bool) {
	if o.id.Name != "" && o.known.len() > 0 || !again && o.watcher.options.DisableInitialReconcile {
		return // a new UID was reported already, or only changes are wanted
	}
	t := o.trigger(TriggerResumed, stream.Event{})
	if o.known.len() == 0 {
		t.Type = TriggerDeleted
	}
	for watcher, s := range o.watchers.all() {
		_, busy := o.watcher.registry.busy[watcher.id]
		if !s.reading && (busy || !watcher.ended.Before(o.seenUntil)) && len(watcher.triggers) == 0 {
			o.watcher.notifyLocked(watcher, t)
		}
	}
}

// absentLocked records that the kind, and so every object of it, does not exist.
func (o *object) absentLocked() {
	if o.list.synced() && o.known.len() > 0 {
		o.notifyLocked(o.trigger(TriggerDeleted, stream.Event{}))
	}
	o.known.clear()
	clear(o.cached)
	o.settleLocked(listSent)
	o.version = "" // a kind that is created again may count again
	o.notifyInitialAllLocked()
	now := o.watcher.options.Clock.Now()
	if now.Sub(o.ended) > orderly { // otherwise the stream that just ended delivered all
		o.notifyMissedLocked(true)
	}
	o.seenUntil = now
}

func (o *object) notifyInitialAllLocked() {
	for watcher, s := range o.watchers.all() {
		if s.initial {
			o.notifyInitialLocked(watcher, s)
		}
	}
}

func (o *object) notifyInitialOfLocked(watcher ObjectIdentifier) {
	w := o.watcher.registry.watchers[watcher]
	s, _ := o.watchers.get(w)
	o.notifyInitialLocked(w, s)
}

// notifyInitialLocked notifies a new watcher of the existing objects.
func (o *object) notifyInitialLocked(watcher *watching, s subscription) {
	o.watchers.set(watcher, subscription{reading: s.reading})
	if s.reading || o.watcher.options.DisableInitialReconcile {
		return
	}
	t := o.trigger(TriggerInitial, stream.Event{})
	switch {
	case o.known.len() == 0 && s.seen == "":
		return
	case o.known.len() == 0:
		// Otherwise the object has not arrived yet.
		if order, ok := stream.CompareVersions(s.seen, o.lastVersionLocked()); !ok || order <= 0 {
			t.Type = TriggerDeleted
		}
	case o.id.Name != "":
		for _, version := range o.known.all() {
			t.ResourceVersion = version
		}
		if t.ResourceVersion == s.seen {
			return
		}
	}
	o.watcher.notifyLocked(watcher, t)
}

func (o *object) trigger(t TriggerType, e stream.Event) Trigger {
	if e.Name == "" { // the watched object itself
		e.Namespace, e.Name = o.id.Namespace, o.id.Name
	}
	return Trigger{Watched: o.id, Type: t, Namespace: e.Namespace, Name: e.Name, ResourceVersion: e.ResourceVersion}
}

// notifyLocked notifies all watchers, except those that still wait for the initial notification.
func (o *object) notifyLocked(t Trigger) {
	for watcher, s := range o.watchers.all() {
		if !s.initial {
			o.watcher.notifyLocked(watcher, t)
		}
	}
}
