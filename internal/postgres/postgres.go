// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package postgres is the base of the stores on PostgreSQL: the connections, the version of the
// schema, and errors that name the cause.
//
// Each store has a component: a set of tables and functions in one schema of the database, with a
// version. All SQL contains "{schema}" for the quoted name of the schema, see [DB.SQL].
package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// DefaultSchema is the default of [Options].Schema.
const DefaultSchema = "spokewire"

const (
	// maxConns is the default of pool_max_conns.
	maxConns = 4
	// connectTimeout bounds the connection to one host, unless the connection string has a timeout.
	connectTimeout = 5 * time.Second
	// minServer is the oldest supported version of the server, as in server_version_num.
	minServer = 130000
)

// session are the settings of each connection. A server must notice soon that a client is gone: its
// transaction may have locks. In the transaction mode of pgbouncer these settings have no effect.
const session = `
SET default_transaction_isolation = 'read committed';
SET lock_timeout = '10s';
SET statement_timeout = '60s';
SET idle_in_transaction_session_timeout = '30s';
SET tcp_keepalives_idle = 10;
SET tcp_keepalives_interval = 5;
SET tcp_keepalives_count = 3;
SET tcp_user_timeout = '30s'`

// setting matches the names of settings of the server.
var setting = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*$`)

// Options configures a [DB]. Component is required.
type Options struct {
	// ConnString is a URL or a list of keywords and values, as in libpq. The environment variables
	// of libpq apply, PGSERVICE and PGPASSFILE included.
	ConnString string
	// Schema contains the tables. Defaults to DefaultSchema.
	Schema string
	// Component has the tables and functions that Steps create.
	Component Component
	// SkipMigration makes Open return ErrNotMigrated instead of creating or changing tables.
	SkipMigration bool
}

// DB is a pool of connections to a database with a checked schema. Its methods may be called from
// any goroutine.
type DB struct {
	// Pool has binary results and one round trip for a statement. It uses no prepared statements,
	// which pgbouncer does not support in its transaction mode.
	Pool *pgxpool.Pool

	options Options
	schema  string // quoted
	where   string // the servers, the database and the user, for errors
}

// Open connects, creates or updates the schema unless SkipMigration is set, and checks the schema
// and the privileges of the user. Its errors name the server and the cause, and never contain the
// password.
func Open(ctx context.Context, options Options) (*DB, error) {
	db, err := newDB(ctx, options)
	if err != nil {
		return nil, err
	}
	if err := db.open(ctx); err != nil {
		db.Close()
		return nil, db.Explain(err)
	}
	return db, nil
}

// Migrate connects, and creates or updates the schema. The user must be able to create the schema,
// or must own it.
func Migrate(ctx context.Context, options Options) error {
	db, err := newDB(ctx, options)
	if err != nil {
		return err
	}
	defer db.Close()
	state, err := db.state(ctx)
	if err == nil {
		err = state.writable()
	}
	if err == nil {
		err = db.migrate(ctx)
	}
	return db.Explain(err)
}

// newDB parses the options. The pool connects later.
func newDB(ctx context.Context, options Options) (*DB, error) {
	if options.Schema == "" {
		options.Schema = DefaultSchema
	}
	config, err := parse(options.ConnString)
	if err != nil {
		return nil, err
	}
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, session)
		return err
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	return &DB{
		Pool: pool, options: options, schema: pgx.Identifier{options.Schema}.Sanitize(),
		where: where(config.ConnConfig),
	}, nil
}

func parse(connString string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(connString)
	if err != nil {
		return nil, fmt.Errorf("invalid Options.ConnString: %s", withoutSecrets(connString, err))
	}
	plain, err := pgx.ParseConfig(connString) // has the settings of the pool too
	if err != nil {
		return nil, fmt.Errorf("invalid Options.ConnString: %s", withoutSecrets(connString, err))
	}
	if plain.RuntimeParams["pool_max_conns"] == "" {
		config.MaxConns = maxConns // the default of pgxpool grows with the processors
	}
	c := config.ConnConfig
	for name := range c.RuntimeParams { // the error of the server would quote it
		if !setting.MatchString(name) {
			return nil, errors.New("invalid Options.ConnString: it is neither a URL with the scheme postgres, " +
				"nor a list of keywords and values")
		}
	}
	if c.ConnectTimeout == 0 || c.ConnectTimeout == 2*time.Minute { // the default of pgxpool
		c.ConnectTimeout = connectTimeout
	}
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "spokewire"
	}
	c.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	c.AfterNetConnect = splitWrites
	return config, nil
}

// where describes the target of a configuration.
func where(c *pgx.ConnConfig) string {
	hosts := []string{net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))}
	for _, f := range c.Fallbacks {
		if host := net.JoinHostPort(f.Host, strconv.Itoa(int(f.Port))); host != hosts[len(hosts)-1] {
			hosts = append(hosts, host) // the same host may follow without TLS
		}
	}
	return fmt.Sprintf("PostgreSQL at %s, database %q, user %q", strings.Join(hosts, ","), c.Database, c.User)
}

// open checks the database, and updates its schema if it is allowed and necessary.
func (db *DB) open(ctx context.Context) error {
	state, err := db.state(ctx)
	if err != nil {
		return err
	}
	if err := state.writable(); err != nil {
		return err
	}
	err = state.migrated()
	if errors.Is(err, ErrNotMigrated) && !db.options.SkipMigration {
		err = db.migrate(ctx)
	}
	if err != nil {
		return err
	}
	return db.privileges(ctx)
}

// Healthy returns an error if the database cannot be used: the server is unreachable or read-only,
// the schema is missing or newer, or the user lacks privileges.
func (db *DB) Healthy(ctx context.Context) error {
	state, err := db.state(ctx)
	if err == nil {
		err = errors.Join(state.writable(), state.migrated())
	}
	if err == nil {
		err = db.privileges(ctx)
	}
	return db.Explain(err)
}

// SQL returns a text with the quoted name of the schema in place of "{schema}".
func (db *DB) SQL(text string) string { return strings.ReplaceAll(text, "{schema}", db.schema) }

// Connect returns a connection that does not belong to the pool, for LISTEN. The caller closes it.
func (db *DB) Connect(ctx context.Context) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, db.Pool.Config().ConnConfig)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, session); err != nil {
		_ = conn.Close(ctx) // the first error is the cause
		return nil, err
	}
	return conn, nil
}

// Reset replaces all connections of the pool. Call it after ErrReadOnly: another server may have
// become the primary.
func (db *DB) Reset() { db.Pool.Reset() }

// Close closes the pool after its connections have been released.
func (db *DB) Close() { db.Pool.Close() }
