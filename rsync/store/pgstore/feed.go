// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package pgstore

import (
	"context"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/internal/wait"
	"github.com/spokewire/sdk-go/rsync/store"
)

const (
	// pollEvery is the time between two reads of the events without a notification.
	pollEvery = time.Second
	// quietFailures is the number of failed reads that are not logged. One broken connection is no
	// news.
	quietFailures = 2
	// retryFirst and retryMost are the pauses after failed reads.
	retryFirst, retryMost = 50 * time.Millisecond, time.Second
)

// feed reads the events of a store for all its watches that are up to date. It reads after a
// transaction of this Store, after a notification, when a lease may have expired, and every second.
// It reads nothing while no watch exists.
type feed struct {
	s      *Store
	wake   wait.Signal // read now
	listen wait.Signal // connect for notifications

	mu      sync.Mutex
	head    int64 // the last revision that was read
	watches map[*watch]struct{}
}

func newFeed(s *Store) *feed {
	return &feed{s: s, wake: wait.NewSignal(), listen: wait.NewSignal(), watches: map[*watch]struct{}{}}
}

// page is the result of the function rsync_events: the events of some prefixes after a revision, up
// to the revision last.
type page struct {
	head, last, compacted int64
	wait                  *float64 // seconds until a lease may expire
	revisions             []int64
	keys, values          [][]byte // a value is nil if the key was deleted
	created, leases       []int64
}

// read returns the events after a revision. With a negative revision it returns no events.
func (s *Store) read(ctx context.Context, after int64, prefixes ...string) (p page, err error) {
	ctx, cancel := s.limited(ctx)
	defer cancel()
	var from, to [][]byte
	var revision *int64
	if after >= 0 {
		revision = &after
		for _, prefix := range prefixes {
			from, to = append(from, []byte(prefix)), append(to, end(prefix))
		}
	}
	err = s.db.Pool.QueryRow(ctx, s.sql.events, s.id, revision, from, to).Scan(&p.head, &p.last, &p.compacted, &p.wait,
		&p.revisions, &p.keys, &p.values, &p.created, &p.leases)
	if err != nil {
		return p, s.failure(ctx, "read the events", err)
	}
	return p, nil
}

// covers reports whether a page has all events from a revision on. The database may have compacted
// them, or may have been restored to an earlier revision.
func (p *page) covers(from int64) bool { return from > p.compacted && from <= p.head+1 }

// messages returns the events of a prefix from a revision on, one message for each revision, and
// their size.
func (p *page) messages(prefix string, from int64) (out []store.Watched, bytes int) {
	for i, revision := range p.revisions {
		key := string(p.keys[i])
		if revision < from || !strings.HasPrefix(key, prefix) {
			continue
		}
		if len(out) == 0 || out[len(out)-1].Revision != revision {
			out = append(out, store.Watched{Revision: revision})
		}
		event := store.Event{Deleted: p.values[i] == nil, KV: store.KeyValue{Key: key, ModRevision: revision}}
		if !event.Deleted {
			event.KV.Value, event.KV.CreateRevision = value(p.values[i]), p.created[i]
			event.KV.Lease = store.Lease(p.leases[i])
		}
		message := &out[len(out)-1]
		message.Events = append(message.Events, event)
		bytes += 100 + len(key) + len(event.KV.Value)
	}
	return out, bytes
}

// hint wakes the feed if it has not read a revision.
func (f *feed) hint(revision int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if revision > f.head && len(f.watches) > 0 {
		f.wake.Set()
	}
}

func (f *feed) add(w *watch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watches[w] = struct{}{}
	f.wake.Set()
	f.listen.Set()
}

func (f *feed) remove(w *watch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.watches, w)
}

// run reads events until the store is closed.
func (f *feed) run() {
	failures := 0
	for f.s.ctx.Err() == nil {
		pause, err := f.poll()
		switch {
		case err == nil:
			failures = 0
		case f.s.ctx.Err() == nil:
			if failures == quietFailures {
				klog.FromContext(f.s.ctx).Error(err, "Failed to read events, retrying", "store", f.s.options.Name)
			}
			pause = wait.Backoff(retryFirst, retryMost, failures)
			failures++
		}
		timer := time.NewTimer(pause)
		select {
		case <-f.s.ctx.Done():
		case <-timer.C:
		case <-f.wake:
		}
		timer.Stop()
	}
}

// poll reads events once, and returns the time until the next read.
func (f *feed) poll() (time.Duration, error) {
	f.mu.Lock()
	watches, prefixes := maps.Clone(f.watches), map[string]struct{}{}
	first := int64(math.MaxInt64)
	for w := range watches {
		prefixes[w.prefix] = struct{}{}
		first = min(first, w.next)
	}
	f.mu.Unlock()
	if len(watches) == 0 {
		return time.Hour, nil
	}
	p, err := f.s.read(f.s.ctx, first-1, slices.Collect(maps.Keys(prefixes))...)
	if err != nil {
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.head = p.last
	for w := range watches {
		if _, exists := f.watches[w]; exists && !w.addLocked(&p) {
			delete(f.watches, w)
		}
	}
	pause := pollEvery
	if p.wait != nil {
		pause = min(pause, max(time.Duration(*p.wait*float64(time.Second)), time.Millisecond))
	}
	if p.last < p.head {
		pause = 0
	}
	return pause, nil
}

// notifications wakes the feed for transactions of other Stores, until the store is closed. It
// connects when the first watch exists.
func (f *feed) notifications() {
	for failures := 0; ; failures++ {
		select {
		case <-f.s.ctx.Done():
			return
		case <-f.listen:
		}
		if f.receive() {
			failures = 0
		}
		_ = wait.Sleep(f.s.ctx, clock.RealClock{}, wait.Backoff(retryFirst, retryMost, failures))
		f.listen.Set()
	}
}

// receive receives notifications until the connection fails. The feed logs such errors. It reports
// whether it was connected.
func (f *feed) receive() bool {
	ctx := f.s.ctx
	conn, err := f.s.db.Connect(ctx)
	if err != nil {
		return false
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(ctx) // nothing is lost with it
	}()
	if _, err := conn.Exec(ctx, "LISTEN spokewire_rsync_"+strconv.Itoa(f.s.id)); err != nil {
		return false
	}
	f.wake.Set()
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return true
		}
		if revision, err := strconv.ParseInt(n.Payload, 10, 64); err == nil {
			f.hint(revision)
		}
	}
}
