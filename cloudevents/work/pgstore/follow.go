// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package pgstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/postgres"
	"github.com/spokewire/sdk-go/internal/wait"
)

// position is a batch of the feed. After a failover or a restored backup, the database may have
// another batch with the same revision. The writer and its number of the batch identify the batch.
type position struct {
	revision int64
	writer   string
	batch    int64
}

func (p position) String() string { return fmt.Sprintf("%d/%s/%d", p.revision, p.writer, p.batch) }

// parsePosition reads the result of String. It returns ErrBehind for any other text.
func parsePosition(text string) (p position, err error) {
	parts := strings.Split(text, "/")
	if len(parts) == 3 {
		p.writer = parts[1]
		p.revision, _ = strconv.ParseInt(parts[0], 10, 64)
		p.batch, _ = strconv.ParseInt(parts[2], 10, 64)
	}
	if p.String() != text {
		return p, work.ErrBehind
	}
	return p, nil
}

// partBytes is the size of a part of a state.
const partBytes = 1 << 20

// follower is one call of Follow.
type follower struct {
	*Store
	f    func(work.Batch) error
	at   position // the last batch that f has received
	conn *pgx.Conn
	own  *inbox
	// noticed is the revision of the last notification.
	noticed int64
	// refused is the error of f.
	refused error
	// reached is when the server last answered.
	reached time.Time
}

// Follow implements [work.SharedStore]. It has a connection of its own, and reads a state in parts
// of 1 MiB. While the server is away, it tries to continue for RetryTimeout, but not within a state.
func (s *Store) Follow(ctx context.Context, position string, keys []string, f func(work.Batch) error) error {
	caller := ctx
	ctx, cancel := s.bound(ctx)
	defer cancel()
	follower := &follower{Store: s, f: f}
	err := follower.run(ctx, position, keys)
	switch {
	case follower.refused != nil:
		return follower.refused
	case caller.Err() != nil:
		return nil
	}
	return s.failed(ctx, err)
}

func (f *follower) run(ctx context.Context, position string, keys []string) error {
	if err := f.state(ctx, position, keys); err != nil {
		return err
	}
	defer f.disconnect()
	f.reached = time.Now()
	for failures := 0; ; failures++ {
		before := f.reached
		err := f.tail(ctx)
		f.disconnect()
		if ctx.Err() != nil || f.refused != nil || !postgres.Retryable(err) ||
			time.Since(f.reached) > f.options.RetryTimeout {
			return err
		}
		if f.reached.After(before) {
			failures = 0
		}
		if err := wait.Sleep(ctx, clock.RealClock{}, wait.Backoff(firstRetry, lastRetry, failures)); err != nil {
			return err
		}
	}
}

// disconnect closes the connection of this follower. A notification that arrives at a server's
// connection while pgbouncer resets it for the next client confuses pgbouncer 1.18.
func (f *follower) disconnect() {
	if f.conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, _ = f.conn.Exec(ctx, "UNLISTEN *")
		_ = f.conn.Close(ctx) // the connection may be broken
		f.conn = nil
	}
}

// deliver calls f with a batch.
func (f *follower) deliver(changes []work.Change, position string) error {
	f.refused = f.f(work.Batch{Changes: changes, Position: position})
	return f.refused
}

// state delivers the whole content, or the changes since a position.
func (f *follower) state(ctx context.Context, position string, keys []string) error {
	return f.retry(ctx, 0, func(ctx context.Context) (final bool, err error) {
		var part []work.Change
		size := 0
		add := func(key, value []byte) error {
			part = append(part, work.Change{Key: string(key), Value: bytes.Clone(value)})
			if size += len(key) + len(value); size < partBytes {
				return nil
			}
			changes := part
			part, size, final = nil, 0, true // f must not receive a record twice
			return f.deliver(changes, "")
		}
		if position == "" {
			f.at, err = f.read(ctx, add)
		} else {
			f.at, err = f.readSince(ctx, position, keys, add)
		}
		if err != nil {
			return final, err
		}
		return true, f.deliver(part, f.at.String())
	})
}

