// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package pgstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/pgstore"
	"github.com/spokewire/sdk-go/internal/testing/postgres"
)

// roles has the roles of the package doc: hub_owner creates the tables, and hub uses them.
const roles = `
CREATE ROLE hub_owner LOGIN PASSWORD 'owner-secret';
CREATE ROLE hub LOGIN PASSWORD 'hub-secret'`

// grants are the statements of the package doc, for the owner.
const grants = `
GRANT USAGE ON SCHEMA spokewire TO hub;
GRANT SELECT ON spokewire.schema_versions TO hub;
GRANT SELECT, INSERT, UPDATE ON spokewire.work_stores TO hub;
GRANT SELECT, INSERT, UPDATE, DELETE ON spokewire.work_records, spokewire.work_writers TO hub;
GRANT SELECT, INSERT, DELETE ON spokewire.work_feed TO hub`

// databaseOf returns the name of the database in a connection string of Server.Database.
func databaseOf(connString string) string {
	name, _, _ := strings.Cut(connString[strings.LastIndex(connString, "/")+1:], "?")
	return name
}

// migrated returns a database with tables that the role hub may use, by its connection string for
// that role.
func migrated(t *testing.T, server *postgres.Server) string {
	t.Helper()
	database := databaseOf(server.Database(t))
	server.Exec(t, "postgres", "GRANT CREATE ON DATABASE "+database+" TO hub_owner")
	owner := server.ConnStringAs("hub_owner", "owner-secret", database)
	if err := pgstore.Migrate(t.Context(), pgstore.Options{ConnString: owner}); err != nil {
		t.Fatal(err)
	}
	server.Exec(t, database, grants)
	return server.ConnStringAs("hub", "hub-secret", database)
}

