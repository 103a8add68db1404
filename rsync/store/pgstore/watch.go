// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package pgstore

import (
	"context"

	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/internal/wait"
	"github.com/spokewire/sdk-go/rsync/store"
)

// maxQueued limits the bytes of a watch's queue. A watch with more reads the events by itself when
// its reader has received the queue, so a slow reader needs no memory and delays no other watch.
const maxQueued = 4 << 20

// watch sends events to one reader. At first, and after its queue was full, it reads the events by
// itself until it is up to date. Then the feed reads for it, and the mutex of the feed guards
// next, queue, bytes and err.
type watch struct {
	s      *Store
	prefix string
	out    chan store.Watched
	wake   wait.Signal

	next  int64 // the next revision to read
	queue []store.Watched
	bytes int
	err   error // ends the watch after the queue
}

// Watch implements [store.Data]. After a broken connection the watch resumes. It ends with
// ErrCompacted if the database does not have the events from fromRevision on, and with ErrClosed
// when the store is closed. For 0 as fromRevision it reads the revision of the store before it
// returns.
func (s *Store) Watch(ctx context.Context, prefix string, fromRevision int64) <-chan store.Watched {
	w := &watch{
		s: s, prefix: prefix, out: make(chan store.Watched), wake: wait.NewSignal(), next: max(fromRevision, 0),
	}
	if fromRevision <= 0 {
		// Events of transactions after this call must not be missed.
		if p, err := s.read(ctx, -1); err == nil {
			w.next = p.head + 1
		}
	}
	if !s.spawn(func() { w.run(ctx) }) {
		go w.end(ctx, store.ErrClosed)
	}
	return w.out
}

func (w *watch) run(ctx context.Context) {
	following, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.s.ctx, cancel)()
	err := w.follow(following)
	w.s.feed.remove(w)
	if w.s.ctx.Err() != nil {
		go w.end(ctx, store.ErrClosed) // Close does not wait for the reader
		return
	}
	w.end(ctx, err)
}

// end sends an error, unless ctx has ended, and closes the channel.
func (w *watch) end(ctx context.Context, err error) {
	defer close(w.out)
	if err != nil {
		w.send(ctx, []store.Watched{{Err: err}})
	}
}

func (w *watch) send(ctx context.Context, messages []store.Watched) bool {
	for _, m := range messages {
		if ctx.Err() != nil {
			return false
		}
		select {
		case <-ctx.Done():
			return false
		case w.out <- m:
		}
	}
	return true
}

// follow sends events until ctx ends. It returns nil then.
func (w *watch) follow(ctx context.Context) error {
	for {
		if err := w.catchUp(ctx); err != nil || ctx.Err() != nil {
			return err
		}
		for live := true; live; {
			select {
			case <-ctx.Done():
				return nil
			case <-w.wake:
			}
			var messages []store.Watched
			var err error
			messages, live, err = w.take()
			if !w.send(ctx, messages) {
				return nil
			}
			if err != nil {
				return err
			}
		}
	}
}

// catchUp reads and sends events until the watch is up to date, and adds it to the feed.
func (w *watch) catchUp(ctx context.Context) error {
	for failures := 0; ; {
		p, err := w.s.read(ctx, w.next-1, w.prefix)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			_ = wait.Sleep(ctx, clock.RealClock{}, wait.Backoff(retryFirst, retryMost, failures))
			failures++
			continue
		}
		failures = 0
		if w.next == 0 { // from now on, but the first read failed
			w.next = p.head + 1
		}
		if !p.covers(w.next) {
			return store.ErrCompacted
		}
		messages, _ := p.messages(w.prefix, w.next)
		if !w.send(ctx, messages) {
			return nil
		}
		w.next = p.last + 1
		if p.last == p.head {
			w.s.feed.add(w)
			return nil
		}
	}
}

// addLocked adds the events of a page to the queue. It returns false if the feed must not read for
// the watch any more.
func (w *watch) addLocked(p *page) bool {
	if !p.covers(w.next) {
		w.err = store.ErrCompacted
		w.wake.Set()
		return false
	}
	if w.bytes > maxQueued {
		w.wake.Set()
		return false
	}
	messages, bytes := p.messages(w.prefix, w.next)
	w.next = p.last + 1
	if len(messages) > 0 {
		w.queue, w.bytes = append(w.queue, messages...), w.bytes+bytes
		w.wake.Set()
	}
	return true
}

// take returns the queued messages, and reports whether the feed continues to read for the watch.
func (w *watch) take() (messages []store.Watched, live bool, err error) {
	w.s.feed.mu.Lock()
	defer w.s.feed.mu.Unlock()
	messages, w.queue, w.bytes = w.queue, nil, 0
	_, live = w.s.feed.watches[w]
	return messages, live, w.err
}
