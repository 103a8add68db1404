// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package pgstore_test

import (
	"cmp"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/internal/testing/postgres"
	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/pgstore"
)

// testBadInput: each error of Open names the cause, and does not contain the password.
func testBadInput(t *testing.T, server *postgres.Server) {
	for sql, database := range map[string]string{
		`CREATE ROLE reader LOGIN PASSWORD 'reader-secret'`: "postgres",
		`CREATE DATABASE readonly`:                          "postgres",
		`CREATE DATABASE newer`:                             "postgres",
		`CREATE DATABASE empty`:                             "postgres",
	} {
		server.Exec(t, database, sql)
	}
	good := server.ConnString("newer")
	open(t, pgstore.Options{ConnString: good})
	server.Exec(t, "newer", `UPDATE spokewire.schema_versions SET version = 99, oldest = 99`)
	server.Exec(t, "postgres", `ALTER DATABASE readonly SET default_transaction_read_only = on`)
	for name, c := range map[string]struct {
		options pgstore.Options
		want    string
	}{
		"password": {pgstore.Options{ConnString: server.ConnStringAs("postgres", "wrong-secret", "empty")},
			"the server refused the password"},
		"unreachable": {pgstore.Options{ConnString: "postgres://u:hidden-secret@127.0.0.1:1/db"},
			"127.0.0.1:1.*the server is unreachable"},
		"URL": {pgstore.Options{ConnString: "postgres://u:hidden-secret%zz@h/db"},
			"Options.ConnString.*not a valid URL"},
		"database": {pgstore.Options{ConnString: server.ConnString("nowhere")}, "the database does not exist"},
		"newer":    {pgstore.Options{ConnString: good}, "the schema is newer than this program.*99 of rsync"},
		"read-only": {pgstore.Options{ConnString: server.ConnString("readonly")},
			"the server is read-only"},
		"privileges": {pgstore.Options{ConnString: server.ConnStringAs("reader", "reader-secret", "empty")},
			"the user lacks privileges"},
		"not migrated": {pgstore.Options{ConnString: server.ConnString("empty"), SkipMigration: true},
			"the schema is missing or too old.*run Migrate"},
		"timeout": {pgstore.Options{Timeout: -time.Second}, "invalid Options.Timeout"},
		"bytes":   {pgstore.Options{MaxTxnBytes: 1 << 30}, "invalid Options.MaxTxnBytes: 1073741824: must be at most"},
		"history": {pgstore.Options{FeedBytes: -1}, "invalid Options.FeedBytes: -1"},
	} {
		c.options.Timeout = cmp.Or(c.options.Timeout, patience)
		s, err := pgstore.Open(t.Context(), c.options)
		switch {
		case err == nil:
			t.Errorf("%s: no error", name)
			_ = s.Close()
		case !regexp.MustCompile(c.want).MatchString(err.Error()):
			t.Errorf("%s: %v\nwant %s", name, err, c.want)
		case strings.Contains(err.Error(), "secret"):
			t.Errorf("%s: the error has the password: %v", name, err)
		}
	}
}

// testLeastPrivileges: the package doc's GRANTs are enough for a program that does not migrate, and
// without one of them the error names it.
func testLeastPrivileges(t *testing.T, server *postgres.Server) {
	db := server.Database(t)
	name := nameOf(t, db)
	server.Exec(t, name, `CREATE ROLE engine LOGIN PASSWORD 'engine'`)
	if err := pgstore.Migrate(t.Context(), pgstore.Options{ConnString: db}); err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	grants := regexp.MustCompile(`GRANT [^;]*;`).FindAllString(strings.ReplaceAll(string(doc), "\n//", "\n"), -1)
	if len(grants) != 3 {
		t.Fatalf("the package doc has %d grants", len(grants))
	}
	for _, grant := range grants {
		server.Exec(t, name, grant)
	}
	// Some providers have no access to the server's log.
	server.Exec(t, name, `REVOKE EXECUTE ON FUNCTION pg_current_wal_lsn FROM PUBLIC`)
	options := pgstore.Options{ConnString: server.ConnStringAs("engine", "engine", name), SkipMigration: true}
	s := open(t, options)
	lease, err := s.Grant(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	watch := s.Watch(t.Context(), "/", 0)
	if _, err := s.Txn(t.Context(), nil, []store.Op{store.PutLeased("/a/", nil, lease)}); err != nil {
		t.Error(err)
	}
	if err := errors.Join(s.KeepAlive(t.Context(), lease), s.Revoke(t.Context(), lease), s.Compact(t.Context()),
		s.Healthy(t.Context()), next(t, watch).Err); err != nil {
		t.Error(err)
	}
	server.Exec(t, name, `REVOKE DELETE ON spokewire.rsync_event FROM engine`)
	const want = "DELETE on rsync_event"
	if _, err := pgstore.Open(t.Context(), options); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	if err := s.Healthy(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Healthy: %v, want %s", err, want)
	}
}

// TestFailoverToStandby: a program that names both servers continues after the primary has failed
// and its standby was promoted. The standby lacks the last transactions: a watch that has their
// events ends with ErrCompacted.
func TestFailoverToStandby(t *testing.T) {
	primary := postgres.Start(t, postgres.Options{})
	db := primary.Database(t)
	one := open(t, pgstore.Options{ConnString: db})
	put(t, one, "/a/", []byte("1"))
	standby := primary.Standby(t)
	both := strings.Replace(db, primary.Addr(), primary.Addr()+","+standby.Addr(), 1) + "&target_session_attrs=read-write"
	two := open(t, pgstore.Options{ConnString: both})
	put(t, two, "/a/", []byte("2"))
	eventually(t, "the standby to receive the transaction", func() bool {
		return standby.TryExec("test1", `SELECT 1 / count(*) FROM spokewire.rsync_event WHERE revision = 2`) == nil
	})
	standby.Exec(t, "postgres", `SELECT pg_wal_replay_pause()`)
	standby.Stop() // it receives no more
	watch := two.Watch(t.Context(), "/", 1)
	lost := put(t, two, "/a/", []byte("3"))
	for next(t, watch).Revision < lost {
	}
	primary.Kill()
	standby.Restart()
	standby.Promote(t)
	var kv store.KeyValue
	eventually(t, "the standby to answer", func() bool {
		var err error
		kv, err = two.Get(t.Context(), "/a/")
		return err == nil
	})
	if string(kv.Value) != "2" {
		t.Fatalf("the standby has %+v: the test does not show a lost transaction", kv)
	}
	if message := next(t, watch); !errors.Is(message.Err, store.ErrCompacted) {
		t.Errorf("the watch: %+v", message)
	}
	// A key that was read with a lost revision does not match a later one.
	result, err := two.Txn(t.Context(), []store.Compare{store.Unchanged(kv)}, []store.Op{store.Put("/a/", []byte("4"))})
	if err != nil || !result.Succeeded || result.Revision <= lost {
		t.Errorf("the next transaction: %+v, %v", result, err)
	}
	stale, err := two.Txn(t.Context(), []store.Compare{{Key: "/a/", Revision: lost}}, nil)
	if err != nil || stale.Succeeded {
		t.Errorf("a condition with a lost revision: %+v, %v", stale, err)
	}
	later := two.Watch(t.Context(), "/", result.Revision)
	if message := next(t, later); message.Revision != result.Revision {
		t.Errorf("a watch from its revision: %+v", message)
	}
}
