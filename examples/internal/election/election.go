// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package election elects the leader of the replicas of a program, in a store of package rsync that
// they share, and forwards requests to it.
//
// The leader owns a key with its address, under a lease that it renews. A follower takes over when
// the lease expires. It also keeps a response of the leader open: when the connection breaks and the
// leader's address refuses new connections, the process has ended, and the follower ends the lease.
// A needless takeover is safe: each write of [Election.Store] is conditional on the key.
package election

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/internal/httpserve"
	"github.com/spokewire/sdk-go/internal/wait"
	"github.com/spokewire/sdk-go/rsync/store"
)

// ErrDeposed is returned when this replica does not lead any more.
var ErrDeposed = errors.New("this replica is not the leader any more")

const (
	// Path is the path at which a replica must serve its Election.
	Path = "/leader"
	// DefaultTTL is the default of [Options].TTL.
	DefaultTTL = 5 * time.Second

	// redial is the time between two attempts to reach the leader.
	redial = 50 * time.Millisecond
	// Failed calls of the store are repeated after a delay that doubles.
	retryFirst, retryMost = 100 * time.Millisecond, time.Second
)

// Options configures an [Election]. All fields without a default are required.
type Options struct {
	// Store is shared by all replicas.
	Store store.Store
	// Key is the key in the store that the leader owns.
	Key string
	// Address is the URL at which the other replicas reach this one.
	Address string
	// Secret is common to all replicas, see [Secret]. Requests between replicas have it.
	Secret string
	// TLS is the configuration for the leader's certificate. Nil is the default of crypto/tls.
	TLS *tls.Config
	// TTL is the time after which a leader is replaced that does not renew its lease, because it is
	// frozen or disconnected. Defaults to 5 s, and is at least 1 s.
	TTL time.Duration
	// Log receives changes of the leader, and failures.
	Log klog.Logger
}

// Election is the part of one replica in the election. Its methods may be called concurrently.
type Election struct {
	options   Options
	transport *http.Transport

	mu     sync.Mutex
	term   *term   // nil if this replica does not lead
	leader *leader // nil if no leader is known
}

// term is the time during which this replica leads.
type term struct {
	kv  store.KeyValue
	ctx context.Context
	end context.CancelCauseFunc
}

// leader is another replica that leads. Its ctx ends when it does not lead any more.
type leader struct {
	address string
	ctx     context.Context
	reached atomic.Bool // by this replica
}

// New returns an election that is not started.
func New(o Options) *Election {
	o.TTL = cmp.Or(o.TTL, DefaultTTL)
	return &Election{options: o, transport: &http.Transport{
		DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext, IdleConnTimeout: time.Minute,
		TLSClientConfig: o.TLS, TLSHandshakeTimeout: dialTimeout,
	}}
}

// Start takes part in the election until ctx ends. It calls lead, with a context that ends with the
// leadership, when this replica becomes the leader. Then it returns the error of lead, or an
// ErrDeposed if the leadership ended first or the store fails.
func (e *Election) Start(ctx context.Context, lead func(context.Context) error) error {
	defer e.transport.CloseIdleConnections()
	logged := ""
	for failures := 0; ctx.Err() == nil; failures++ {
		asked := time.Now()
		kv, leads, err := e.campaign(ctx)
		switch {
		case err == nil && leads:
			return e.lead(ctx, kv, asked, lead)
		case err == nil:
			failures = 0
			err = e.follow(ctx, kv)
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		if err.Error() != logged {
			logged = err.Error()
			e.options.Log.Error(err, "Failed to elect a leader, retrying")
		}
		_ = wait.Sleep(ctx, clock.RealClock{}, wait.Backoff(retryFirst, retryMost, failures))
	}
	return nil
}

// campaign puts the key if it does not exist. It returns the key.
func (e *Election) campaign(ctx context.Context) (kv store.KeyValue, leads bool, err error) {
	kv, err = e.options.Store.Get(ctx, e.options.Key)
	if err != nil || kv.Exists() {
		return kv, false, err
	}
	lease, err := e.options.Store.Grant(ctx, e.options.TTL)
	if err != nil {
		return kv, false, err
	}
	result, err := e.options.Store.Txn(ctx, []store.Compare{store.Absent(e.options.Key)},
		[]store.Op{store.PutLeased(e.options.Key, []byte(e.options.Address), lease)})
	switch {
	case err != nil:
		return kv, false, errors.Join(err, e.revoke(ctx, lease)) // the key may exist
	case !result.Succeeded:
		return result.Current[0], false, e.revoke(ctx, lease)
	}
	return store.KeyValue{Key: e.options.Key, ModRevision: result.Revision, Lease: lease}, true, nil
}

// revoke ends a lease of this replica, also after the end of ctx.
func (e *Election) revoke(ctx context.Context, lease store.Lease) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	return e.options.Store.Revoke(ctx, lease)
}

