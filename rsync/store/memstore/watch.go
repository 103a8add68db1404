// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"context"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/spokewire/sdk-go/internal/wait"
	"github.com/spokewire/sdk-go/rsync/store"
)

// watch has an unbounded queue, so a slow reader does not delay others.
type watch struct {
	prefix string
	wake   wait.Signal

	mu      sync.Mutex
	pending []store.Watched
}

// Watch implements [store.Data].
func (s *Store) Watch(ctx context.Context, prefix string, fromRevision int64) <-chan store.Watched {
	out := make(chan store.Watched)
	w := &watch{prefix: prefix, wake: wait.NewSignal()}
	s.mu.Lock()
	expired := fromRevision > 0 && fromRevision <= s.dropped
	if !expired {
		if fromRevision > 0 {
			first := sort.Search(len(s.log), func(i int) bool { return s.log[i].revision >= fromRevision })
			w.replay(s.log[first:])
		}
		s.watches[w] = struct{}{}
	}
	s.mu.Unlock()
	go func() {
		defer close(out)
		if expired {
			select {
			case out <- store.Watched{Err: store.ErrCompacted}:
			case <-ctx.Done():
			}
			return
		}
		w.run(ctx, out)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watches, w)
	}()
	return out
}

func (w *watch) replay(log []logged) {
	for len(log) > 0 {
		n := 1
		for n < len(log) && log[n].revision == log[0].revision {
			n++
		}
		events := make([]store.Event, n)
		for i := range events {
			events[i] = log[i].event
		}
		w.add(log[0].revision, events)
		log = log[n:]
	}
}

func (w *watch) add(revision int64, events []store.Event) {
	var mine []store.Event
	for _, e := range events {
		if strings.HasPrefix(e.KV.Key, w.prefix) {
			mine = append(mine, e)
		}
	}
	if mine == nil {
		return
	}
	w.mu.Lock()
	w.pending = append(w.pending, store.Watched{Events: mine, Revision: revision})
	w.mu.Unlock()
	w.wake.Set()
}

func (w *watch) run(ctx context.Context, out chan<- store.Watched) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		}
		w.mu.Lock()
		pending := w.pending
		w.pending = nil
		w.mu.Unlock()
		for _, message := range pending {
			select {
			case <-ctx.Done():
				return
			case out <- message:
			}
		}
	}
}

// Grant implements [store.Leases].
func (s *Store) Grant(ctx context.Context, ttl time.Duration) (store.Lease, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	id := s.last
	s.leases[id] = &lease{ttl: ttl, ends: s.options.Clock.Now().Add(ttl)}
	s.leases[id].timer = s.options.Clock.AfterFunc(ttl, func() { s.expire(id) })
	return id, nil
}

// KeepAlive implements [store.Leases].
func (s *Store) KeepAlive(ctx context.Context, id store.Lease) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.KeepAlives++
	l := s.leases[id]
	if l == nil {
		return store.ErrLeaseNotFound
	}
	l.ends = s.options.Clock.Now().Add(l.ttl)
	l.timer.Reset(l.ttl)
	return nil
}

// Revoke implements [store.Leases].
func (s *Store) Revoke(ctx context.Context, id store.Lease) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(id)
	return nil
}

// expire ends a lease, unless it was renewed while the timer's function waited for the mutex.
func (s *Store) expire(id store.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.leases[id]; l != nil && !s.options.Clock.Now().Before(l.ends) {
		s.end(id)
	}
}

func (s *Store) end(id store.Lease) {
	l := s.leases[id]
	if l == nil {
		return
	}
	l.timer.Stop()
	delete(s.leases, id)
	var ops []store.Op
	for _, key := range s.keys {
		if s.data[key].Lease == id {
			ops = append(ops, store.Delete(key))
		}
	}
	if len(ops) > 0 {
		s.commit(ops)
	}
}
