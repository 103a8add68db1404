// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/postgres"
	"github.com/spokewire/sdk-go/internal/wait"
)

// Defaults of [Options].
const (
	DefaultName         = "default"
	DefaultSchema       = postgres.DefaultSchema
	DefaultFeedBytes    = 64 << 20
	DefaultFeedAge      = 10 * time.Minute
	DefaultPollInterval = time.Second
	DefaultRetryTimeout = 10 * time.Second
)

const (
	// attemptTimeout bounds one statement: a server may accept a connection and never answer.
	attemptTimeout = 15 * time.Second
	// firstRetry and lastRetry are the least and the greatest delay of the backoff between attempts.
	firstRetry = 50 * time.Millisecond
	lastRetry  = time.Second
)

// Options configures a [Store].
type Options struct {
	// ConnString names the server, the database and the user: a URL or keywords and values, as in
	// libpq. Settings that it lacks come from the environment variables of libpq, PGSERVICE and
	// PGPASSFILE included. It may name several servers; then add target_session_attrs=read-write.
	// The setting pool_max_conns limits the connections, 4 by default; each call of Follow has one
	// more.
	ConnString string
	// Name is the name of the store in the database. Each source or agent needs its own; its
	// replicas share one. Use the source's ID if the database has several. Defaults to "default".
	Name string
	// Schema is the schema of the database that has the tables. Defaults to "spokewire".
	Schema string
	// SkipMigration makes Open fail with [ErrNotMigrated] if the tables are missing or too old. By
	// default Open calls Migrate then.
	SkipMigration bool
	// FeedBytes and FeedAge bound the batches that the database keeps for followers. They default to
	// 64 MiB and 10 min. A follower that is further behind reads the whole content again.
	FeedBytes int64
	FeedAge   time.Duration
	// PollInterval is how long a follower waits for a notification before it queries the database.
	// Defaults to 1 s.
	PollInterval time.Duration
	// RetryTimeout is how long a write or a follower tries to continue after the connection broke or
	// the server restarted. Then it returns the error. Defaults to 10 s. With a negative value it
	// does not retry.
	RetryTimeout time.Duration
}

// The causes of errors of [Open], [Migrate] and the methods of a [Store], for errors.Is. Errors of
// the server are *pgconn.PgError, for errors.As.
var (
	ErrNotMigrated = postgres.ErrNotMigrated
	ErrNewerSchema = postgres.ErrNewerSchema
	ErrReadOnly    = postgres.ErrReadOnly
	ErrPrivileges  = postgres.ErrPrivileges
	// ErrClosed is returned by the methods of a [Store] after Close.
	ErrClosed = errors.New("the store is closed")
)

// Store is a [work.SharedStore] in PostgreSQL. Its methods may be called from any goroutine.
type Store struct {
	db      *postgres.DB
	options Options
	id      int64
	writer  string        // identifies this Store among those that write
	turn    chan struct{} // has a token during a write
	batch   int64         // number of the last batch; guarded by turn
	own     own

	life context.Context // ended by Close
	end  context.CancelFunc
}

var _ work.SharedStore = &Store{}

// Open connects to the server, and creates the store if it does not exist. Its errors name the
// server and the cause: an unreachable server, a refused user or password, a missing database, a
// read-only server, a newer schema, missing privileges. They do not contain the password. Open does
// not wait for an unreachable server.
func Open(ctx context.Context, options Options) (*Store, error) {
	options = options.withDefaults()
	if err := options.validate(); err != nil {
		return nil, err
	}
	db, err := postgres.Open(ctx, options.database())
	if err != nil {
		return nil, fmt.Errorf("open the store %q: %w", options.Name, err)
	}
	s := &Store{db: db, options: options, writer: uuid.NewString(), turn: make(chan struct{}, 1)}
	if err := db.Pool.QueryRow(ctx, db.SQL(openQuery), options.Name).Scan(&s.id); err != nil {
		db.Close()
		return nil, fmt.Errorf("open the store %q: %w", options.Name, db.Explain(err))
	}
	s.life, s.end = context.WithCancel(context.WithoutCancel(ctx))
	return s, nil
}

