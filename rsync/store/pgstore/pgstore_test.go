// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package pgstore_test

import (
	"fmt"
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

// TestConformance: the store in PostgreSQL meets the same requirements as the store in memory. All
// stores are in one database.
func TestConformance(t *testing.T) {
	db := postgres.Start(t, postgres.Options{}).Database(t)
	var n atomic.Int64
	storetest.Run(t, func(t *testing.T) store.Store {
		return open(t, pgstore.Options{ConnString: db, Name: fmt.Sprint("test", n.Add(1))})
	})
}