func (e *Election) lead(
	parent context.Context, kv store.KeyValue, asked time.Time, lead func(context.Context) error,
) error {
	ctx, end := context.WithCancelCause(parent)
	defer end(nil)
	t := &term{kv, ctx, end}
	e.set(t, nil)
	defer e.set(nil, nil)
	e.options.Log.Info("Became the leader")
	var renewing sync.WaitGroup
	renewing.Go(func() { e.renew(t, asked) })
	err := lead(ctx)
	if err != nil && parent.Err() == nil && !errors.Is(err, ErrDeposed) {
		if _, failed := e.Store().Txn(parent, nil, nil); failed != nil {
			err = fmt.Errorf("%w: %w", ErrDeposed, err)
		}
	}
	if cause := context.Cause(ctx); errors.Is(cause, ErrDeposed) {
		err = cause
	}
	end(nil)
	renewing.Wait()
	_ = e.revoke(parent, kv.Lease) // otherwise it expires
	return err
}

// renew renews the lease. By the clock of this process the term ends before the lease, because it
// counts from the time of the request.
func (e *Election) renew(t *term, asked time.Time) {
	over := time.AfterFunc(time.Until(asked.Add(e.options.TTL)), func() {
		t.end(fmt.Errorf("%w: its lease could not be renewed", ErrDeposed))
	})
	defer over.Stop()
	for pause := e.options.TTL / 3; wait.Sleep(t.ctx, clock.RealClock{}, pause) == nil; {
		asked = time.Now()
		err := e.options.Store.KeepAlive(t.ctx, t.kv.Lease)
		switch {
		case err == nil:
			over.Reset(time.Until(asked.Add(e.options.TTL)))
			pause = e.options.TTL / 3
		case errors.Is(err, store.ErrLeaseNotFound):
			t.end(fmt.Errorf("%w: %w", ErrDeposed, err))
			return
		default:
			pause = e.options.TTL / 20
		}
	}
}

// follow returns when the key of a leader was deleted or replaced.
func (e *Election) follow(parent context.Context, kv store.KeyValue) error {
	ctx, cancel := context.WithCancel(parent)
	var attending sync.WaitGroup
	defer attending.Wait()
	defer cancel()
	l := &leader{address: string(kv.Value), ctx: ctx}
	e.set(nil, l)
	e.options.Log.Info("Detected the leader", "address", l.address)
	attending.Go(func() { e.attend(l, kv) })
	for watched := range e.options.Store.Watch(ctx, kv.Key, kv.ModRevision+1) {
		if watched.Err != nil {
			return watched.Err
		}
		if len(watched.Events) > 0 {
			e.set(nil, nil)
			return nil
		}
	}
	return nil
}

// attend ends the lease of a leader that was reached before, when its process has ended.
func (e *Election) attend(l *leader, kv store.KeyValue) {
	ctx, logged, began := l.ctx, false, time.Now()
	for ctx.Err() == nil {
		err := e.attach(l, kv)
		reached := l.reached.Load()
		switch {
		case ctx.Err() != nil:
			return
		case reached && errors.Is(err, syscall.ECONNREFUSED):
			if e.options.Store.Revoke(ctx, kv.Lease) == nil {
				e.options.Log.Info("Detected the end of the leader", "address", l.address)
				return
			}
		case !reached && !logged && time.Since(began) > dialTimeout: // it may not have noticed yet that it leads
			logged = true
			e.options.Log.Error(err, "Failed to reach the leader, requests cannot be forwarded: is address its --advertise?",
				"address", l.address)
		}
		_ = wait.Sleep(ctx, clock.RealClock{}, redial)
	}
}

// attach keeps a response of the leader open.
func (e *Election) attach(l *leader, kv store.KeyValue) error {
	url := fmt.Sprintf("%s%s?term=%d", l.address, Path, kv.ModRevision)
	r, err := http.NewRequestWithContext(l.ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	r.Header.Set(secretHeader, e.options.Secret)
	answer, err := e.transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return errors.New(answer.Status)
	}
	l.reached.Store(true)
	_, err = answer.Body.Read(make([]byte, 1)) // until the leader ends
	return err
}

// ServeHTTP sends a response to a follower that does not end while this replica leads.
func (e *Election) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !e.FromReplica(r) {
		http.Error(w, "the request has not the secret of the replicas", http.StatusForbidden)
		return
	}
	t, _ := e.state()
	if t == nil || r.FormValue("term") != strconv.FormatInt(t.kv.ModRevision, 10) {
		http.Error(w, "this replica does not lead", http.StatusServiceUnavailable)
		return
	}
	httpserve.EndTurn(r.Context())
	w.WriteHeader(http.StatusOK)
	if http.NewResponseController(w).Flush() != nil {
		return
	}
	select {
	case <-t.ctx.Done():
	case <-r.Context().Done():
	}
}

// Follows returns an error unless another replica leads, and this one has reached it.
func (e *Election) Follows() error {
	switch _, l := e.state(); {
	case l == nil:
		return errors.New("no replica is known to lead")
	case !l.reached.Load():
		return fmt.Errorf("the leader was not reached at %s", l.address)
	}
	return nil
}

func (e *Election) set(t *term, l *leader) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.term, e.leader = t, l
}

func (e *Election) state() (*term, *leader) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.term, e.leader
}