// TestOpenErrors: each failure of Open has an error that names its cause, and no secret.
func TestOpenErrors(t *testing.T) {
	server := postgres.Start(t, postgres.Options{})
	server.Exec(t, "postgres", roles)
	hub := migrated(t, server)
	change := func(sql string) string {
		connString := migrated(t, server)
		database := databaseOf(connString)
		server.Exec(t, database, strings.ReplaceAll(sql, "{database}", database))
		return connString
	}
	for _, test := range []struct {
		name    string
		options pgstore.Options
		is      error
		want    string
	}{
		{name: "wrong password", options: pgstore.Options{ConnString: strings.Replace(hub, "hub-secret", "other-secret", 1)},
			want: "the server refused the password"},
		{name: "unreachable", options: pgstore.Options{ConnString: strings.Replace(hub, server.Addr(), "127.0.0.1:1", 1)},
			want: "the server is unreachable"},
		{name: "no such host", options: pgstore.Options{ConnString: "postgres://hub:hub-secret@no-such-host.invalid/db"},
			want: "the server is unreachable"},
		{name: "no such database", options: pgstore.Options{ConnString: server.ConnStringAs("hub", "hub-secret", "none")},
			want: "the database does not exist"},
		{name: "no TLS", options: pgstore.Options{ConnString: strings.Replace(hub, "disable", "require", 1)},
			want: "the server does not offer TLS"},
		{name: "not a URL", options: pgstore.Options{ConnString: "postgres://hub:hub-secret/1@host/db"},
			want: "must be percent-encoded"},
		{name: "another URL", options: pgstore.Options{ConnString: "mysql://hub:hub-secret@127.0.0.1:1/db?tls=1"},
			want: "neither a URL with the scheme postgres"},
		{name: "another URL without settings", options: pgstore.Options{ConnString: "mysql://hub:hub-secret@127.0.0.1:1/db"},
			want: "invalid Options.ConnString"},
		{name: "not a port", options: pgstore.Options{ConnString: "postgres://hub:hub-secret@127.0.0.1:port/db"},
			want: "must be percent-encoded"},
		{name: "not a setting", options: pgstore.Options{ConnString: "host=localhost password=hub-secret sslmode=sometimes"},
			want: "sslmode is invalid"},
		{name: "no such service", options: pgstore.Options{ConnString: "service=none password=hub-secret"},
			want: "failed to read service"},
		{name: "read-only", options: pgstore.Options{ConnString: change(
			"ALTER ROLE hub IN DATABASE {database} SET default_transaction_read_only = on")},
			is: pgstore.ErrReadOnly, want: "default_transaction_read_only is on"},
		{name: "newer schema", options: pgstore.Options{ConnString: change(
			"UPDATE spokewire.schema_versions SET version = 9, oldest = 9")}, is: pgstore.ErrNewerSchema,
			want: `schema "spokewire" has version 9 of works, this program has version 2: update the program`},
		{name: "no privileges on a table", options: pgstore.Options{ConnString: change(
			"REVOKE DELETE ON spokewire.work_feed, spokewire.work_records FROM hub")}, is: pgstore.ErrPrivileges,
			want: `the user lacks privileges in schema "spokewire": DELETE on work_feed, DELETE on work_records`},
		{name: "no privileges on the schema", options: pgstore.Options{ConnString: change(
			"REVOKE USAGE ON SCHEMA spokewire FROM hub")}, is: pgstore.ErrPrivileges, want: `USAGE on schema "spokewire"`},
		{name: "no privilege to create", options: pgstore.Options{ConnString: hub, Schema: "other"},
			is:   pgstore.ErrPrivileges,
			want: `the user lacks privileges: create schema "other": ERROR: permission denied for database test1`},
		{name: "not migrated", options: pgstore.Options{ConnString: hub, Schema: "other", SkipMigration: true},
			is:   pgstore.ErrNotMigrated,
			want: `schema "other" has version 0 of works, this program needs version 2: run Migrate as the owner`},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, err := pgstore.Open(t.Context(), test.options)
			if err == nil {
				_ = s.Close()
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), test.want) || test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("the error is\n%v\nwant\n%s", err, test.want)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the error has the password: %v", err)
			}
		})
	}
	if s := open(t, pgstore.Options{ConnString: hub}); s.Healthy(t.Context()) != nil {
		t.Errorf("with least privileges, Healthy: %v", s.Healthy(t.Context()))
	}
}

// TestInvalidOptions: the error names the option and its value.
func TestInvalidOptions(t *testing.T) {
	for want, options := range map[string]pgstore.Options{
		"invalid Options.FeedBytes: -1: must be positive":     {FeedBytes: -1},
		"invalid Options.FeedAge: -1s: must be positive":      {FeedAge: -time.Second},
		"invalid Options.PollInterval: -1s: must be positive": {PollInterval: -time.Second},
	} {
		if _, err := pgstore.Open(t.Context(), options); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestStandbyIsRefused: the error of a server that follows another one.
func TestStandbyIsRefused(t *testing.T) {
	server := postgres.Start(t, postgres.Options{})
	db := server.Database(t)
	_ = open(t, pgstore.Options{ConnString: db})
	standby := server.Standby(t).ConnString(databaseOf(db))
	for options, want := range map[string]string{
		"": "it is a standby", "&target_session_attrs=read-write": "no server accepts writes",
	} {
		_, err := pgstore.Open(t.Context(), pgstore.Options{ConnString: standby + options})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", options, err, want)
		}
	}
}

// TestErrorsLater: the same causes are named by Healthy and by a write after Open has returned.
func TestErrorsLater(t *testing.T) {
	server := postgres.Start(t, postgres.Options{})
	server.Exec(t, "postgres", roles)
	for _, test := range []struct {
		name, sql     string
		healthy, want string
	}{
		{"the role was locked", "ALTER ROLE hub NOLOGIN", "the server refused the user", ""},
		{"read-only", "ALTER ROLE hub SET default_transaction_read_only = on", "default_transaction_read_only is on",
			"the server is read-only"},
		{"privileges", "REVOKE INSERT ON spokewire.work_feed FROM hub", "INSERT on work_feed",
			"permission denied for table work_feed"},
		{"newer schema", `UPDATE spokewire.schema_versions SET version = 9, oldest = 9;
			ALTER TABLE spokewire.work_records RENAME TO work_records_2`, "this program has version 2: update the program",
			"the schema is newer than this program"},
		{"schema removed", "DROP SCHEMA spokewire CASCADE", "run Migrate as the owner", "the schema is missing"},
	} {
		t.Run(test.name, func(t *testing.T) {
			hub := migrated(t, server)
			defer server.Exec(t, "postgres", "ALTER ROLE hub LOGIN; ALTER ROLE hub RESET default_transaction_read_only")
			s := open(t, pgstore.Options{ConnString: hub, RetryTimeout: -1})
			apply(t, s, set("a", "1"))
			server.Exec(t, databaseOf(hub), test.sql)
			// New connections have the new settings of a role.
			server.Exec(t, "postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'hub'")
			check := func(what, want string, err error) {
				if want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret")) {
					t.Errorf("%s: %v, want %s", what, err, want)
				}
			}
			eventually(t, func() error { // the first use of a connection reports that the server has closed it
				if err := s.Healthy(t.Context()); err == nil || strings.Contains(err.Error(), "57P01") {
					return errors.New("Healthy returns no error yet")
				}
				return nil
			})
			check("Healthy", test.healthy, s.Healthy(t.Context()))
			check("Apply", test.want, s.Apply(t.Context(), []work.Change{set("a", "2")}))
		})
	}
}