// Migrate creates the tables, or updates them to the version of this program. Only one program at a
// time does this. Programs of earlier versions continue to run, unless the release notes state
// otherwise. It returns [ErrNewerSchema] if a newer version has changed the tables incompatibly.
// The fields Name, FeedBytes, FeedAge, PollInterval and RetryTimeout do not matter.
func Migrate(ctx context.Context, options Options) error {
	if err := postgres.Migrate(ctx, options.database()); err != nil {
		return fmt.Errorf("migrate the schema of stores: %w", err)
	}
	return nil
}

func (o Options) withDefaults() Options {
	o.Name = cmp.Or(o.Name, DefaultName)
	o.FeedBytes = cmp.Or(o.FeedBytes, DefaultFeedBytes)
	o.FeedAge = cmp.Or(o.FeedAge, DefaultFeedAge)
	o.PollInterval = cmp.Or(o.PollInterval, DefaultPollInterval)
	o.RetryTimeout = cmp.Or(o.RetryTimeout, DefaultRetryTimeout)
	return o
}

func (o Options) validate() error {
	switch {
	case o.FeedBytes < 0:
		return fmt.Errorf("invalid Options.FeedBytes: %d: must be positive", o.FeedBytes)
	case o.FeedAge < 0:
		return fmt.Errorf("invalid Options.FeedAge: %v: must be positive", o.FeedAge)
	case o.PollInterval < 0:
		return fmt.Errorf("invalid Options.PollInterval: %v: must be positive", o.PollInterval)
	}
	return nil
}

func (o Options) database() postgres.Options {
	return postgres.Options{
		ConnString: o.ConnString, Schema: o.Schema, Component: component, SkipMigration: o.SkipMigration,
	}
}

// Close ends the calls in progress, which return [ErrClosed], and closes the connections. It may be
// called more than once. It returns nil.
func (s *Store) Close() error {
	s.end()
	s.db.Close()
	return nil
}

