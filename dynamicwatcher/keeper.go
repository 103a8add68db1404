// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher

import (
	"context"
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/spokewire/sdk-go/dynamicwatcher/internal/stream"
)

const (
	// gathering is for how long no object must have come before a group's stream is begun, so that it begins with all that
	// come at once. mostGatherings bounds it.
	gathering      = 50 * time.Millisecond
	mostGatherings = 10
	// held is how long objects wait for the group's first stream, which may save them streams of their own.
	held = time.Second
	// patience is how long a group's stream may take to tell what exists, and how long giving back may take.
	patience = 30 * time.Second
	// bearable is for how long a group's stream may fail for a reason that may be its own. A server that is overloaded has it
	// for longer: many single watches would be no help.
	bearable, bearableLoad = 3 * time.Second, 30 * time.Second
)

// Why a group's stream is no good, beside what the server has against it.
var (
	errTooLarge  = errors.New("the namespace has too many other objects")
	errSlow      = errors.New("the server takes too long to tell what is in the namespace")
	errLeft      = errors.New("single watches have taken over")
	errUnordered = errors.New("the server's resource versions are no numbers, so that one watch cannot take over from another")
	errScope     = errors.New("the kind has namespaces where its objects have none, or the other way round")
)

// isOwn reports whether an error is one of those.
func isOwn(err error) bool {
	return slices.Contains([]error{errTooLarge, errSlow, errLeft, errUnordered, errScope}, err)
}

// keeper keeps the stream of a group. It is a goroutine's; nothing that this waits for is waited for under the lock.
type keeper struct {
	attempts
	group   *group
	cancel  context.CancelFunc
	again   wait.DelayFunc // how long to be content with single watches
	failing time.Time      // when the first of failures in a row came
	synced  chan struct{}  // closed when the stream has told what exists

	// The watcher's lock guards what follows.
	holds bool // objects do without streams of their own until the first has told what exists, or failed

	// This is of the stream that is open, or being opened.
	stream   context.Context
	cut      context.CancelCauseFunc
	began    bool                 // its first event has come
	pending  map[*object]sighting // what was told so far of those who are to be told of; nil when that is over
	anew     bool                 // the versions that are known are of no use
	leavesBy time.Time            // when objects that are given back must do without it
}

// sighting is what a stream has told of an object so far.
type sighting struct {
	there bool
	uid   types.UID
}

// employ begins a keeper's work. The lock is held.
func (w *Watcher) employ(g *group) {
	if w.ctx == nil || w.stopped {
		return
	}
	ctx, cancel := context.WithCancel(w.ctx)
	k := &keeper{attempts: attempts{watcher: w}, group: g, cancel: cancel, holds: true}
	g.keeper = k
	w.group.Go(func() { k.hold(ctx) })
	w.group.Go(func() {
		defer cancel()
		k.run(ctx)
	})
}

// run keeps the stream until ctx ends, or too few objects are left to begin one.
func (k *keeper) run(ctx context.Context) {
	k.gather(ctx)
	for ctx.Err() == nil && k.wanted() {
		err := k.attempt(ctx)
		if ctx.Err() != nil || !k.recover(ctx, err) {
			return
		}
	}
}

// gather waits for objects that come at the same time.
func (k *keeper) gather(ctx context.Context) {
	for n, more := 0, true; more && n < mostGatherings; n++ {
		before := k.members()
		more = k.watcher.sleep(ctx, gathering) && k.members() > before
	}
}

func (k *keeper) members() int {
	k.watcher.mu.Lock()
	defer k.watcher.mu.Unlock()
	return len(k.group.objects)
}

// hold ends the time in which objects wait for the first stream, when that takes long.
func (k *keeper) hold(ctx context.Context) {
	if !k.watcher.sleep(ctx, held) {
		return
	}
	k.watcher.mu.Lock()
	defer k.watcher.mu.Unlock()
	if k.group.keeper == k {
		k.decided()
	}
}

// decided lets objects begin streams of their own. The lock is held.
func (k *keeper) decided() {
	if k.holds {
		k.holds = false
		k.group.launchAll()
	}
}

// wanted reports whether there are still enough objects, and resigns where not.
func (k *keeper) wanted() bool {
	k.watcher.mu.Lock()
	defer k.watcher.mu.Unlock()
	g := k.group
	if g.keeper == k && !g.serving && !k.watcher.options.Consolidate.enough(len(g.objects)) {
		g.keeper = nil
		k.decided()
	}
	return g.keeper == k
}

// attempt reads one stream until it ends, and returns why.
func (k *keeper) attempt(ctx context.Context) error {
	k.brief = false
	gvr, err := k.watcher.kinds.resolve(ctx, k.group.kind)
	switch {
	case err != nil:
		return err
	case gvr.Namespaced != (k.group.namespace != ""):
		return errScope
	}
	stream, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	k.synced = make(chan struct{})
	k.hurry(stream, cut, k.synced)
	err = k.follow(stream, cut, gvr)
	if stream.Err() != nil {
		return context.Cause(stream)
	}
	return err
}

