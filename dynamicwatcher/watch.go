// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher

import (
	"context"
	"errors"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/spokewire/sdk-go/dynamicwatcher/internal/stream"
)

// watchSource is the purpose of one API watch: an object or a selector ([single]), all watched
// objects of a kind in a namespace ([shared]), or a kind that does not exist yet ([arrival]).
type watchSource interface {
	// target returns the objects to watch. It may wait until ctx ends.
	target(ctx context.Context, gvr ScopedGVR) (stream.Target, error)
	// openLocked prepares for a new stream. It returns the context of the stream, and the version
	// that the stream must not be older than.
	openLocked(ctx context.Context) (context.Context, string)
	// takeLocked handles an event of the stream. Its error ends the stream.
	takeLocked(e stream.Event) error
	// endLocked handles the end of a stream, or the reason why none was opened. It returns false if
	// no stream must follow. Otherwise rest is the delay before the next; 0 means the delay for the
	// reason.
	endLocked(v verdict, err error) (rest time.Duration, again bool)
	// absentLocked records that an awaited kind may have existed for a short time.
	absentLocked()
}

// watch is the goroutine that keeps the stream of a source open. It never waits while it has the
// watcher's mutex. Its context ends under the mutex.
type watch struct {
	watcher *Watcher
	source  watchSource
	gvk     schema.GroupVersionKind // empty if the source has a fixed target
	cancel  context.CancelFunc

	// Only the goroutine uses the following fields.
	gvr     ScopedGVR
	delay   wait.DelayFunc
	arrived time.Time // when the kind appeared
	asked   time.Time // when the stream was requested
	opened  time.Time // when the server answered
	stream  streamPhase
}

// streamPhase is the state of the stream of a [watch]. Each stream begins again at streamClosed.
type streamPhase int8

const (
	streamClosed  streamPhase = iota
	streamListing             // the stream has not sent all existing objects
	streamSynced
)

const (
	// stable is the duration of a stream after which the backoff starts again.
	stable = 5 * time.Second
	// settling is the time for which a kind is new, and needs no delay, even if the server requests
	// it.
	settling = 2 * time.Second
	// maxSuggested limits the delay that the server can request.
	maxSuggested = time.Minute
)

// newBackoff returns the delays between attempts: 50 ms, growing to 30 s, each with jitter.
func newBackoff() wait.DelayFunc {
	return wait.Backoff{
		Duration: 50 * time.Millisecond, Factor: 1.8, Jitter: 0.5, Steps: 100, Cap: 20 * time.Second,
	}.DelayFunc()
}

func (a *watch) startLocked(w *Watcher, s watchSource, gvk schema.GroupVersionKind) context.Context {
	ctx, cancel := context.WithCancel(w.ctx)
	a.watcher, a.source, a.gvk, a.cancel = w, s, gvk, cancel
	w.group.Go(func() {
		defer cancel()
		for ctx.Err() == nil {
			if err := a.follow(ctx); !a.recover(ctx, err) {
				return
			}
		}
	})
	return ctx
}

// follow reads one stream until it ends. Most goroutines wait here nearly all the time, so the
// frame of this function determines the size of their stacks. Other functions do the work and
// return.
func (a *watch) follow(ctx context.Context) error {
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	for {
		if err = s.Wait(); err == nil {
			err = a.next(ctx, s)
		}
		if err != nil {
			return err
		}
	}
}

func (a *watch) open(ctx context.Context) (stream.Stream, error) {
	w := a.watcher
	a.stream = streamClosed
	if a.gvr.Empty() && !a.gvk.Empty() {
		var err error
		if a.gvr, err = w.kinds.resolve(ctx, a.gvk); err != nil {
			return nil, err
		}
	}
	target, err := a.source.target(ctx, a.gvr)
	if err != nil {
		return nil, err
	}
	a.asked = w.options.Clock.Now()
	ctx, version, err := a.begin(ctx)
	if err != nil {
		return nil, err
	}
	s, err := w.opener.Open(ctx, target, version)
	if err == nil {
		a.stream, a.opened = streamListing, w.options.Clock.Now()
	}
	return s, err
}

