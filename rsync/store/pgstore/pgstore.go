// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package pgstore

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spokewire/sdk-go/internal/postgres"
	"github.com/spokewire/sdk-go/rsync/store"
)

// Defaults of [Options].
const (
	DefaultName      = "default"
	DefaultSchema    = postgres.DefaultSchema
	DefaultTimeout   = 5 * time.Second
	DefaultFeedAge   = 10 * time.Minute
	DefaultFeedBytes = 256 << 20
)

// Options configures a Store. ConnString is required, unless the environment variables of libpq
// have its settings.
type Options struct {
	// ConnString names the server, the database and the user: a URL or keywords and values, as in
	// libpq. The environment variables of libpq apply, PGSERVICE and PGPASSFILE included. It may
	// name several servers; then add target_session_attrs=read-write. pool_max_conns limits the
	// connections; a Store with a watch has one more.
	ConnString string
	// Name identifies the store in the database. Defaults to "default".
	Name string
	// Schema contains the tables. Defaults to "spokewire".
	Schema string
	// SkipMigration makes Open return an error instead of creating or changing tables.
	SkipMigration bool
	// Timeout limits a call, in addition to ctx. Defaults to 5 s.
	Timeout time.Duration
	// MaxTxnBytes and MaxTxnOps limit transactions. They default to the limits of package store, so
	// all values fit into any store. MaxTxnBytes is at most 64 MiB.
	MaxTxnBytes, MaxTxnOps int
	// FeedAge and FeedBytes limit the events that are stored for watches. They default to 10
	// minutes and 256 MiB. The lowest values of all programs apply.
	FeedAge   time.Duration
	FeedBytes int64
}

const (
	maxTxnBytes = 64 << 20
	// maxKeyBytes is below the limit of an entry of an index, about 2,700 bytes.
	maxKeyBytes = 2000
)

// The causes of errors of [Open], [Migrate] and [Store.Healthy], for errors.Is. Errors of the
// server are *pgconn.PgError, for errors.As.
var (
	ErrNotMigrated = postgres.ErrNotMigrated
	ErrNewerSchema = postgres.ErrNewerSchema
	ErrReadOnly    = postgres.ErrReadOnly
	ErrPrivileges  = postgres.ErrPrivileges
)

// Store keeps its data in PostgreSQL. All methods may be called from any goroutine.
type Store struct {
	options Options
	db      *postgres.DB
	id      int
	sql     statements

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	writer writer
	feed   *feed

	mu         sync.Mutex // locked after the mutex of writer
	closed     bool
	goroutines sync.WaitGroup
}

var (
	_ store.Store  = &Store{}
	_ store.Limits = &Store{}
)

//go:embed schema.sql
var schema string

func database(o Options) postgres.Options {
	all := []string{"SELECT", "INSERT", "UPDATE", "DELETE"}
	return postgres.Options{
		ConnString: o.ConnString, Schema: o.Schema, SkipMigration: o.SkipMigration,
		Component: postgres.Component{
			Name:  "rsync",
			Steps: []postgres.Step{{SQL: schema, Oldest: 1}},
			Privileges: map[string][]string{
				"rsync_store": all, "rsync_record": all, "rsync_event": all, "rsync_lease": all,
			},
		},
	}
}

// Migrate creates or updates the tables and functions. The user must be able to create the schema,
// or must own it. Programs that use the older tables continue to work.
func Migrate(ctx context.Context, options Options) error {
	if err := postgres.Migrate(ctx, database(options)); err != nil {
		return fmt.Errorf("migrate the schema of stores: %w", err)
	}
	return nil
}

// Open connects to a database and returns a store, which is empty if it is new. Its errors name the
// server and the cause: an unreachable server, a wrong password, a read-only server, a newer
// schema, missing privileges. Call Close in the end.
func Open(ctx context.Context, options Options) (*Store, error) {
	if err := options.complete(); err != nil {
		return nil, err
	}
	db, err := postgres.Open(ctx, database(options))
	if err != nil {
		return nil, fmt.Errorf("open the store %q: %w", options.Name, err)
	}
	s := &Store{options: options, db: db, sql: newStatements(db)}
	if s.id, err = s.register(ctx); err != nil {
		db.Close()
		return nil, fmt.Errorf("open the store %q: %w", options.Name, db.Explain(err))
	}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.feed = newFeed(s)
	s.spawn(s.compact)
	s.spawn(s.feed.run)
	s.spawn(s.feed.notifications)
	return s, nil
}

