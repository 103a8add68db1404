// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher

import (
	"context"
	"errors"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/spokewire/sdk-go/dynamicwatcher/internal/stream"
)

const (
	// lostRefusals and lostAfter say when access is lost for good: that many refusals in a row over at least that time.
	lostRefusals = 5
	lostAfter    = 3 * time.Second
)

// verdict is what to do about the end of a stream, or about one that did not begin.
type verdict int

const (
	reopen      verdict = iota // at once, where it ended; after a while if it had just begun
	reconnect                  // likewise, and as soon as the server can be reached, which the opener paces
	restart                    // soon, without the version: it is of no more use
	retry                      // after a while
	refuse                     // after a while; the server says no
	lookUp                     // the kind may be gone
	awaitKind                  // the kind is gone
	unwatchable                // the kind will not do
)

// String returns the value of the label reason.
func (v verdict) String() string {
	return [...]string{"ended", "connection", "expired", "error", "refused", "not_found", "no_kind", "unwatchable"}[v]
}

// judge reads an error.
func judge(err error) verdict {
	var kind *KindError
	var identifier *IdentifierError
	switch {
	case errors.Is(err, stream.ErrConnection): // which may have an EOF for its cause
		return reconnect
	case err == nil, errors.Is(err, io.EOF):
		return reopen
	case errors.As(err, &kind) && errors.Is(err, ErrNoVersionedResource):
		return awaitKind
	case errors.As(err, &kind), errors.As(err, &identifier), apierrors.IsMethodNotSupported(err):
		return unwatchable
	case stream.Expired(err):
		return restart
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return refuse
	case apierrors.IsNotFound(err), errors.Is(err, errScope):
		return lookUp
	}
	return retry
}

// recover does what the end of a stream calls for, and reports whether to begin another. It clears gvr where that is to
// be looked up anew.
func (f *follower) recover(ctx context.Context, err error, gvr *ScopedGVR) bool {
	v := judge(err)
	if !f.failed(v, err) {
		return false
	}
	switch v {
	case reopen, reconnect:
		return !f.brief || f.pause(ctx, err)
	case lookUp:
		*gvr = ScopedGVR{}
		f.watcher.kinds.forget(f.object.id.GroupVersionKind().GroupVersion())
	case awaitKind:
		f.delay = nil
		err := f.watcher.arrivals.wait(ctx, f.object.id.GroupVersionKind(), f.stillAbsent)
		f.arrived = f.watcher.options.Clock.Now()
		return err == nil
	case refuse:
		if f.refusedForGood() && f.lost(err) {
			return false
		}
	case unwatchable:
		*gvr = ScopedGVR{}
		if errors.Is(err, ErrInvalidInput) && f.lost(err) {
			return false
		}
	}
	return f.pause(ctx, err)
}

// failed books why there is no stream, and reports whether there is to be another.
func (f *follower) failed(v verdict, err error) bool {
	o := f.object
	o.watcher.mu.Lock()
	defer o.watcher.mu.Unlock()
	if o.own != f {
		return false
	}
	o.live = false
	o.restarts++
	o.watcher.metrics.ended(v)
	switch {
	case o.cared() && !o.group.leaving: // it was about to be ended
		o.bridge()
		o.quit()
		return false
	case o.cared() && v != awaitKind: // the group's stream tells on until there is another
		return true
	}
	switch v {
	case reopen:
	case restart:
		o.version = ""
		o.enter(Backoff, err)
	case awaitKind:
		o.enter(PendingKind, err)
		o.absent()
	case refuse, unwatchable:
		o.enter(NoAccess, err)
		o.refusal = err
		o.settle()
	default:
		o.enter(Backoff, err)
	}
	return true
}

// stillAbsent books that a kind which is awaited may have come and gone.
func (f *follower) stillAbsent() {
	f.watcher.mu.Lock()
	defer f.watcher.mu.Unlock()
	if f.object.own == f {
		f.object.absent()
	}
}

// refusedForGood counts a refusal.
func (f *follower) refusedForGood() bool {
	now := f.watcher.options.Clock.Now()
	if f.refusals == 0 {
		f.refused = now
	}
	f.refusals++
	return f.refusals >= lostRefusals && now.Sub(f.refused) >= lostAfter
}

// lost tells the watchers, once, and reports whether the object is given up.
func (f *follower) lost(err error) bool {
	o, w := f.object, f.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	if o.own != f || o.told || o.cared() {
		return false
	}
	o.told = true
	for watcher := range o.watchers.all() {
		if w.options.AccessLost == DropAndNotify {
			w.registry.unsubscribe(watcher, o)
		}
		w.notify(watcher, o.trigger(AccessWasLost, stream.Event{}))
	}
	w.logger.Error(err, "The server refuses to let an object be watched", "object", o.id, "dropped", w.options.AccessLost == DropAndNotify)
	if w.options.AccessLost == DropAndNotify {
		w.drop(o)
	}
	return w.options.AccessLost == DropAndNotify
}
