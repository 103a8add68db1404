// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spokewire/sdk-go/rsync/connector"
)

const (
	// patience limits how long a Get, which occupies a call of the engine, waits for answers.
	patience = time.Second
	// retryAfter is the time for which an error is the answer.
	retryAfter = 5 * time.Second
	// forgetAfter is the time for which a late answer waits for a Get.
	forgetAfter = 15 * time.Second
)

// questions has the calls to the interpreter for a cluster, with slots for each kind.
type questions struct {
	interpreter Interpreter
	timeout     time.Duration
	limit       int // for each kind

	ctx     context.Context // ends all questions
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	kinds    map[schema.GroupVersionKind]*slots
	answers  map[subject]*answer
	watchers map[*func()]struct{}
}

// slots are the slots of a kind. taken has an element for each entry of running, or more.
type slots struct {
	taken   chan struct{}
	running map[*answer]struct{}
	missed  bool // whether a Get has ended without a slot
	logged  failures
}

type subject struct {
	gvk             schema.GroupVersionKind
	namespace, name string
}

// answer is the answer to a question. Its fields healthy, err and at are set when done is closed.
type answer struct {
	version  string // of the object
	resource string // its resourceVersion
	again    bool   // whether the object was healthy under an earlier resourceVersion of the version
	began    time.Time
	done     chan struct{}
	missed   bool // whether a Get has ended without the answer
	hangs    bool // whether the call has not returned, long after its context has ended
	healthy  bool
	err      error
	at       time.Time
}

func newQuestions(o Options) *questions {
	q := &questions{
		interpreter: o.Interpreter, timeout: o.Timeout, limit: o.Concurrency,
		kinds: map[schema.GroupVersionKind]*slots{}, answers: map[subject]*answer{}, watchers: map[*func()]struct{}{},
	}
	q.ctx, q.cancel = context.WithCancel(context.Background())
	return q
}

// close ends all questions. It does not wait for calls that ignore their context.
func (q *questions) close() {
	q.cancel()
	q.running.Wait()
}

// watch registers a function that is called after each answer that a Get has missed.
func (q *questions) watch(changed func()) (end func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.watchers[&changed] = struct{}{}
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.watchers, &changed)
	}
}

// found is an object that a Get has read, and its state.
type found struct {
	gvk    schema.GroupVersionKind
	object *unstructured.Unstructured
	state  *connector.State
}

// judge replaces the states of objects by the states after the interpreter's answers.
func (q *questions) judge(ctx context.Context, all []*found) {
	q.forget()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	byKind := map[schema.GroupVersionKind][]*found{}
	for _, f := range all {
		byKind[f.gvk] = append(byKind[f.gvk], f)
	}
	var kinds sync.WaitGroup
	for _, some := range byKind {
		kinds.Go(func() {
			var group errgroup.Group
			group.SetLimit(q.limit)
			for _, f := range some {
				group.Go(func() error {
					healthy, err := q.health(ctx, f.gvk, f.object)
					*f.state = interpreted(*f.state, f.object, healthy, err)
					return nil
				})
			}
			_ = group.Wait()
		})
	}
	kinds.Wait()
}

// health returns the answer about an object, or errPending if there is none in time. Only the first
// Get after a question waits for its answer.
//
// A late answer may be about an earlier status. Then the interpreter is asked again, and the late
// answer counts until then if it is not healthy, or healthy for the second time: a status that
// changes all the time must not keep an object from being ready.
func (q *questions) health(
	ctx context.Context, gvk schema.GroupVersionKind, u *unstructured.Unstructured,
) (bool, error) {
	about := subject{gvk, u.GetNamespace(), u.GetName()}
	a := q.ask(ctx, about, u, false)
	if !q.wait(ctx, a) {
		return false, errPending
	}
	fails := a.err != nil && !errors.Is(a.err, ErrNotInterpreted)
	if !fails {
		q.drop(about, a)
	}
	if fails || a.resource == u.GetResourceVersion() {
		return a.healthy, a.err
	}
	next := q.ask(ctx, about, u, a.healthy)
	switch {
	case q.wait(ctx, next):
		return next.healthy, next.err
	case a.healthy && !a.again:
		return false, errPending
	}
	return a.healthy, a.err
}

// wait reports whether a question was answered in time.
func (q *questions) wait(ctx context.Context, a *answer) bool {
	if a == nil {
		return false
	}
	ctx, cancel := context.WithDeadline(ctx, a.began.Add(patience))
	defer cancel()
	select {
	case <-a.done:
		return true
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-a.done: // meanwhile
		return true
	default:
		a.missed = true
		return false
	}
}

