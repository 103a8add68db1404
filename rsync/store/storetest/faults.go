// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spokewire/sdk-go/rsync/store"
)

// The errors of a Faults.
var (
	// ErrInjected is returned by a failing call.
	ErrInjected = errors.New("injected failure of the store")
	// ErrCrashed is returned by every call after a crash. A crash simulates the end of the caller's
	// process.
	ErrCrashed = errors.New("injected crash")
)

// Verdict is the result of a write.
type Verdict int

// The verdicts.
const (
	VerdictPass        Verdict = iota
	VerdictFailBefore          // not executed, and an error
	VerdictFailAfter           // executed, and an error
	VerdictCrashBefore         // not executed, and all later calls fail
	VerdictCrashAfter          // executed, and all later calls fail
)

// Faults is one process's view of a store. Writes (Txn with ops) are numbered from 1.
type Faults struct {
	store.Store
	// Plan, if set before the first use, decides the result of the n-th write.
	Plan func(n int, ops []store.Op) Verdict
	// Delay is the duration of each call. It must not be changed after the first use.
	Delay time.Duration

	mu      sync.Mutex
	writes  int
	crashed chan struct{}
	held    chan struct{}
	log     []Write
	counts  Counts
}

// Counts has the numbers of calls that reached the store. Keys is the number of keys that their
// Gets and Ranges returned.
type Counts struct{ Gets, Ranges, Txns, Keys int }

// Plus returns the sum.
func (c Counts) Plus(d Counts) Counts {
	return Counts{c.Gets + d.Gets, c.Ranges + d.Ranges, c.Txns + d.Txns, c.Keys + d.Keys}
}

// Minus returns the difference.
func (c Counts) Minus(d Counts) Counts {
	return Counts{c.Gets - d.Gets, c.Ranges - d.Ranges, c.Txns - d.Txns, c.Keys - d.Keys}
}

// Counts returns the numbers of calls through this view. Watches and leases are not counted.
func (f *Faults) Counts() Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts
}

func (f *Faults) count(c Counts) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts = f.counts.Plus(c)
}

// Write is a transaction that the store executed or rejected.
type Write struct {
	Compares []store.Compare
	Ops      []store.Op
	Result   store.TxnResult
	// Held is true if the write was sent before or during Hold and reached the store after Release.
	Held bool
	// At is the time at which the store returned.
	At time.Time
}

// NewFaults returns a view of a store that fails according to plan. A nil plan never fails.
func NewFaults(s store.Store, plan func(n int, ops []store.Op) Verdict) *Faults {
	return &Faults{Store: s, Plan: plan, crashed: make(chan struct{})}
}

// Crashed is closed by a crash.
func (f *Faults) Crashed() <-chan struct{} { return f.crashed }

// Writes returns the number of writes.
func (f *Faults) Writes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.writes
}

// Log returns the writes that reached the store.
func (f *Faults) Log() []Write {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.log)
}

// Crash makes every call fail from now on.
func (f *Faults) Crash() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.crash()
}

func (f *Faults) crash() {
	select {
	case <-f.crashed:
	default:
		close(f.crashed)
	}
}

// Claims returns the writes that claimed the contexts of an engine that ended. Each of these writes
// has the condition that the session key of the ended engine is absent.
func (f *Faults) Claims() []Write {
	var out []Write
	for _, w := range f.Log() {
		for _, c := range w.Compares {
			if w.Result.Succeeded && c == store.Absent(c.Key) && strings.HasPrefix(c.Key, "/rsync/engine/") &&
				w.Ops[0].Key != c.Key {
				out = append(out, w)
				break
			}
		}
	}
	return out
}

// MaxTxnBytes implements [store.Limits].
func (f *Faults) MaxTxnBytes() int {
	bytes, _ := store.LimitsOf(f.Store)
	return bytes
}

// MaxTxnOps implements [store.Limits].
func (f *Faults) MaxTxnOps() int {
	_, ops := store.LimitsOf(f.Store)
	return ops
}

// Hold delays all calls until Release, as if the network were cut or the process frozen. Delayed
// writes then reach the store late, even if their ctx has ended. A fence must reject them.
func (f *Faults) Hold() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held == nil {
		f.held = make(chan struct{})
	}
}

// Release ends Hold.
func (f *Faults) Release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held != nil {
		close(f.held)
		f.held = nil
	}
}

