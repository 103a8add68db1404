// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package pgstore_test

import (
	"fmt"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spokewire/sdk-go/internal/testing/postgres"
	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/pgstore"
	"github.com/spokewire/sdk-go/rsync/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open returns a store that ends with the test.
func open(t testing.TB, options pgstore.Options) *pgstore.Store {
	t.Helper()
	if options.Timeout == 0 {
		options.Timeout = 20 * time.Second // the machine may be busy
	}
	s, err := pgstore.Open(t.Context(), options)
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

// nameOf returns the name of the database in a connection string.
func nameOf(t *testing.T, connString string) string {
	t.Helper()
	u, err := url.Parse(connString)
	if err != nil {
		t.Fatal(err)
	}
	return u.Path[1:]
}

// TestStore has the tests that share a server.
func TestStore(t *testing.T) {
	server := postgres.Start(t, postgres.Options{})
	for name, test := range map[string]func(*testing.T, *postgres.Server){
		"Conformance":                       testConformance,
		"KeysOfAnyBytes":                    testKeysOfAnyBytes,
		"LeaseEndsInEachCall":               testLeaseEndsInEachCall,
		"RenewalDoesNotWaitForTransactions": testRenewalDoesNotWaitForTransactions,
		"GroupedTransactions":               testGroupedTransactions,
		"Compaction":                        testCompaction,
		"SlowWatchReader":                   testSlowWatchReader,
		"ManyKeys":                          testManyKeys,
		"LostNotifications":                 testLostNotifications,
		"Isolation":                         testIsolation,
		"RowOfStore":                        testRowOfStore,
		"CloseEndsWatches":                  testCloseEndsWatches,
		"LeastPrivileges":                   testLeastPrivileges,
		"BadInput":                          testBadInput,
	} {
		t.Run(name, func(t *testing.T) { test(t, server) })
	}
}

// testConformance: the store in PostgreSQL meets the same requirements as the store in memory. All
// stores are in one database, and their schema has a name that must be quoted.
func testConformance(t *testing.T, server *postgres.Server) {
	db := server.Database(t)
	var n atomic.Int64
	storetest.Run(t, func(t *testing.T) store.Store {
		return open(t, pgstore.Options{ConnString: db, Schema: `a "schema"`, Name: fmt.Sprint("test", n.Add(1))})
	})
}