// beginning returns the version at which a stream begins. A source that has delivered events, or is
// read by queries, must not begin at any version: that could be too old.
func (w *Watcher) beginning(version string, delivered bool) string {
	if version == "" && !delivered && !w.options.EnableCache {
		return stream.AnyVersion
	}
	return version
}

func (a *watch) begin(ctx context.Context) (context.Context, string, error) {
	a.watcher.mu.Lock()
	defer a.watcher.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	ctx, version := a.source.openLocked(ctx)
	return ctx, version, nil
}

func (a *watch) next(ctx context.Context, s stream.Stream) error {
	e, err := s.Next()
	if err != nil {
		return err
	}
	w := a.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := a.source.takeLocked(e); err != nil {
		return err
	}
	if a.stream == streamListing && e.Type == stream.Synced {
		a.stream = streamSynced
		w.metrics.established(w.options.Clock.Since(a.asked))
	}
	return nil
}

// unshareable is a reason of this package for not sharing a watch.
type unshareable string

func (e unshareable) Error() string { return string(e) }

const errScope unshareable = "the scope of the kind has changed"

// verdict is the reaction to the end of a stream, or to a failed request.
type verdict int

const (
	reopen      verdict = iota // immediately, at its last version; with a delay if it was brief
	reconnect                  // like reopen; the opener paces connections
	restart                    // soon, without the expired version
	retry                      // with a delay
	refuse                     // with a delay; the server denies access
	lookUp                     // the kind may not exist any more
	awaitKind                  // the kind does not exist
	unwatchable                // the kind cannot be watched
)

func (v verdict) String() string {
	return [...]string{"ended", "connection", "expired", "error", "refused", "not_found", "no_kind", "unwatchable"}[v]
}

func judge(err error) verdict {
	var kind *KindError
	var identifier *IdentifierError
	switch {
	case errors.Is(err, stream.ErrConnection): // its cause may be an EOF
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

func (a *watch) recover(ctx context.Context, err error) bool {
	w, v := a.watcher, judge(err)
	lasted := a.stream == streamSynced && w.options.Clock.Since(a.opened) > stable
	if lasted {
		a.delay = nil
	}
	if v == lookUp { // before single watches take over
		w.kinds.forget(a.gvk.GroupVersion())
	}
	rest, again := a.end(ctx, v, err)
	if !again {
		return false
	}
	switch v {
	case lookUp, unwatchable:
		a.gvr = ScopedGVR{}
	case awaitKind:
		a.delay = nil
		err := w.awaitKind(ctx, a)
		a.arrived = w.options.Clock.Now()
		return err == nil
	}
	switch {
	case rest > 0:
		a.gvr = ScopedGVR{}
		return w.sleep(ctx, rest)
	case (v == reopen || v == reconnect) && (lasted || a.stream == streamClosed):
		return true
	}
	return a.pause(ctx, err)
}

func (a *watch) end(ctx context.Context, v verdict, err error) (rest time.Duration, again bool) {
	a.watcher.mu.Lock()
	defer a.watcher.mu.Unlock()
	if ctx.Err() != nil {
		return 0, false
	}
	return a.source.endLocked(v, err)
}

func (a *watch) pause(ctx context.Context, err error) bool {
	if a.delay == nil {
		a.delay = newBackoff()
	}
	d := a.delay()
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok && a.watcher.options.Clock.Since(a.arrived) > settling {
		d = max(d, min(time.Duration(seconds)*time.Second, maxSuggested))
	}
	return a.watcher.sleep(ctx, d)
}

// afterLocked calls f under the mutex after a time, unless ctx has ended by then.
func (w *Watcher) afterLocked(ctx context.Context, d time.Duration, f func()) {
	w.group.Go(func() {
		if !w.sleep(ctx, d) {
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if ctx.Err() == nil {
			f()
		}
	})
}
