// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/internal/observe"
	"github.com/spokewire/sdk-go/internal/wait"
)

const (
	minPause = 100 * time.Millisecond
	maxPause = 10 * time.Second
)

// Waiter waits for objects. Its methods may be called concurrently.
type Waiter struct {
	tracker *appliedwork.Tracker
}

// NewWaiter returns a Waiter that uses the client and the discovery of a tracker.
func NewWaiter(tracker *appliedwork.Tracker) *Waiter { return &Waiter{tracker} }

// Options configures [Waiter.Wait]. The zero value waits until the context ends or an object has
// failed.
type Options struct {
	// Timeout limits the wait in addition to the context. Defaults to no limit.
	Timeout time.Duration
	// ContinueOnFailure keeps waiting when an object is [StatusFailed]. By default, Wait returns at
	// once.
	ContinueOnFailure bool
	// OnChange is called with the first result of each object, and whenever its status or message
	// changes, one call at a time and not after Wait has returned. A call that blocks delays the
	// return of Wait, also when the context ends.
	OnChange func(Event)
}

// Event is a change of the status or the message of one object.
type Event struct {
	// Key identifies the object, as the manifest names it.
	Key    appliedwork.Key
	Result Result
}

// NotReadyError reports an object that was not current when Wait returned.
type NotReadyError struct {
	// Key identifies the object, as the manifest names it.
	Key    appliedwork.Key
	Result Result
	Err    error // of the last read, if the object is Unknown
}

// Error returns the object with its status and message.
func (e *NotReadyError) Error() string {
	return fmt.Sprintf("%s is %s: %s", e.Key, e.Result.Status, e.Result.Message)
}

// Unwrap returns the cause.
func (e *NotReadyError) Unwrap() error { return e.Err }

// Wait returns nil when all objects are [StatusCurrent] at the same time. A deleted object is
// [StatusNotFound]; after it is created again, Wait continues with the new object.
//
// When the context ends or Options.Timeout is over, the error joins that of the context and a
// [*NotReadyError] for each object that is not current: first those that are [StatusFailed], then
// the others in the order of objects. When an object has failed, the error joins only the
// NotReadyErrors. Objects that were not read are [StatusUnknown] then.
//
// The error is an [appliedwork.ErrInvalidObject] for an object without a kind or a name, and an
// [appliedwork.ErrInvalidInput] for a negative timeout.
func (w *Waiter) Wait(ctx context.Context, objects []*unstructured.Unstructured, opts Options) error {
	if opts.Timeout < 0 {
		return fmt.Errorf("%w: Options.Timeout: %v: must not be negative", appliedwork.ErrInvalidInput, opts.Timeout)
	}
	run := &run{opts: opts}
	groups, err := run.group(w.tracker, objects)
	if err != nil || len(groups) == 0 {
		return err
	}
	if opts.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, opts.Timeout)
		defer cancel()
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	run.stop = stop
	var watchers sync.WaitGroup
	for _, g := range groups {
		watchers.Go(func() { g.watch(watching) })
	}
	watchers.Wait()
	return run.err(ctx)
}

// run is one call of Wait.
type run struct {
	opts    Options
	stop    context.CancelFunc
	objects []*object // in the order of the caller

	mu      sync.Mutex
	pending int  // objects that are not current
	failed  bool // an object has failed, which ends the wait
}

// object is the state of one object, guarded by run.mu.
type object struct {
	key    appliedwork.Key
	result Result
	err    error
}

// group is the objects of a kind in a namespace.
type group struct {
	*run
	tracker   *appliedwork.Tracker
	kind      schema.GroupVersionKind
	namespace string
	byName    map[string]*object
	get       bool // list or watch cannot be used
}