// ask returns the answer about an object, which may be pending. It returns nil if there is no free
// slot before ctx ends, and immediately if all questions about the kind are slow. healthy is the
// answer about an earlier status.
func (q *questions) ask(ctx context.Context, about subject, u *unstructured.Unstructured, healthy bool) *answer {
	version := versionOf(u)
	if a := q.known(about, version); a != nil {
		return a
	}
	kind, slow := q.slots(about.gvk)
	select {
	case kind.taken <- struct{}{}:
	default:
		if slow {
			q.noSlot(kind)
			return nil
		}
		select {
		case kind.taken <- struct{}{}:
		case <-ctx.Done():
			q.noSlot(kind)
			return nil
		}
	}
	a := &answer{
		version: version, resource: u.GetResourceVersion(), again: healthy, began: time.Now(),
		done: make(chan struct{}),
	}
	q.mu.Lock()
	q.answers[about] = a
	kind.running[a] = struct{}{}
	q.mu.Unlock()
	q.running.Go(func() {
		defer func() { <-kind.taken }()
		healthy, err := q.put(context.WithoutCancel(ctx), u, a)
		q.report(ctx, kind, about, err)
		for _, changed := range q.answered(kind, a, healthy, err) {
			(*changed)()
		}
	})
	return a
}

// noSlot records that a Get has ended without a slot. A slot is free after the next answer, or now
// if no call is running.
func (q *questions) noSlot(kind *slots) {
	q.mu.Lock()
	defer q.mu.Unlock()
	kind.missed = len(kind.running) > 0
	if !kind.missed {
		for changed := range q.watchers {
			q.running.Go(*changed)
		}
	}
}

// answered records an answer. It returns the functions to call if a Get has missed the answer.
func (q *questions) answered(kind *slots, a *answer, healthy bool, err error) (late []*func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(kind.running, a)
	a.healthy, a.err, a.at = healthy, err, time.Now()
	close(a.done)
	if !a.missed && !kind.missed {
		return nil
	}
	kind.missed = false
	return slices.Collect(maps.Keys(q.watchers))
}

// put calls the interpreter. It does not wait for a call that ignores its context. A panic is an
// error without the panic value, which may be content of the object.
func (q *questions) put(ctx context.Context, u *unstructured.Unstructured, a *answer) (healthy bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, q.timeout)
	defer cancel()
	defer context.AfterFunc(q.ctx, cancel)()
	type result struct {
		healthy bool
		err     error
	}
	results := make(chan result, 1)
	go func() {
		var r result
		defer func() {
			if p := recover(); p != nil {
				r = result{err: fmt.Errorf("the interpreter panicked with a %T", p)}
			}
			results <- r
		}()
		r.healthy, r.err = q.interpreter.Health(ctx, u)
	}()
	var r result
	select {
	case r = <-results:
	case <-ctx.Done():
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case r = <-results:
		case <-timer.C:
			q.setHangs(a, true)
			go func() {
				<-results
				q.setHangs(a, false)
			}()
			return false, lateError{q.timeout}
		}
	}
	if r.err != nil && ctx.Err() != nil {
		return false, lateError{q.timeout}
	}
	return r.healthy && r.err == nil, r.err
}

// setHangs records whether a call hangs. Meanwhile there is no further call for its object.
func (q *questions) setHangs(a *answer, hangs bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	a.hangs = hangs
}

// versionOf identifies the version of an object, by its generation if it has one: an object with a
// status that changes all the time would never get an answer from a slow interpreter.
func versionOf(u *unstructured.Unstructured) string {
	if generation := u.GetGeneration(); generation > 0 {
		return fmt.Sprintf("%s/%d", u.GetUID(), generation)
	}
	return fmt.Sprintf("%s/%s", u.GetUID(), u.GetResourceVersion())
}

// slots returns the slots of a kind, and whether all are taken by questions that no Get waits for.
func (q *questions) slots(gvk schema.GroupVersionKind) (kind *slots, slow bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	kind = q.kinds[gvk]
	if kind == nil {
		kind = &slots{taken: make(chan struct{}, q.limit), running: map[*answer]struct{}{}}
		q.kinds[gvk] = kind
	}
	for a := range kind.running {
		if time.Since(a.began) < patience {
			return kind, false
		}
	}
	return kind, len(kind.running) == q.limit
}

// known returns the answer about a version of an object. It returns nil if there is no answer, or
// if it is an error older than retryAfter.
func (q *questions) known(about subject, version string) *answer {
	q.mu.Lock()
	defer q.mu.Unlock()
	a := q.answers[about]
	if a == nil || !a.hangs && (a.version != version || a.err != nil && time.Since(a.at) > retryAfter) {
		return nil
	}
	return a
}

func (q *questions) drop(about subject, a *answer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.answers[about] == a {
		delete(q.answers, about)
	}
}

// forget drops answers that no Get has asked for.
func (q *questions) forget() {
	q.mu.Lock()
	defer q.mu.Unlock()
	maps.DeleteFunc(q.answers, func(_ subject, a *answer) bool {
		return !a.hangs && !a.at.IsZero() && time.Since(a.at) > forgetAfter
	})
}