// pass waits until calls may continue. It reports whether this call had to wait.
func (f *Faults) pass(ctx context.Context) (bool, error) {
	f.mu.Lock()
	held := f.held
	f.mu.Unlock()
	if f.Delay > 0 {
		select {
		case <-time.After(f.Delay):
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	if held != nil {
		select {
		case <-held:
		case <-f.crashed:
		case <-ctx.Done():
			return true, ctx.Err()
		}
	}
	select {
	case <-f.crashed:
		return false, ErrCrashed
	default:
		return held != nil, nil
	}
}

// Get implements [store.Data].
func (f *Faults) Get(ctx context.Context, key string) (store.KeyValue, error) {
	if _, err := f.pass(ctx); err != nil {
		return store.KeyValue{}, err
	}
	kv, err := f.Store.Get(ctx, key)
	c := Counts{Gets: 1}
	if kv.Exists() {
		c.Keys = 1
	}
	f.count(c)
	return kv, err
}

// Range implements [store.Data].
func (f *Faults) Range(ctx context.Context, prefix string) (store.RangeResult, error) {
	if _, err := f.pass(ctx); err != nil {
		return store.RangeResult{}, err
	}
	result, err := f.Store.Range(ctx, prefix)
	f.count(Counts{Ranges: 1, Keys: len(result.KVs)})
	return result, err
}

// Txn implements [store.Data].
func (f *Faults) Txn(ctx context.Context, compares []store.Compare, ops []store.Op) (store.TxnResult, error) {
	if err := ctx.Err(); err != nil {
		return store.TxnResult{}, err
	}
	var result store.TxnResult
	answered := make(chan error, 1)
	go func() { // it continues if the caller stops waiting
		var err error
		result, err = f.txn(context.WithoutCancel(ctx), compares, ops)
		answered <- err
	}()
	select {
	case err := <-answered:
		return result, err
	case <-ctx.Done():
		return store.TxnResult{}, ctx.Err()
	}
}

func (f *Faults) txn(ctx context.Context, compares []store.Compare, ops []store.Op) (store.TxnResult, error) {
	held, err := f.pass(ctx)
	if err != nil {
		return store.TxnResult{}, err
	}
	verdict := VerdictPass
	f.mu.Lock()
	if len(ops) > 0 {
		f.writes++
		if f.Plan != nil {
			verdict = f.Plan(f.writes, ops)
		}
	}
	if verdict == VerdictCrashBefore {
		f.crash()
	}
	f.mu.Unlock()
	switch verdict {
	case VerdictFailBefore:
		return store.TxnResult{}, ErrInjected
	case VerdictCrashBefore:
		return store.TxnResult{}, ErrCrashed
	}
	result, err := f.Store.Txn(ctx, compares, ops)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts.Txns++
	if err == nil {
		f.log = append(f.log, Write{compares, ops, result, held, time.Now()})
	}
	switch verdict {
	case VerdictFailAfter:
		return store.TxnResult{}, ErrInjected
	case VerdictCrashAfter:
		f.crash()
		return store.TxnResult{}, ErrCrashed
	}
	return result, err
}

// Watch implements [store.Data]. Hold also delays its messages.
func (f *Faults) Watch(ctx context.Context, prefix string, fromRevision int64) <-chan store.Watched {
	out := make(chan store.Watched)
	go func() {
		defer close(out)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		for message := range f.Store.Watch(ctx, prefix, fromRevision) {
			if _, err := f.pass(ctx); err != nil {
				return
			}
			select {
			case out <- message:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// Grant implements [store.Leases].
func (f *Faults) Grant(ctx context.Context, ttl time.Duration) (store.Lease, error) {
	if _, err := f.pass(ctx); err != nil {
		return 0, err
	}
	return f.Store.Grant(ctx, ttl)
}

// KeepAlive implements [store.Leases].
func (f *Faults) KeepAlive(ctx context.Context, lease store.Lease) error {
	if _, err := f.pass(ctx); err != nil {
		return err
	}
	return f.Store.KeepAlive(ctx, lease)
}

// Revoke implements [store.Leases].
func (f *Faults) Revoke(ctx context.Context, lease store.Lease) error {
	if _, err := f.pass(ctx); err != nil {
		return err
	}
	return f.Store.Revoke(ctx, lease)
}
