// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/dynamicwatcher/internal/consolidate"
	"github.com/spokewire/sdk-go/dynamicwatcher/internal/stream"
)

const (
	// lostRefusals and lostAfter define when access is lost: that many refusals over that time.
	lostRefusals = 5
	lostAfter    = 3 * time.Second
)

// snapshot has the existing objects that a stream has sent.
type snapshot = smallMap[types.UID, stream.Event]

// single is the watch of one object, or of all objects that a selector matches.
type single struct {
	watch
	object *object

	// The watcher's mutex guards the following fields.
	exists   *snapshot // existing objects sent so far; nil after the last
	missed   string    // version of the last event of the shared watch that the object did not receive
	refusals int
	refused  time.Time // time of the first refusal
}

// launchLocked starts the watch of an object, unless it has one or waits for a shared one.
func (w *Watcher) launchLocked(o *object) {
	g := o.group
	if w.life != running || o.delivery.own() ||
		g != nil && (g.phase == consolidate.Gathering || o.delivery.shared() && g.phase != consolidate.Leaving) {
		return
	}
	o.deliverLocked(ownStarted)
	o.own = &single{object: o}
	o.own.startLocked(w, o.own, o.id.GroupVersionKind())
}

func (s *single) target(_ context.Context, gvr ScopedGVR) (stream.Target, error) {
	o, id := s.object, s.object.id
	switch {
	case !gvr.Namespaced && id.Namespace != "":
		o.unscope()
		return stream.Target{}, context.Canceled
	case gvr.Namespaced && id.Namespace == "" && id.Name != "":
		// All objects of the name would be watched, in namespaces that the user did not ask for.
		return stream.Target{}, id.lacksNamespace()
	}
	return stream.Target{
		Whole: s.watcher.options.EnableCache, Resource: gvr.GroupVersionResource,
		Namespace: id.Namespace, Name: id.Name, Selector: id.Selector,
	}, nil
}

func (s *single) openLocked(ctx context.Context) (context.Context, string) {
	o := s.object
	s.exists = &snapshot{}
	if !o.deliveredLocked() {
		o.suspendLocked()
	}
	return ctx, s.watcher.beginning(o.lastVersionLocked(), o.list.synced())
}

func (s *single) takeLocked(e stream.Event) error {
	o := s.object
	if o.id.Name != "" && misplaced(e, o.id.Namespace) {
		return errScope
	}
	switch {
	case s.exists == nil:
		o.seenUntil = s.watcher.options.Clock.Now().Add(-lag)
		o.takeLocked(e)
	case e.Type == stream.Synced:
		o.syncLocked(e.ResourceVersion, s.exists)
		s.exists, s.refusals = nil, 0
		o.deliverLocked(shareEnded)
	case e.Type == stream.Deleted:
		s.exists.delete(e.UID)
	case e.Type != stream.Bookmark:
		s.exists.set(e.UID, e)
	}
	if o.group != nil && s.exists == nil {
		o.group.admitLocked(s)
	}
	return nil
}

func (s *single) endLocked(v verdict, err error) (rest time.Duration, again bool) {
	o, now := s.object, s.watcher.options.Clock.Now()
	o.restarts++
	s.watcher.metrics.ended(v)
	if o.deliveredLocked() && v != awaitKind { // the shared watch delivers until the next stream is open
		return 0, true
	}
	if v == reopen && s.exists == nil {
		o.ended = now
	}
	switch v {
	case reopen:
		o.suspendLocked()
	case awaitKind:
		o.deliverLocked(shareEnded)
		o.enterLocked(StatePendingKind, err)
		o.absentLocked()
	case refuse, unwatchable:
		o.enterLocked(StateNoAccess, err)
		o.refusal = err
		o.settleLocked(refusalSent)
		if v == refuse && s.refusedForGoodLocked(now) || v == unwatchable && errors.Is(err, ErrInvalidInput) {
			return 0, !o.lostLocked(err)
		}
	case restart:
		o.version = ""
		fallthrough
	default:
		o.enterLocked(StateBackoff, err)
	}
	return 0, true
}

func (s *single) absentLocked() { s.object.absentLocked() }

// refusedForGoodLocked counts a refusal, and reports whether access is lost.
func (s *single) refusedForGoodLocked(now time.Time) bool {
	if s.refusals == 0 {
		s.refused = now
	}
	s.refusals++
	return s.refusals >= lostRefusals && now.Sub(s.refused) >= lostAfter
}

func (o *object) lostLocked(err error) (dropped bool) {
	w := o.watcher
	if o.accessLost {
		return false
	}
	o.accessLost, dropped = true, w.options.AccessLost == DropAndNotify
	for watcher := range o.watchers.all() {
		if dropped {
			w.registry.unsubscribe(watcher, o)
		}
		w.notifyLocked(watcher, o.trigger(TriggerAccessLost, stream.Event{}))
	}
	w.logger.Error(err, "Failed to watch an object, access is denied", "object", o.id, "dropped", dropped)
	if dropped {
		w.dropLocked(o)
	}
	return dropped
}
