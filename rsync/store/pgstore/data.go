// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package pgstore

import (
	"context"
	"fmt"

	"github.com/spokewire/sdk-go/internal/postgres"
	"github.com/spokewire/sdk-go/rsync/store"
)

// statements have the name of the schema.
type statements struct {
	get, ranged, txn, revoke, grant, keepAlive, events, compact string
}

func newStatements(db *postgres.DB) statements {
	return statements{
		get: db.SQL(`SELECT * FROM {schema}.rsync_get($1, $2)`),
		ranged: db.SQL(`
SELECT greatest(s.base, (SELECT e.revision FROM {schema}.rsync_event e WHERE e.store = $1
       ORDER BY e.revision DESC LIMIT 1)), coalesce(s.next_expiry <= statement_timestamp(), false),
       r.key, r.value, r.create_revision, r.mod_revision, r.lease
FROM {schema}.rsync_store s
LEFT JOIN {schema}.rsync_record r ON r.store = $1 AND r.key >= $2 AND ($3::bytea IS NULL OR r.key < $3)
WHERE s.id = $1 ORDER BY r.key`),
		txn:    db.SQL(`SELECT * FROM {schema}.rsync_txns($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`),
		revoke: db.SQL(`SELECT {schema}.rsync_revoke($1, $2)`),
		grant: db.SQL(`
WITH s AS (
    UPDATE {schema}.rsync_store SET next_expiry = least(next_expiry, clock_timestamp() + $3::interval)
    WHERE id = $1 RETURNING id
)
INSERT INTO {schema}.rsync_lease (store, id, ttl, expires)
SELECT s.id, $2, $3::interval, clock_timestamp() + $3::interval FROM s`),
		keepAlive: db.SQL(`
UPDATE {schema}.rsync_lease SET expires = clock_timestamp() + ttl
WHERE store = $1 AND id = $2 AND expires > clock_timestamp()`),
		events:  db.SQL(`SELECT * FROM {schema}.rsync_events($1, $2, $3, $4)`),
		compact: db.SQL(`SELECT {schema}.rsync_compact($1, $2, $3)`),
	}
}

// end returns the first key after all keys with a prefix, or nil without such a key.
func end(prefix string) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] < 0xff {
			out := []byte(prefix[:i+1])
			out[i]++
			return out
		}
	}
	return nil
}

// value returns nil for an empty value, as the other stores do.
func value(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

// Get implements [store.Data].
func (s *Store) Get(ctx context.Context, key string) (store.KeyValue, error) {
	ctx, cancel := s.limited(ctx)
	defer cancel()
	out := store.KeyValue{Key: key}
	var created, modified, lease *int64
	err := s.db.Pool.QueryRow(ctx, s.sql.get, s.id, []byte(key)).Scan(&out.Value, &created, &modified, &lease)
	if err != nil {
		return store.KeyValue{}, s.failure(ctx, "get "+key, err)
	}
	if created != nil {
		out.CreateRevision, out.ModRevision, out.Lease = *created, *modified, store.Lease(*lease)
	}
	out.Value = value(out.Value)
	return out, nil
}

// Range implements [store.Data]. It reads all keys with one statement.
func (s *Store) Range(ctx context.Context, prefix string) (store.RangeResult, error) {
	ctx, cancel := s.limited(ctx)
	defer cancel()
	for {
		out, expired, err := s.readRange(ctx, prefix)
		if err == nil && expired {
			_, err = s.db.Pool.Exec(ctx, s.sql.revoke, s.id, nil)
		}
		if err != nil {
			return store.RangeResult{}, s.failure(ctx, "read "+prefix, err)
		}
		if !expired {
			return out, nil
		}
	}
}

// readRange reports whether a lease may have expired. The result then has no keys.
func (s *Store) readRange(ctx context.Context, prefix string) (out store.RangeResult, expired bool, err error) {
	rows, err := s.db.Pool.Query(ctx, s.sql.ranged, s.id, []byte(prefix), end(prefix))
	if err != nil {
		return out, false, err
	}
	defer rows.Close()
	found := false
	for rows.Next() && !expired {
		found = true
		var kv store.KeyValue
		var key []byte
		var created, modified, lease *int64
		if err := rows.Scan(&out.Revision, &expired, &key, &kv.Value, &created, &modified, &lease); err != nil {
			return out, false, err
		}
		if created == nil || expired {
			continue
		}
		kv.Key, kv.Value = string(key), value(kv.Value)
		kv.CreateRevision, kv.ModRevision, kv.Lease = *created, *modified, store.Lease(*lease)
		out.KVs = append(out.KVs, kv)
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return out, false, err
	}
	if !found {
		return out, false, fmt.Errorf("the store %q was deleted", s.options.Name)
	}
	return out, expired, nil
}
