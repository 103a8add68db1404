// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/spokewire/sdk-go/dynamicwatcher/internal/consolidate"
	"github.com/spokewire/sdk-go/dynamicwatcher/internal/stream"
)

const (
	// pauseToGather is the time without new objects before the first stream, which serves all of a
	// burst.
	pauseToGather = 50 * time.Millisecond
	maxPauses     = 10
	// gatherTimeout is the time for which objects wait for the first stream.
	gatherTimeout = time.Second
	// listTimeout limits the time of a stream, or of single watches, to send the existing objects.
	listTimeout = 30 * time.Second
	// failureTolerance limits how long a stream may fail before single watches take over, which do
	// not help an overloaded server.
	failureTolerance, overloadTolerance = 3 * time.Second, 30 * time.Second
)

const (
	errTooLarge  unshareable = "the namespace has too many other objects"
	errSlow      unshareable = "the server did not send the objects of the namespace in time"
	errLeft      unshareable = "single watches have taken over"
	errUnordered unshareable = "resource versions are not numbers: one watch cannot replace others"
)

// sharedKey identifies the objects that may share a watch.
type sharedKey struct {
	kind      schema.GroupVersionKind
	namespace string
}

// shared is the watch of all watched objects of one kind in one namespace, while there are many.
//
// Each object receives its changes from one watch at a time: its own, or this one. It changes over
// under the mutex when the other watch has sent all existing objects: see object.syncLocked. The
// other watch may lag behind then. Resource versions show which of its events are not new.
type shared struct {
	watcher *Watcher
	sharedKey

	// The watcher's mutex guards the following fields.
	phase     consolidate.Phase
	watch     *watch             // nil while apart
	objects   map[string]*object // by name
	members   int                // number of objects that share the watch
	size      int64              // number of objects that the namespace is known to have
	version   string             // the last resource version that was sent
	seenUntil time.Time          // later changes may have been missed
	failing   time.Time          // the time of the first failure since the last success
	rest      wait.DelayFunc     // time until the next attempt to share

	// The state of the current stream.
	stream context.Context
	cut    context.CancelCauseFunc
	exists map[*object]stream.Event // objects sent so far; nil after the last
	since  string                   // the version of the first list
}

func (w *Watcher) groupOfLocked(id ObjectIdentifier) *shared {
	if w.options.Consolidate == nil || w.wide == nil || id.Name == "" {
		return nil
	}
	key := sharedKey{id.GroupVersionKind(), id.Namespace}
	g := w.groups[key]
	if g == nil {
		g = &shared{watcher: w, sharedKey: key, objects: map[string]*object{}}
		w.groups[key] = g
	}
	return g
}

func (g *shared) limits() consolidate.Limits {
	return consolidate.Limits(*g.watcher.options.Consolidate)
}

func (g *shared) joinLocked(o *object) {
	o.group = g
	g.objects[o.id.Name] = o
	g.considerLocked()
}

func (g *shared) leaveLocked(o *object) {
	if g.objects[o.id.Name] == o {
		delete(g.objects, o.id.Name)
		o.deliverLocked(shareEnded)
		g.considerLocked()
	}
}

// considerLocked changes the phase if the number of objects or the namespace's size requires it.
func (g *shared) considerLocked() {
	w, limits, n := g.watcher, g.limits(), len(g.objects)
	switch {
	case n == 0:
		g.moveLocked(consolidate.Abandoned)
		if w.groups[g.sharedKey] == g {
			delete(w.groups, g.sharedKey)
		}
	case w.life != running:
	case limits.Enough(n) && g.phase == consolidate.Apart:
		g.moveLocked(consolidate.Enough)
	case !limits.Keeps(n, g.size) && g.phase == consolidate.Sharing:
		g.moveLocked(consolidate.Unfit)
	case !limits.Keeps(n, 0) && (g.phase == consolidate.Gathering || g.phase == consolidate.Trying):
		g.moveLocked(consolidate.Abandoned)
	}
}

func (g *shared) moveLocked(s consolidate.Step) {
	w, was := g.watcher, g.phase
	if g.phase = was.After(s); g.phase == was {
		return
	}
	switch g.phase {
	case consolidate.Gathering:
		g.watch = &watch{}
		w.afterLocked(g.watch.startLocked(w, g, g.kind), gatherTimeout, func() { g.moveLocked(consolidate.Waited) })
	case consolidate.Leaving:
		w.afterLocked(g.stream, listTimeout, func() { g.cut(errLeft) })
	case consolidate.Apart, consolidate.Trying:
		for _, o := range g.objects {
			o.deliverLocked(shareEnded)
		}
		if g.phase == consolidate.Apart {
			g.watch.cancel()
			g.watch = nil
		}
	}
	for _, o := range g.objects {
		w.launchLocked(o)
	}
}

func (g *shared) countLocked(shares bool) {
	if shares {
		g.members++
		return
	}
	if g.members--; g.members == 0 && g.phase == consolidate.Leaving {
		g.cut(errLeft)
	}
}

// admitLocked lets an object share the watch when its own watch has delivered all earlier changes.
func (g *shared) admitLocked(s *single) {
	if g.phase == consolidate.Sharing && stream.Covered(stream.Later(g.since, s.missed), s.object.version) {
		s.object.deliverLocked(shareStarted)
	}
}

func (g *shared) target(ctx context.Context, gvr ScopedGVR) (stream.Target, error) {
	if gvr.Namespaced != (g.namespace != "") {
		return stream.Target{}, errScope
	}
	t := stream.Target{Resource: gvr.GroupVersionResource, Namespace: g.namespace}
	phase, n := g.look()
	for i, more := 0, phase == consolidate.Gathering; more && i < maxPauses && g.watcher.sleep(ctx, pauseToGather); i++ {
		before := n
		_, n = g.look()
		more = n > before
	}
	if phase == consolidate.Interrupted { // the stream shows the size of the namespace
		return t, nil
	}
	size, err := g.watcher.wide.Count(ctx, t)
	if err == nil && !g.limits().Fits(n, size) {
		err = errTooLarge
	}
	return t, err
}

