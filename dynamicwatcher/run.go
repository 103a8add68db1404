// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher

import (
	"context"
	"errors"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/spokewire/sdk-go/dynamicwatcher/internal/stream"
)

const (
	// lostRefusals and lostAfter say when access is lost for good: that many refusals in a row over at least that time.
	lostRefusals = 5
	lostAfter    = 3 * time.Second

	// settling is for how long a kind has only just come. The server asks everybody to come again in a second meanwhile,
	// and is ready much sooner.
	settling = 2 * time.Second
	// maxSuggested bounds how long the server can make a watch wait.
	maxSuggested = time.Minute
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
	switch {
	case errors.Is(err, stream.ErrConnection): // which may have an EOF for its cause
		return reconnect
	case err == nil, errors.Is(err, io.EOF):
		return reopen
	case errors.As(err, &kind) && errors.Is(err, ErrNoVersionedResource):
		return awaitKind
	case errors.As(err, &kind), apierrors.IsMethodNotSupported(err):
		return unwatchable
	case stream.Expired(err):
		return restart
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return refuse
	case apierrors.IsNotFound(err):
		return lookUp
	}
	return retry
}

// run keeps a stream on the object until ctx ends.
func (o *object) run(ctx context.Context) {
	gvr := &ScopedGVR{}
	for ctx.Err() == nil {
		err := o.resolve(ctx, gvr)
		if err == nil {
			err = o.follow(ctx, gvr)
		}
		if ctx.Err() != nil || !o.recover(ctx, err, gvr) {
			return
		}
	}
}

// resolve looks up the kind, if it is not known.
func (o *object) resolve(ctx context.Context, gvr *ScopedGVR) (err error) {
	if gvr.Empty() {
		*gvr, err = o.watcher.kinds.resolve(ctx, o.id.GroupVersionKind())
	}
	return err
}

// recover does what the end of a stream calls for, and reports whether to begin another. It clears gvr where that is to
// be looked up anew.
func (o *object) recover(ctx context.Context, err error, gvr *ScopedGVR) bool {
	v := judge(err)
	o.failed(v, err)
	switch v {
	case reopen, reconnect:
		return !o.brief || o.pause(ctx, err)
	case lookUp:
		*gvr = ScopedGVR{}
		o.watcher.kinds.forget(o.id.GroupVersionKind().GroupVersion())
	case awaitKind:
		o.delay = nil
		err := o.watcher.arrivals.wait(ctx, o.id.GroupVersionKind(), o.stillAbsent)
		o.arrived = o.watcher.options.Clock.Now()
		return err == nil
	case refuse:
		if o.refusedForGood() && o.lost(err) {
			return false
		}
	}
	return o.pause(ctx, err)
}

// failed books why there is no stream.
func (o *object) failed(v verdict, err error) {
	o.watcher.mu.Lock()
	defer o.watcher.mu.Unlock()
	o.status.Restarts++
	o.watcher.metrics.ended(v)
	switch v {
	case reopen:
		return
	case restart:
		o.status.ResourceVersion = ""
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
}

// refusedForGood counts a refusal.
func (o *object) refusedForGood() bool {
	now := o.watcher.options.Clock.Now()
	if o.refusals == 0 {
		o.refused = now
	}
	o.refusals++
	return o.refusals >= lostRefusals && now.Sub(o.refused) >= lostAfter
}

// lost tells the watchers, once, and reports whether the object is given up.
func (o *object) lost(err error) bool {
	w := o.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	if o.told {
		return false
	}
	o.told = true
	for watcher := range o.watchers {
		if w.options.AccessLost == DropAndNotify {
			w.registry.unsubscribe(watcher, o)
		}
		w.notify(watcher, o.trigger(AccessWasLost, stream.Event{}))
	}
	w.logger.Error(err, "The server refuses to let an object be watched", "object", o.id, "dropped", w.options.AccessLost == DropAndNotify)
	return w.options.AccessLost == DropAndNotify
}

// newBackoff returns the delays between attempts: 50 ms, growing to 30 s, each with jitter.
func newBackoff() wait.DelayFunc {
	return wait.Backoff{Duration: 50 * time.Millisecond, Factor: 1.8, Jitter: 0.5, Steps: 100, Cap: 20 * time.Second}.DelayFunc()
}

// pause waits before the next attempt: as long as the server asks for, or longer each time.
func (o *object) pause(ctx context.Context, err error) bool {
	if o.delay == nil {
		o.delay = newBackoff()
	}
	d := o.delay()
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok && o.watcher.options.Clock.Since(o.arrived) > settling {
		d = max(d, min(time.Duration(seconds)*time.Second, maxSuggested))
	}
	timer := o.watcher.options.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-ctx.Done():
		return false
	}
}
