// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Component describes the tables and functions of one store.
type Component struct {
	// Name identifies the component in the table schema_versions.
	Name string
	// Steps create the tables: step i changes version i to version i+1. A released step must not
	// change.
	Steps []Step
	// Privileges are those that the user of the store needs, by table.
	Privileges map[string][]string
}

// Step changes the schema to its next version.
type Step struct {
	// SQL has the statements. They run in one transaction with the other steps.
	SQL string
	// Oldest is the oldest version of programs that can use the schema after this step. The version
	// of a program is the number of its steps.
	Oldest int
}

var (
	// ErrNotMigrated is returned if the schema is missing or older than the program.
	ErrNotMigrated = errors.New("the schema is missing or too old")
	// ErrNewerSchema is returned if a newer version of the program has changed the schema.
	ErrNewerSchema = errors.New("the schema is newer than this program")
	// ErrReadOnly is returned if the server does not accept writes.
	ErrReadOnly = errors.New("the server is read-only")
	// ErrPrivileges is returned if the user lacks privileges.
	ErrPrivileges = errors.New("the user lacks privileges")
)

// state is the result of a check of the database.
type state struct {
	db                   *DB
	server               int
	standby, readOnly    bool
	exists, usage        bool // the schema exists, and the user may use it
	versions, selectable bool // the table schema_versions exists, and the user may read it
	version, oldest      int  // 0 without the component
}

const stateQuery = `
SELECT current_setting('server_version_num')::int, pg_is_in_recovery(), current_setting('transaction_read_only') = 'on',
       n.oid IS NOT NULL, coalesce(has_schema_privilege(n.oid, 'USAGE'), false),
       c.oid IS NOT NULL, coalesce(has_table_privilege(c.oid, 'SELECT'), false)
FROM (SELECT 1) AS one
LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = $1
LEFT JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = 'schema_versions'`

func (db *DB) state(ctx context.Context) (*state, error) {
	s := &state{db: db}
	err := db.Pool.QueryRow(ctx, stateQuery, db.options.Schema).Scan(&s.server, &s.standby, &s.readOnly, &s.exists,
		&s.usage, &s.versions, &s.selectable)
	if err != nil || !s.usage || !s.versions || !s.selectable {
		return s, err
	}
	s.version, s.oldest, err = db.version(ctx, db.Pool)
	return s, err
}

// querier is a pool or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// version returns the version of the component, and the oldest programs that can use it.
func (db *DB) version(ctx context.Context, q querier) (version, oldest int, err error) {
	err = q.QueryRow(ctx, db.SQL(`SELECT version, oldest FROM {schema}.schema_versions WHERE component = $1`),
		db.options.Component.Name).Scan(&version, &oldest)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, 0, nil
	}
	return version, oldest, err
}

// writable returns an error if the server is too old or does not accept writes.
func (s *state) writable() error {
	switch {
	case s.server < minServer:
		return fmt.Errorf("the server has version %d: version 13 or newer is required", s.server/10000)
	case s.standby:
		return fmt.Errorf("%w: it is a standby; name all servers in ConnString, with target_session_attrs=read-write",
			ErrReadOnly)
	case s.readOnly:
		return fmt.Errorf("%w: default_transaction_read_only is on", ErrReadOnly)
	}
	return nil
}

// migrated returns an error if the program cannot use the schema.
func (s *state) migrated() error {
	schema, want := s.db.options.Schema, len(s.db.options.Component.Steps)
	switch {
	case s.exists && !s.usage:
		return fmt.Errorf("%w: USAGE on schema %q", ErrPrivileges, schema)
	case s.versions && !s.selectable:
		return fmt.Errorf("%w: SELECT on %q.schema_versions", ErrPrivileges, schema)
	case s.version < want:
		return fmt.Errorf("%w: schema %q has version %d of %s, this program needs version %d: run Migrate as the owner",
			ErrNotMigrated, schema, s.version, s.db.options.Component.Name, want)
	case s.oldest > want:
		return s.db.newer(s.version)
	}
	return nil
}

func (db *DB) newer(version int) error {
	return fmt.Errorf("%w: schema %q has version %d of %s, this program has version %d: update the program",
		ErrNewerSchema, db.options.Schema, version, db.options.Component.Name, len(db.options.Component.Steps))
}

// privileges returns an error that names the privileges that the user lacks.
func (db *DB) privileges(ctx context.Context) error {
	var tables, names []string
	for table, privileges := range db.options.Component.Privileges {
		for _, name := range privileges {
			tables, names = append(tables, table), append(names, name)
		}
	}
	rows, err := db.Pool.Query(ctx, `
SELECT p.name || ' on ' || p.target FROM unnest($2::text[], $3::text[]) AS p (target, name)
LEFT JOIN pg_catalog.pg_class c ON c.relname = p.target AND c.relnamespace =
	(SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = $1)
WHERE NOT coalesce(has_table_privilege(c.oid, p.name), false) ORDER BY 1`, db.options.Schema, tables, names)
	if err != nil {
		return err
	}
	lacks, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err == nil && len(lacks) > 0 {
		err = fmt.Errorf("%w in schema %q: %s", ErrPrivileges, db.options.Schema, strings.Join(lacks, ", "))
	}
	return err
}

// migrate runs the missing steps. One program at a time can do this.
func (db *DB) migrate(ctx context.Context) error {
	return pgx.BeginFunc(ctx, db.Pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '60s'; SET LOCAL statement_timeout = 0`)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtext($1))`, "spokewire "+db.options.Schema); err != nil {
			return err
		}
		if err := db.createVersions(ctx, tx); err != nil {
			return err
		}
		return db.runSteps(ctx, tx)
	})
}

// createVersions creates the schema and its table of versions, if they do not exist. CREATE SCHEMA
// IF NOT EXISTS would need privileges even if the schema exists.
func (db *DB) createVersions(ctx context.Context, tx pgx.Tx) error {
	var schema, versions bool
	err := tx.QueryRow(ctx, `
SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1),
       EXISTS (SELECT FROM pg_catalog.pg_tables WHERE schemaname = $1 AND tablename = 'schema_versions')`,
		db.options.Schema).Scan(&schema, &versions)
	if err == nil && !schema {
		if _, err = tx.Exec(ctx, db.SQL(`CREATE SCHEMA {schema}`)); err != nil {
			err = fmt.Errorf("create schema %q: %w", db.options.Schema, err)
		}
	}
	if err == nil && !versions {
		_, err = tx.Exec(ctx, db.SQL(`CREATE TABLE {schema}.schema_versions (
	component text PRIMARY KEY,
	version   int NOT NULL,
	oldest    int NOT NULL
)`))
	}
	return err
}

func (db *DB) runSteps(ctx context.Context, tx pgx.Tx) error {
	version, oldest, err := db.version(ctx, tx)
	if err != nil {
		return err
	}
	steps := db.options.Component.Steps
	if oldest > len(steps) {
		return db.newer(version)
	}
	for ; version < len(steps); version++ {
		oldest = max(oldest, steps[version].Oldest)
		if _, err := tx.Exec(ctx, db.SQL(steps[version].SQL)); err != nil {
			return fmt.Errorf("update the schema to version %d of %s: %w", version+1, db.options.Component.Name, err)
		}
		_, err := tx.Exec(ctx, db.SQL(`
INSERT INTO {schema}.schema_versions (component, version, oldest) VALUES ($1, $2, $3)
ON CONFLICT (component) DO UPDATE SET version = excluded.version, oldest = excluded.oldest`),
			db.options.Component.Name, version+1, oldest)
		if err != nil {
			return err
		}
	}
	return nil
}