// tail delivers new batches until the connection fails.
func (f *follower) tail(ctx context.Context) error {
	connecting, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	var err error
	if f.conn, err = f.db.Connect(connecting); err != nil {
		return err
	}
	if _, err := f.conn.Exec(connecting, fmt.Sprintf("LISTEN spokewire_works_%d", f.id)); err != nil {
		return err
	}
	f.own = &inbox{wake: func() {}}
	defer f.Store.own.join(f.own)()
	for {
		for more := true; more; f.reached = time.Now() {
			if more, err = f.catchUp(ctx); err != nil {
				return err
			}
		}
		for current := true; current; {
			if current, err = f.await(ctx); err != nil {
				return err
			}
		}
	}
}

// await delivers the batches of this Store, and waits for the next or for a notification, at most
// for PollInterval. Notifications may be lost, for example by pgbouncer in its transaction mode. It
// returns false if the server may have other batches.
func (f *follower) await(ctx context.Context) (current bool, err error) {
	waiting, wake := context.WithTimeout(ctx, f.options.PollInterval)
	defer wake()
	batches, pending := f.Store.own.take(f.own, wake)
	for _, b := range batches {
		switch {
		case b.at.revision <= f.at.revision:
			continue
		case b.before != f.at:
			return false, nil
		}
		if err := f.deliver(b.changes, b.at.String()); err != nil {
			return false, err
		}
		f.at, f.reached = b.at, time.Now()
	}
	if f.noticed > f.at.revision && !pending {
		return false, nil
	}
	notification, err := f.conn.WaitForNotification(waiting)
	switch {
	case err == nil:
		f.noticed, _ = strconv.ParseInt(notification.Payload, 10, 64)
		return true, nil
	case ctx.Err() == nil && waiting.Err() != nil && !f.conn.IsClosed():
		return !errors.Is(waiting.Err(), context.DeadlineExceeded), nil
	}
	return false, err
}

// catchUp delivers the next batches. more is whether there may be further batches.
func (f *follower) catchUp(ctx context.Context) (more bool, err error) {
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	limit := time.AfterFunc(attemptTimeout, cancel) // without the time that deliver takes
	defer limit.Stop()
	rows, err := f.conn.Query(asking, f.db.SQL(feedQuery), f.id, f.at.revision)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	count := 0
	for ; rows.Next(); count++ {
		limit.Stop()
		var last position
		var revision, batch *int64
		var writer *string
		var keys, values [][]byte
		err := rows.Scan(&last.revision, &last.writer, &last.batch, &revision, &writer, &batch, &keys, &values)
		if err != nil {
			return false, err
		}
		switch {
		case revision == nil && last != f.at: // the store was restored, or the feed was removed
			return false, work.ErrBehind
		case revision == nil:
			return false, rows.Err()
		}
		row := position{*revision, *writer, *batch}
		if count == 0 { // the batch that f has received must still be there
			if row != f.at {
				return false, work.ErrBehind
			}
			continue
		}
		if row.revision != f.at.revision+1 {
			return false, work.ErrBehind
		}
		if err := f.deliver(changesOf(keys, values), row.String()); err != nil {
			return false, err
		}
		f.at = row
		limit.Reset(attemptTimeout)
	}
	if err := rows.Err(); err != nil {
		if asking.Err() != nil && ctx.Err() == nil {
			err = fmt.Errorf("no answer for %v: %w", attemptTimeout, os.ErrDeadlineExceeded)
		}
		return false, err
	}
	if count == 0 {
		return false, f.gone()
	}
	return count > 1, nil
}

func changesOf(keys, values [][]byte) []work.Change {
	changes := make([]work.Change, len(keys))
	for i := range keys {
		changes[i] = work.Change{Key: string(keys[i]), Value: values[i]}
	}
	return changes
}