func (r *run) group(
	tracker *appliedwork.Tracker, objects []*unstructured.Unstructured,
) (map[appliedwork.Key]*group, error) {
	groups := map[appliedwork.Key]*group{}
	for i, obj := range objects {
		key, err := appliedwork.Identify(obj)
		if err != nil {
			return nil, fmt.Errorf("wait for object %d: %w", i, err)
		}
		place := key
		place.Name = ""
		g := groups[place]
		if g == nil {
			g = &group{
				run: r, tracker: tracker, kind: obj.GroupVersionKind(), namespace: key.Namespace, byName: map[string]*object{},
			}
			groups[place] = g
		}
		if g.byName[key.Name] == nil {
			o := &object{key: key}
			g.byName[key.Name] = o
			r.objects = append(r.objects, o)
		}
	}
	r.pending = len(r.objects)
	return groups, nil
}

// set records the result of an object, and ends the wait if that decides it.
func (r *run) set(o *object, result Result, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending == 0 || r.failed {
		return
	}
	before := o.result
	o.result, o.err = result, err
	if result == before {
		return
	}
	switch {
	case result.Status == StatusCurrent && before.Status != StatusCurrent:
		r.pending--
	case result.Status != StatusCurrent && before.Status == StatusCurrent:
		r.pending++
	}
	r.failed = result.Status == StatusFailed && !r.opts.ContinueOnFailure
	if r.pending == 0 || r.failed {
		r.stop()
	}
	if r.opts.OnChange != nil {
		r.opts.OnChange(Event{o.key, result})
	}
}

func (r *run) err(ctx context.Context) error {
	if r.pending == 0 {
		return nil
	}
	var errs []error
	if !r.failed {
		errs = append(errs, ctx.Err())
	}
	others := r.with("", StatusInProgress, StatusTerminating, StatusNotFound, StatusUnknown)
	for _, o := range append(r.with(StatusFailed), others...) {
		if o.result.Status == "" {
			o.result = Result{StatusUnknown, "it has not been read yet"}
		}
		errs = append(errs, &NotReadyError{o.key, o.result, o.err})
	}
	return errors.Join(errs...)
}

func (r *run) with(statuses ...Status) []*object {
	return slices.DeleteFunc(slices.Clone(r.objects), func(o *object) bool {
		return !slices.Contains(statuses, o.result.Status)
	})
}

func (g *group) watch(ctx context.Context) {
	for attempt := 0; ; attempt++ {
		began := time.Now()
		if err := g.round(ctx); err != nil && ctx.Err() == nil {
			for _, o := range g.byName {
				g.set(o, unknown(err), err)
			}
		}
		if time.Since(began) > maxPause {
			attempt = 0
		}
		if !pause(ctx, attempt) {
			return
		}
	}
}

// round observes the objects until the watch ends, or reads them once.
func (g *group) round(ctx context.Context) error {
	client, err := g.tracker.Resource(ctx, g.kind, g.namespace)
	if err != nil {
		return err
	}
	if !g.get {
		listed := false
		err := observe.Objects(ctx, client, g.byName, g.see, func() bool {
			listed = true
			return ctx.Err() != nil
		})
		switch {
		case apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err):
			g.get = true
		case listed || apierrors.IsResourceExpired(err) || apierrors.IsGone(err):
			return nil
		default:
			return err
		}
	}
	for name, o := range g.byName {
		obj, err := client.Get(ctx, name, metav1.GetOptions{})
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			g.see(name, obj)
		case apierrors.IsNotFound(err) && !appliedwork.IsTypeNotServed(err):
			g.see(name, nil)
		default:
			g.set(o, unknown(err), err)
		}
	}
	return nil
}

func (g *group) see(name string, obj *unstructured.Unstructured) {
	if obj == nil {
		g.set(g.byName[name], Result{StatusNotFound, "the object does not exist"}, nil)
		return
	}
	result, err := Of(obj)
	g.set(g.byName[name], result, err)
}

// pause waits for a time that doubles with each attempt. It returns false if ctx ends.
func pause(ctx context.Context, attempt int) bool {
	return wait.Sleep(ctx, clock.RealClock{}, wait.Backoff(minPause, maxPause, attempt)) == nil
}
