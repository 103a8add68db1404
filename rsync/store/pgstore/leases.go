// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package pgstore

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/spokewire/sdk-go/rsync/store"
)

// Grant implements [store.Leases]. The ID is random, so a database that is restored from a backup
// does not grant the ID of a lease that an engine still renews.
func (s *Store) Grant(ctx context.Context, ttl time.Duration) (store.Lease, error) {
	ctx, cancel := s.limited(ctx)
	defer cancel()
	var random [8]byte
	_, _ = rand.Read(random[:]) // never returns an error
	lease := int64(binary.BigEndian.Uint64(random[:])>>1) | 1
	tag, err := s.db.Pool.Exec(ctx, s.sql.grant, s.id, lease, ttl)
	if err == nil && tag.RowsAffected() == 0 {
		err = fmt.Errorf("the store %q was deleted", s.options.Name)
	}
	if err != nil {
		return 0, s.failure(ctx, "grant a lease", err)
	}
	return store.Lease(lease), nil
}

// KeepAlive implements [store.Leases]. It does not wait for transactions.
func (s *Store) KeepAlive(ctx context.Context, lease store.Lease) error {
	ctx, cancel := s.limited(ctx)
	defer cancel()
	tag, err := s.db.Pool.Exec(ctx, s.sql.keepAlive, s.id, int64(lease))
	if err != nil {
		return s.failure(ctx, "renew a lease", err)
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("renew a lease: %w", store.ErrLeaseNotFound)
	}
	return nil
}

// Revoke implements [store.Leases].
func (s *Store) Revoke(ctx context.Context, lease store.Lease) error {
	ctx, cancel := s.limited(ctx)
	defer cancel()
	if _, err := s.db.Pool.Exec(ctx, s.sql.revoke, s.id, int64(lease)); err != nil {
		return s.failure(ctx, "end a lease", err)
	}
	return nil
}