// hurry ends a stream that does not tell what exists. A request that hangs is not to hold up all objects for long.
func (k *keeper) hurry(ctx context.Context, cut context.CancelCauseFunc, synced <-chan struct{}) {
	k.watcher.group.Go(func() {
		timer := k.watcher.options.Clock.NewTimer(patience)
		defer timer.Stop()
		select {
		case <-timer.C():
			cut(errSlow)
		case <-synced:
		case <-ctx.Done():
		}
	})
}

// follow opens a stream and reads it, unless the namespace is too large to begin.
func (k *keeper) follow(ctx context.Context, cut context.CancelCauseFunc, gvr ScopedGVR) error {
	t := stream.Target{Resource: gvr.GroupVersionResource, Namespace: k.group.namespace}
	if err := k.measure(ctx, t); err != nil {
		return err
	}
	s, err := k.watcher.wide.Open(ctx, t, k.begin(ctx, cut))
	if err != nil {
		return err
	}
	defer s.Close()
	opened := k.watcher.options.Clock.Now()
	for {
		e, err := s.Next()
		if err == nil {
			err = k.took(e)
		}
		if err != nil {
			k.over(k.inBeginning(), opened)
			return err
		}
	}
}

// begin notes that a stream is begun, and returns the version to begin at: it must not be older than what objects know.
func (k *keeper) begin(ctx context.Context, cut context.CancelCauseFunc) (version string) {
	k.watcher.mu.Lock()
	defer k.watcher.mu.Unlock()
	g := k.group
	k.asked = k.watcher.options.Clock.Now()
	k.stream, k.cut, k.began = ctx, cut, false
	k.pending = make(map[*object]sighting, len(g.objects))
	g.open, g.size, version = true, 0, g.version
	for _, o := range g.objects {
		k.pending[o] = sighting{}
		version = later(version, o.version)
		if o.own == nil && o.state == Active {
			o.enter(Establishing, nil)
		}
	}
	if k.anew {
		return ""
	}
	return version
}

func (k *keeper) inBeginning() bool {
	k.watcher.mu.Lock()
	defer k.watcher.mu.Unlock()
	return k.pending != nil
}

// measure asks how large the namespace is, before objects depend on the stream. From then on the stream itself tells.
func (k *keeper) measure(ctx context.Context, t stream.Target) error {
	k.watcher.mu.Lock()
	serving, n := k.group.serving, len(k.group.objects)
	k.watcher.mu.Unlock()
	if serving {
		return nil
	}
	size, err := k.watcher.wide.Count(ctx, t)
	if err == nil && !k.watcher.options.Consolidate.fits(n, size) {
		err = errTooLarge
	}
	return err
}

// recover does what the end of a stream calls for, and reports whether to begin another.
func (k *keeper) recover(ctx context.Context, err error) bool {
	v := judge(err)
	if v == lookUp { // also by the objects' own streams
		k.watcher.kinds.forget(k.group.kind.GroupVersion())
	}
	resigned, ok := k.failed(v, err)
	switch {
	case !ok:
		return false
	case v == awaitKind:
		k.delay = nil
		err := k.watcher.arrivals.wait(ctx, k.group.kind, func() {})
		k.arrived = k.watcher.options.Clock.Now()
		return err == nil
	case resigned:
		return k.rest(ctx)
	case v == reopen, v == reconnect:
		return !k.brief || k.pause(ctx, err)
	}
	return k.pause(ctx, err)
}

// failed books why there is no stream. Where the reason is not one that objects' own streams would have too, they have those
// again.
func (k *keeper) failed(v verdict, err error) (resigned, ok bool) {
	w, g := k.watcher, k.group
	w.mu.Lock()
	defer w.mu.Unlock()
	if g.keeper != k {
		return false, false
	}
	if !isOwn(err) {
		w.metrics.ended(v)
	}
	leaving := g.leaving
	g.interrupted(v, err)
	k.pending, k.anew = nil, k.anew || v == restart
	k.decided()
	switch v {
	case reopen, reconnect, restart:
		resigned, k.failing = leaving, time.Time{}
	case awaitKind, unwatchable:
		resigned = true
	default:
		resigned = leaving || isOwn(err) || v == refuse && !g.serving || k.hopeless(err)
	}
	if resigned {
		k.failing = time.Time{}
		g.release()
	}
	return resigned, true
}

// hopeless notes a failure, and reports whether there were others for long.
func (k *keeper) hopeless(err error) bool {
	now, most := k.watcher.options.Clock.Now(), bearable
	if apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) {
		most = bearableLoad
	}
	if k.failing.IsZero() {
		k.failing = now
	}
	return now.Sub(k.failing) >= most
}

// rest waits until one stream for all may be tried again: some minutes, longer each time.
func (k *keeper) rest(ctx context.Context) bool {
	if k.again == nil {
		k.again = wait.Backoff{Duration: time.Minute, Factor: 2, Jitter: 0.2, Steps: 100, Cap: 30 * time.Minute}.DelayFunc()
	}
	return k.watcher.sleep(ctx, k.again())
}