func (o *Options) complete() error {
	for name, value := range map[string]int64{
		"Timeout": int64(o.Timeout), "MaxTxnBytes": int64(o.MaxTxnBytes), "MaxTxnOps": int64(o.MaxTxnOps),
		"FeedAge": int64(o.FeedAge), "FeedBytes": o.FeedBytes,
	} {
		if value < 0 {
			return fmt.Errorf("invalid Options.%s: %d: must not be negative", name, value)
		}
	}
	if o.MaxTxnBytes > maxTxnBytes {
		return fmt.Errorf("invalid Options.MaxTxnBytes: %d: must be at most %d", o.MaxTxnBytes, maxTxnBytes)
	}
	if o.Name == "" {
		o.Name = DefaultName
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.MaxTxnBytes == 0 {
		o.MaxTxnBytes = store.DefaultMaxTxnBytes
	}
	if o.MaxTxnOps == 0 {
		o.MaxTxnOps = store.DefaultMaxTxnOps
	}
	if o.FeedAge == 0 {
		o.FeedAge = DefaultFeedAge
	}
	if o.FeedBytes == 0 {
		o.FeedBytes = DefaultFeedBytes
	}
	return nil
}

// register returns the id of the store with the name. It creates the store if it does not exist.
func (s *Store) register(ctx context.Context) (id int, err error) {
	_, err = s.db.Pool.Exec(ctx, s.db.SQL(`
INSERT INTO {schema}.rsync_store (name) SELECT $1
WHERE NOT EXISTS (SELECT FROM {schema}.rsync_store WHERE name = $1) ON CONFLICT DO NOTHING`), s.options.Name)
	if err == nil {
		err = s.db.Pool.QueryRow(ctx, s.db.SQL(`SELECT id FROM {schema}.rsync_store WHERE name = $1`),
			s.options.Name).Scan(&id)
	}
	return id, err
}

// Close ends all watches with [store.ErrClosed], and closes the connections. Later calls return it
// too.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.goroutines.Wait()
	s.db.Close()
	return nil
}

// spawn starts a goroutine that ends with the store. It returns false if the store is closed.
func (s *Store) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.goroutines.Go(f)
	}
	return !s.closed
}

// Healthy returns an error if the database cannot be used. It names the cause, as the errors of
// Open do.
func (s *Store) Healthy(ctx context.Context) error {
	ctx, cancel := s.limited(ctx)
	defer cancel()
	if s.ctx.Err() != nil {
		return store.ErrClosed
	}
	return s.db.Healthy(ctx)
}

// MaxTxnBytes implements [store.Limits].
func (s *Store) MaxTxnBytes() int { return s.options.MaxTxnBytes }

// MaxTxnOps implements [store.Limits].
func (s *Store) MaxTxnOps() int { return s.options.MaxTxnOps }

func (s *Store) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, s.options.Timeout,
		fmt.Errorf("PostgreSQL did not answer in %s", s.options.Timeout))
}

// failure returns an error with a description. After an error that another server may not have, it
// replaces the connections.
func (s *Store) failure(ctx context.Context, what string, err error) error {
	switch {
	case s.ctx.Err() != nil:
		return fmt.Errorf("%s: %w", what, store.ErrClosed)
	case ctx.Err() != nil && postgres.Code(err) == "":
		return fmt.Errorf("%s: %w", what, context.Cause(ctx))
	case postgres.Code(err) == postgres.CodeReadOnly || errors.Is(err, postgres.ErrReadOnly):
		s.db.Reset()
	}
	return fmt.Errorf("%s: %w", what, s.db.Diagnose(ctx, err))
}

// compactEvery is the time between two deletions of old events.
const compactEvery = 30 * time.Second

// compact deletes old events until the store is closed. A failed attempt is repeated later; the
// calls of the engine report the cause.
func (s *Store) compact() {
	ticker := time.NewTicker(compactEvery)
	defer ticker.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-ticker.C:
			_ = s.compactNow(s.ctx)
		}
	}
}

func (s *Store) compactNow(ctx context.Context) error {
	for n := int64(1); n > 0; {
		err := s.db.Pool.QueryRow(ctx, s.sql.compact, s.id, s.options.FeedAge, s.options.FeedBytes).Scan(&n)
		if err != nil {
			return s.failure(ctx, "delete old events", err)
		}
	}
	return nil
}