// TestForeignOwner: two sources cannot use one store. The error names both.
func TestForeignOwner(t *testing.T) {
	server := postgres.Start(t, postgres.Options{})
	db := server.Database(t)
	start := func(id, name string) error {
		s := open(t, pgstore.Options{ConnString: db, Name: name})
		source, err := work.NewSource(memory.New().Transport(), work.SourceOptions{SourceID: id, Store: s})
		if err != nil {
			return err
		}
		return source.InventoryComplete(t.Context())
	}
	if err := start("first", ""); err != nil {
		t.Fatal(err)
	}
	err := start("second", "")
	if err == nil || !strings.Contains(err.Error(), `the Store belongs to source "first", not to source "second"`) {
		t.Errorf("with the same name: %v", err)
	}
	if err := start("second", "second"); err != nil {
		t.Errorf("with another name: %v", err)
	}
}

func TestClosed(t *testing.T) {
	server := postgres.Start(t, postgres.Options{})
	s := open(t, pgstore.Options{ConnString: server.Database(t)})
	f := follow(t, s)
	f.next(t)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"Apply":   s.Apply(t.Context(), []work.Change{set("a", "1")}),
		"ApplyIf": s.ApplyIf(t.Context(), set("a", "1"), []work.Change{set("a", "1")}),
		"Load":    s.Load(t.Context(), func(string, []byte) error { return nil }),
		"Follow":  s.Follow(t.Context(), "", nil, func(work.Batch) error { return nil }),
		"Healthy": s.Healthy(t.Context()),
	} {
		if !errors.Is(err, pgstore.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestContextEnds: calls return soon after their context has ended, also while the server is
// frozen.
func TestContextEnds(t *testing.T) {
	server := postgres.Start(t, postgres.Options{})
	s := open(t, pgstore.Options{ConnString: server.Database(t)})
	apply(t, s, set("a", "1"))
	server.Pause(t)
	for name, call := range map[string]func(ctx context.Context) error{
		"Apply": func(ctx context.Context) error { return s.Apply(ctx, []work.Change{set("a", "2")}) },
		"Load":  func(ctx context.Context) error { return s.Load(ctx, func(string, []byte) error { return nil }) },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		began := time.Now()
		if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("%s took %v", name, took)
		}
		cancel()
	}
}