func (g *shared) look() (consolidate.Phase, int) {
	g.watcher.mu.Lock()
	defer g.watcher.mu.Unlock()
	return g.phase, len(g.objects)
}

// openLocked implements [watchSource]. The stream must not be older than the state of its objects.
func (g *shared) openLocked(ctx context.Context) (context.Context, string) {
	g.stream, g.cut = context.WithCancelCause(ctx)
	g.exists, g.size = make(map[*object]stream.Event, len(g.objects)), 0
	version, delivered := g.version, false
	for _, o := range g.objects {
		g.exists[o] = stream.Event{}
		version, delivered = stream.Later(version, o.version), delivered || o.list.synced()
		if !o.delivery.own() {
			o.suspendLocked()
		}
	}
	g.watcher.afterLocked(g.stream, listTimeout, func() { // a hanging request must not delay all objects for long
		if g.exists != nil {
			g.cut(errSlow)
		}
	})
	return g.stream, g.watcher.beginning(version, delivered)
}

func (g *shared) takeLocked(e stream.Event) error {
	if misplaced(e, g.namespace) {
		return errScope
	}
	switch e.Type {
	case stream.Added:
		g.size++
	case stream.Deleted:
		g.size--
	}
	o := g.objects[e.Name]
	switch {
	case g.exists == nil:
		g.seenUntil, g.version = g.watcher.options.Clock.Now().Add(-lag), stream.Later(g.version, e.ResourceVersion)
		switch {
		case o == nil:
		case o.delivery.shared():
			o.takeLocked(e)
		case o.delivery == deliveryOwn:
			o.own.missed = e.ResourceVersion
		}
		g.considerLocked()
	case e.Type == stream.Synced:
		return g.syncLocked(e.ResourceVersion)
	case g.phase != consolidate.Interrupted && !g.limits().Fits(len(g.objects), g.size):
		return errTooLarge
	default:
		if _, ok := g.exists[o]; ok {
			if e.Type == stream.Deleted {
				e = stream.Event{}
			}
			g.exists[o] = e
		}
	}
	return nil
}

// syncLocked takes over from the objects' own watches. An object that was added after the stream
// was opened may have been sent already: its own watch begins again, and leads to this one when it
// is synced.
func (g *shared) syncLocked(version string) error {
	if !stream.Covered(version, version) {
		return errUnordered
	}
	w := g.watcher
	g.version, g.since, g.seenUntil = version, version, w.options.Clock.Now().Add(-lag)
	for _, o := range g.objects {
		e, ok := g.exists[o]
		if !ok {
			o.deliverLocked(ownEnded)
			continue
		}
		var exists snapshot
		if e.UID != "" {
			exists.set(e.UID, e)
		}
		o.syncLocked(version, &exists)
		o.deliverLocked(shareStarted)
	}
	g.exists, g.failing, g.rest = nil, time.Time{}, nil
	g.moveLocked(consolidate.Established)
	ctx := g.stream
	w.group.Go(func() {
		if w.sleep(ctx, lag) {
			w.wide.CloseIdle()
		}
	})
	g.considerLocked()
	return nil
}

func (g *shared) endLocked(v verdict, err error) (rest time.Duration, again bool) {
	if g.cut != nil {
		g.cut(nil)
	}
	if !errors.As(err, new(unshareable)) {
		g.watcher.metrics.ended(v)
	}
	for _, o := range g.objects {
		if o.delivery.shared() {
			g.suspendLocked(o, v, err)
		}
	}
	if g.exists = nil; v == restart {
		g.version = ""
	}
	if g.promisingLocked(v, err) && g.phase != consolidate.Leaving {
		g.moveLocked(consolidate.Ended)
		return 0, true
	}
	g.failing = time.Time{}
	g.moveLocked(consolidate.GivenUp)
	g.considerLocked()
	if g.rest == nil {
		g.rest = wait.Backoff{Duration: time.Minute, Factor: 2, Jitter: 0.2, Steps: 100, Cap: 30 * time.Minute}.DelayFunc()
	}
	return g.rest(), true
}

// promisingLocked records a failure, and reports whether the next stream may do better soon.
func (g *shared) promisingLocked(v verdict, err error) bool {
	switch {
	case v == reopen, v == reconnect, v == restart:
		g.failing = time.Time{}
		return true
	case v == awaitKind, v == unwatchable, errors.As(err, new(unshareable)),
		v == refuse && (g.phase == consolidate.Gathering || g.phase == consolidate.Trying):
		return false
	}
	now, most := g.watcher.options.Clock.Now(), failureTolerance
	if apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) {
		most = overloadTolerance
	}
	if g.failing.IsZero() {
		g.failing = now
	}
	return now.Sub(g.failing) < most
}

// suspendLocked records for an object that the watch is interrupted, and since when.
func (g *shared) suspendLocked(o *object, v verdict, err error) {
	if g.phase.Delivers() {
		o.seenUntil, o.version = g.seenUntil, o.lastVersionLocked()
		if v == reopen {
			o.ended = g.watcher.options.Clock.Now()
		}
	}
	switch {
	case o.delivery == deliveryReturning, v == reopen:
		o.suspendLocked()
	case v == restart:
		o.version = ""
		fallthrough
	default:
		o.enterLocked(StateBackoff, err)
	}
	if o.delivery == deliveryShared {
		o.restarts++
	}
}

func (g *shared) absentLocked() {}
