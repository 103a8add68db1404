// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/spokewire/sdk-go/internal/postgres"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
	servers "github.com/spokewire/sdk-go/internal/testing/postgres"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func component(steps ...postgres.Step) postgres.Component {
	return postgres.Component{Name: "test", Steps: steps, Privileges: map[string][]string{"t": {"SELECT"}}}
}

var (
	create = postgres.Step{SQL: `CREATE TABLE {schema}.t (a int); INSERT INTO {schema}.t VALUES (1)`, Oldest: 1}
	add    = postgres.Step{SQL: `ALTER TABLE {schema}.t ADD COLUMN b int`, Oldest: 1}
	rename = postgres.Step{SQL: `ALTER TABLE {schema}.t RENAME COLUMN a TO c`, Oldest: 3}
	wrong  = postgres.Step{SQL: `INSERT INTO {schema}.t VALUES (7); SELECT wrong`, Oldest: 4}
)

func open(t *testing.T, options postgres.Options) *postgres.DB {
	t.Helper()
	db, err := postgres.Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

// onceIn checks that the first step was made once.
func onceIn(t *testing.T, db *postgres.DB) {
	t.Helper()
	var rows int
	err := db.Pool.QueryRow(t.Context(), db.SQL(`SELECT count(*) FROM {schema}.t`)).Scan(&rows)
	if err != nil || rows != 1 {
		t.Errorf("%d rows, %v: steps run once", rows, err)
	}
}

// TestSteps: the missing steps run once, in order, and completely or not at all. Programs of
// earlier versions can be used while the schema allows it.
func TestSteps(t *testing.T) {
	connString := servers.Start(t, servers.Options{}).Database(t)
	options := func(steps ...postgres.Step) postgres.Options {
		return postgres.Options{ConnString: connString, Schema: `a "schema"`, Component: component(steps...)}
	}
	first := options(create)
	first.SkipMigration = true
	if _, err := postgres.Open(t.Context(), first); !errors.Is(err, postgres.ErrNotMigrated) {
		t.Errorf("an empty database: %v", err)
	}
	first.SkipMigration = false
	db := open(t, first)
	open(t, options(create, add))
	open(t, first) // an earlier program
	if err := postgres.Migrate(t.Context(), options(create, add, rename, wrong)); err == nil ||
		!strings.Contains(err.Error(), "update the schema to version 4 of test") {
		t.Errorf("a wrong step: %v", err)
	}
	open(t, first) // the third step was not made either
	open(t, options(create, add, rename))
	for name, err := range map[string]error{
		"Healthy": db.Healthy(t.Context()),
		"Migrate": postgres.Migrate(t.Context(), first),
	} {
		if !errors.Is(err, postgres.ErrNewerSchema) {
			t.Errorf("an earlier program after an incompatible step: %s: %v", name, err)
		}
	}
	onceIn(t, db)
}

// TestMigrateAtOnce: programs that start at the same time all succeed, and the steps run once.
func TestMigrateAtOnce(t *testing.T) {
	connString := servers.Start(t, servers.Options{}).Database(t)
	options := postgres.Options{ConnString: connString, Component: component(create, add)}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			db, err := postgres.Open(t.Context(), options)
			if err != nil {
				t.Error(err)
				return
			}
			db.Close()
		})
	}
	group.Wait()
	db := open(t, options)
	onceIn(t, db)
}

// TestTLS: the connection string names the authority of the server's certificate.
func TestTLS(t *testing.T) {
	folder, ca := t.TempDir(), certtest.New(t)
	certFile, keyFile := ca.Issue(t, "postgres").Write(t, folder, "server")
	server := servers.Start(t, servers.Options{CertFile: certFile, KeyFile: keyFile})
	connString := strings.Replace(server.Database(t), "sslmode=require", "sslmode=verify-full&sslrootcert=", 1)
	db := open(t, postgres.Options{ConnString: connString + ca.Write(t, folder, "ca"), Component: component(create)})
	var tls bool
	if err := db.Pool.QueryRow(t.Context(),
		`SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()`).Scan(&tls); err != nil || !tls {
		t.Errorf("TLS %t, %v", tls, err)
	}
	for name, other := range map[string]struct{ connString, want string }{
		"another authority": {connString + certtest.New(t).Write(t, folder, "other"),
			"the certificate of the server is not trusted"},
		"no TLS": {strings.Replace(server.ConnString("postgres"), "require", "disable", 1),
			"the server refused the user, or its way to log in"},
		"no file": {connString + filepath.Join(folder, "none"), "unable to read CA file"},
	} {
		_, err := postgres.Open(t.Context(), postgres.Options{ConnString: other.connString, Component: component(create)})
		if err == nil || !strings.Contains(err.Error(), other.want) || strings.Contains(err.Error(), server.Password()) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestService: the connection string is empty. The environment names a service and a password file.
func TestService(t *testing.T) {
	server := servers.Start(t, servers.Options{})
	server.Exec(t, "postgres", "CREATE DATABASE hub")
	host, port, err := net.SplitHostPort(server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for name, content := range map[string]string{
		"service": fmt.Sprintf("[hub]\nhost=%s\nport=%s\nuser=postgres\ndbname=hub\nsslmode=disable\npool_max_conns=7\n",
			host, port),
		"pass": fmt.Sprintf("%s:%s:hub:postgres:%s\n", host, port, server.Password()),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PGSERVICE", "hub")
	t.Setenv("PGSERVICEFILE", filepath.Join(folder, "service"))
	t.Setenv("PGPASSFILE", filepath.Join(folder, "pass"))
	db := open(t, postgres.Options{Component: component(create)})
	if err := db.Healthy(t.Context()); err != nil {
		t.Errorf("Healthy: %v", err)
	}
	if n := db.Pool.Config().MaxConns; n != 7 {
		t.Errorf("%d connections, the service allows 7", n)
	}
	t.Setenv("PGSERVICE", "")
	if n := open(t, postgres.Options{
		ConnString: server.ConnString("hub"), Component: component(create),
	}).Pool.Config().MaxConns; n != 4 {
		t.Errorf("%d connections by default, want 4 on any machine", n)
	}
}

// pieces records the writes of a connection.
type pieces struct {
	net.Conn
	sizes []int
	data  bytes.Buffer
}

func (p *pieces) Write(b []byte) (int, error) {
	p.sizes = append(p.sizes, len(b))
	return p.data.Write(b)
}

// TestSplitWrites: the last bytes of a large buffer are written separately, and all bytes in order.
func TestSplitWrites(t *testing.T) {
	conn := &pieces{}
	split, err := postgres.SplitWrites(context.Background(), nil, conn)
	if err != nil {
		t.Fatal(err)
	}
	large := make([]byte, 1<<20)
	for i := range large {
		large[i] = byte(i % 251)
	}
	for _, b := range [][]byte{large[:100], large} {
		if n, err := split.Write(b); n != len(b) || err != nil {
			t.Errorf("Write: %d, %v", n, err)
		}
	}
	if fmt.Sprint(conn.sizes) != fmt.Sprint([]int{100, 1<<20 - 15, 15}) {
		t.Errorf("the writes have %v bytes", conn.sizes)
	}
	if !bytes.Equal(conn.data.Bytes()[100:], large) {
		t.Error("the bytes differ")
	}
}