// Healthy returns an error if the store cannot be used now: it makes the checks of [Open] again.
func (s *Store) Healthy(ctx context.Context) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	err := s.db.Healthy(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// bound returns a context that ends with ctx or with Close.
func (s *Store) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if s.life.Err() != nil {
		cancel(ErrClosed)
	}
	stop := context.AfterFunc(s.life, func() { cancel(ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// failed returns the error of a call. ctx is a context of bound: its end is the cause.
func (s *Store) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return s.db.Diagnose(ctx, err)
}

// Load implements [work.Store]. It reads one consistent state. f may call Apply.
func (s *Store) Load(ctx context.Context, f func(key string, value []byte) error) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	var refused error
	err := s.retry(ctx, 0, func(ctx context.Context) (final bool, err error) {
		_, err = s.read(ctx, func(key, value []byte) error {
			final = true // f must not receive a record twice
			refused = f(string(key), value)
			return refused
		})
		return final, err
	})
	if refused != nil {
		return refused
	}
	if err != nil {
		return s.failed(ctx, err)
	}
	return nil
}

// read calls f with the records of one state, and returns the position of this state in the feed. f
// must not keep its arguments.
func (s *Store) read(ctx context.Context, f func(key, value []byte) error) (at position, err error) {
	err = pgx.BeginTxFunc(ctx, s.db.Pool, pgx.TxOptions{BeginQuery: beginRead}, func(tx pgx.Tx) (err error) {
		if at, err = s.last(ctx, tx); err != nil {
			return err
		}
		return each(f)(tx.Query(ctx, s.db.SQL(loadQuery), s.id))
	})
	return at, err
}

// readSince is read for the records that have changed since a position, and those of keys.
func (s *Store) readSince(
	ctx context.Context, since string, keys []string, f func(key, value []byte) error,
) (at position, err error) {
	from, err := parsePosition(since)
	if err != nil {
		return at, err
	}
	err = pgx.BeginTxFunc(ctx, s.db.Pool, pgx.TxOptions{BeginQuery: beginReadSince}, func(tx pgx.Tx) (err error) {
		if at, err = s.last(ctx, tx); err != nil {
			return err
		}
		then := position{revision: from.revision}
		err = tx.QueryRow(ctx, s.db.SQL(batchQuery), s.id, from.revision).Scan(&then.writer, &then.batch)
		switch {
		case errors.Is(err, pgx.ErrNoRows), err == nil && then != from:
			return work.ErrBehind
		case err != nil:
			return err
		}
		wanted := make([][]byte, len(keys))
		for i, key := range keys {
			wanted[i] = []byte(key)
		}
		return each(f)(tx.Query(ctx, s.db.SQL(sinceQuery), s.id, from.revision, wanted))
	})
	return at, err
}

// last returns the position of the last batch.
func (s *Store) last(ctx context.Context, tx pgx.Tx) (at position, err error) {
	err = tx.QueryRow(ctx, s.db.SQL(lastQuery), s.id).Scan(&at.revision, &at.writer, &at.batch)
	if errors.Is(err, pgx.ErrNoRows) {
		err = s.gone()
	}
	return at, err
}

// each returns a function that calls f with the keys and values of a query.
func each(f func(key, value []byte) error) func(pgx.Rows, error) error {
	return func(rows pgx.Rows, err error) error {
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			record := rows.RawValues()
			if err := f(record[0], record[1]); err != nil {
				return err
			}
		}
		return rows.Err()
	}
}

func (s *Store) gone() error {
	return fmt.Errorf("the store %q does not exist any more: open it again", s.options.Name)
}

// Apply implements [work.Store].
func (s *Store) Apply(ctx context.Context, changes []work.Change) error {
	return s.apply(ctx, nil, changes)
}

// ApplyIf implements [work.SharedStore].
func (s *Store) ApplyIf(ctx context.Context, condition work.Change, changes []work.Change) error {
	return s.apply(ctx, &condition, changes)
}

// apply writes batches one after another: the server refuses a batch that arrives after a later
// one. So it can be repeated when its result is unknown, and the network cannot deliver it later.
func (s *Store) apply(ctx context.Context, condition *work.Change, changes []work.Change) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if len(changes) == 0 && condition == nil {
		return nil
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-s.turn }()
	s.batch++
	batch := s.encode(condition, changes)
	var result string
	s.own.begin()
	err := s.retry(ctx, attemptTimeout, func(ctx context.Context) (final bool, err error) {
		result, err = s.send(ctx, batch)
		return false, err
	})
	if before, other := parsePosition(result); err == nil && other == nil {
		s.own.end(&before, position{before.revision + 1, s.writer, s.batch}, changes)
		return nil
	}
	s.own.end(nil, position{}, nil)
	switch {
	case err != nil:
		return s.failed(ctx, err)
	case result == "condition":
		return work.ErrCondition
	case result == "gone":
		return s.db.Explain(s.gone())
	case result == "stale":
		return s.db.Explain(errors.New("a later batch was applied before this one"))
	}
	return nil
}

// retry repeats an attempt for RetryTimeout, while its error may be temporary and final is false.
// limit bounds one attempt; 0 means no limit.
func (s *Store) retry(
	ctx context.Context, limit time.Duration, attempt func(context.Context) (final bool, err error),
) error {
	began := time.Now()
	for failures := 0; ; failures++ {
		limited, cancel := ctx, context.CancelFunc(func() {})
		if limit > 0 {
			limited, cancel = context.WithTimeout(ctx, limit)
		}
		final, err := attempt(limited)
		cancel()
		if err == nil || final || ctx.Err() != nil || !postgres.Retryable(err) ||
			time.Since(began) > s.options.RetryTimeout {
			return err
		}
		if postgres.Code(err) == postgres.CodeReadOnly {
			s.db.Reset() // another server may be the primary now
		}
		if wait.Sleep(ctx, clock.RealClock{}, wait.Backoff(firstRetry, lastRetry, failures)) != nil {
			return err
		}
	}
}
