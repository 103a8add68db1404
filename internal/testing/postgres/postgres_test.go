// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/spokewire/sdk-go/internal/testing/postgres"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// query returns one value.
func query[T any](t *testing.T, connString, sql string) (value T, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	config, err := pgx.ParseConfig(connString)
	if err != nil {
		t.Fatal(err)
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec // pgbouncer has no prepared statements
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return value, err
	}
	defer func() { _ = conn.Close(ctx) }()
	err = conn.QueryRow(ctx, sql).Scan(&value)
	return value, err
}

func TestRestartKeepsData(t *testing.T) {
	server := postgres.Start(t, postgres.Options{})
	db := server.Database(t)
	server.Exec(t, "test1", "CREATE TABLE t AS SELECT 42 AS answer")
	for name, end := range map[string]func(){"Stop": server.Stop, "Kill": server.Kill, "nothing": func() {}} {
		pid := server.PID()
		end()
		if _, err := query[int](t, db, "SELECT 1"); (err == nil) != (name == "nothing") {
			t.Errorf("after %s: %v", name, err)
		}
		server.Restart()
		got, err := query[int](t, db, "SELECT answer FROM t")
		if err != nil || got != 42 || server.PID() == pid {
			t.Errorf("after %s and Restart: %d, %v", name, got, err)
		}
	}
}

func TestStandbyIsPromoted(t *testing.T) {
	server := postgres.Start(t, postgres.Options{})
	standby := server.Standby(t)
	if reads, err := query[bool](t, standby.ConnString("postgres"), "SELECT pg_is_in_recovery()"); err != nil || !reads {
		t.Errorf("before Promote: %t, %v", reads, err)
	}
	standby.Promote(t)
	if reads, err := query[bool](t, standby.ConnString("postgres"), "SELECT pg_is_in_recovery()"); err != nil || reads {
		t.Errorf("after Promote: %t, %v", reads, err)
	}
}

func TestBouncer(t *testing.T) {
	server := postgres.Start(t, postgres.Options{})
	for _, mode := range []string{"session", "transaction"} {
		through := server.Bouncer(t, mode)
		if got, err := query[int](t, through(server.ConnString("postgres")), "SELECT 7"); err != nil || got != 7 {
			t.Errorf("%s: %d, %v", mode, got, err)
		}
	}
}
