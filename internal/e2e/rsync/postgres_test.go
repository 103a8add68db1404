// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"strings"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/internal/testing/postgres"
	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/pgstore"
)

// servers are the servers of a store: a cluster of etcd, or a database of PostgreSQL.
type servers interface {
	// store returns an empty store for each prefix, with its own connections.
	store(t testing.TB, prefix string) store.Store
	// addresses returns the addresses of the servers. An engine in a separate process gets the
	// endpoints of the servers, or of proxies.
	addresses() []string
	endpoints(addresses []string) []string
}

// database is a database on a PostgreSQL server.
type database struct {
	server     *postgres.Server
	connString string
}

func startPostgres(t testing.TB) database {
	t.Helper()
	server := postgres.Start(t, postgres.Options{})
	return database{server, server.Database(t)}
}

func (d database) store(t testing.TB, prefix string) store.Store {
	t.Helper()
	s, err := pgstore.Open(t.Context(), pgstore.Options{
		ConnString: d.connString, Name: prefix, Timeout: 10 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (d database) addresses() []string { return []string{d.server.Addr()} }

func (d database) endpoints(addresses []string) []string {
	return []string{strings.Replace(d.connString, d.server.Addr(), addresses[0], 1)}
}
