// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package pgstore implements [work.SharedStore] in PostgreSQL 13 or newer, for replicas of a source
// on several machines.
//
//	store, err := pgstore.Open(ctx, pgstore.Options{ConnString: "postgres://hub@db/hub"})
//	defer store.Close()
//	source, err := work.NewSource(transport, work.SourceOptions{
//		SourceID: "hub", SharedGroup: "hubs", Store: store,
//	})
//
// A store serves one source with all its replicas, or one agent. One database can have several
// stores: give each its own Options.Name. NewSource refuses the store of another source.
//
// # Guarantees
//
//   - A batch of changes is one transaction, in one round trip. It is on the server's disk when
//     Apply returns nil, unless the server has fsync or synchronous_commit off.
//   - All batches of a store are in one order. The condition of ApplyIf is checked in that order,
//     so the database never accepts a batch of a replica that is not the leader any more.
//   - A stopped or disconnected process keeps no lock. A batch that the network delivers late,
//     after later batches of the same process, is refused.
//   - After a broken connection, a restart of the server or a failover, writes and followers
//     retry for Options.RetryTimeout. A repeated batch is applied once.
//   - Follow receives each batch once, in order, a moment after it was applied. Notifications of
//     PostgreSQL are only hints: if one is lost, the batch arrives within Options.PollInterval. A
//     follower does not query the batches of its own Store.
//
// # Tables and privileges
//
// The tables are in the schema "spokewire", see Options.Schema. Open creates and updates them if
// its user may. To run with fewer privileges, let one role own the tables and run [Migrate], and
// let Open use another:
//
//	CREATE ROLE hub_owner LOGIN PASSWORD '…';
//	CREATE ROLE hub LOGIN PASSWORD '…';
//	GRANT CREATE ON DATABASE hub TO hub_owner;
//
//	-- after Migrate, as hub_owner:
//	GRANT USAGE ON SCHEMA spokewire TO hub;
//	GRANT SELECT ON spokewire.schema_versions TO hub;
//	GRANT SELECT, INSERT, UPDATE ON spokewire.work_stores TO hub;
//	GRANT SELECT, INSERT, UPDATE, DELETE ON spokewire.work_records, spokewire.work_writers TO hub;
//	GRANT SELECT, INSERT, DELETE ON spokewire.work_feed TO hub;
//
// Works may hold secrets, and every role with SELECT on the tables can read them. To see the keys:
//
//	SELECT convert_from(key, 'UTF8') FROM spokewire.work_records;
//
// To remove a store, end its processes, then delete its rows from work_records, work_feed and
// work_writers by the column store, and from work_stores.
//
// # Connections
//
// TLS, several servers, services and password files are settings of libpq in Options.ConnString,
// for example sslmode=verify-full. A store has up to 4 connections, usually 1 or 2, and each
// follower one more: with 3 replicas, allow for 15.
//
// pgbouncer: use its session mode. In its transaction mode everything works too, but notifications
// are lost: other replicas see a change up to Options.PollInterval later, and a takeover takes
// longer by the same time.
//
// # Failover
//
// Name all servers in ConnString and add target_session_attrs=read-write. With synchronous
// replication, a failover loses no acknowledged write. Without it, the promoted server may lack the
// last writes. Replicas detect this: they show the works of the database, and treat the loss as a
// restored backup.
//
// # Backups
//
// Use pg_dump, pg_basebackup or the tools of your provider, also while the source runs:
//
//	pg_dump --format=custom --schema=spokewire --file=hub.dump hub
//	pg_restore --clean --if-exists --dbname=hub hub.dump
//
// The source detects that it runs on a restored backup, see STORES.md of package work. End all its
// replicas before you restore into the same database.
//
// # Sizes and limits
//
// A work with a status of 1.5 KB takes 1.7 KB. Followers need the last batches, at most
// Options.FeedBytes; autovacuum must run, because the space of older batches is reused only after a
// vacuum. A batch has at most 1 GB. A replica reads the whole content once, in NewSource, and again
// only when it is further behind than the feed, or when the database has lost writes. The
// benchmarks of this package measure writes, reads and followers.
//
// Healthy of a replica returns an error when the database has been away for longer than
// Options.RetryTimeout. A source without a SharedGroup detects this only when it writes: add
// [Store.Healthy] to its readiness probe.
//
// Errors name the server, the database, the user and the cause, for example:
//
//	PostgreSQL at db:5432, database "hub", user "hub": the server refused the password, …
package pgstore
