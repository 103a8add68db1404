// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package pgstore implements package store with PostgreSQL 13 or newer.
//
//	s, err := pgstore.Open(ctx, pgstore.Options{ConnString: "postgres://hub@db.example/hub"})
//	defer s.Close()
//	engine, err := rsync.New(s, connectors, rsync.Options{})
//
// Any number of engines in any number of processes share a store. A database can have several
// stores, see [Options].Name, and also the works of package cloudevents/work/pgstore.
//
// # Guarantees
//
// A transaction is one statement, and locks the row of its store until it is committed.
// Transactions are therefore linearizable, and each one that writes has the next revision. A client
// that is frozen or disconnected has no lock. Waiting transactions of one Store are committed
// together.
//
// Watches read a table of events. NOTIFY only wakes them: a lost notification delays an event by at
// most a second. Each Store reads the events once for all its watches. Events that are older than
// [Options].FeedAge or exceed [Options].FeedBytes are deleted, and a watch from a deleted revision
// ends with [store.ErrCompacted].
//
// Leases expire by the clock of the server. The next transaction or read of any client ends an
// expired lease first. A Store with a watch ends it without a call, within a second. If the clock
// of the server jumps, leases end early or late. Engines then take over early or late, but no stale
// engine writes.
//
// After a broken connection, a restart of the server or a failover, watches continue. The other
// calls return an error, and the engine repeats them. With synchronous replication, a failover
// loses no transaction. Without it, the last transactions may be lost: their revisions are not used
// again, and all watches end with ErrCompacted. Transactions are only durable if the server has
// fsync and synchronous_commit on, the defaults.
//
// # Access
//
// Open creates the tables and functions, if they are missing, in [Options].Schema. To give the
// program fewer privileges, call [Migrate] as the owner of the schema, set
// [Options].SkipMigration in the program, and grant its role:
//
//	GRANT USAGE ON SCHEMA spokewire TO engine;
//	GRANT SELECT ON spokewire.schema_versions TO engine;
//	GRANT SELECT, INSERT, UPDATE, DELETE ON spokewire.rsync_store, spokewire.rsync_record,
//	    spokewire.rsync_event, spokewire.rsync_lease TO engine;
//
// Use sslmode=verify-full outside of a trusted network. Errors and logs never contain the password
// or a value. To see the keys:
//
//	SELECT convert_from(key, 'UTF8') FROM spokewire.rsync_record;
//
// # Limits
//
//   - A transaction has at most [Options].MaxTxnBytes and MaxTxnOps, and a key 2,000 bytes.
//   - A store commits one group of transactions at a time: the server's disk limits it.
//   - pgbouncer works in its session mode. In its transaction mode watches receive no
//     notifications, and report an event within a second.
//   - A Store with a watch sends one small statement a second while it is idle.
//   - During a long transaction in the same database, for example pg_dump, the server keeps all
//     versions of a key. Transactions that put the same key thousands of times become slower.
//
// # Deleting a store
//
// Stop its engines, and delete its rows from the four tables. They have the id from rsync_store in
// their column store.
package pgstore
