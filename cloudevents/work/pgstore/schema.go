// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package pgstore

import (
	"github.com/spokewire/sdk-go/internal/postgres"
)

// component describes the tables. See the package doc for their content.
var component = postgres.Component{
	Name:  "works",
	Steps: []postgres.Step{{SQL: step1, Oldest: 1}, {SQL: step2, Oldest: 1}},
	Privileges: map[string][]string{
		"work_stores":  {"SELECT", "INSERT", "UPDATE"},
		"work_records": {"SELECT", "INSERT", "UPDATE", "DELETE"},
		"work_writers": {"SELECT", "INSERT", "UPDATE", "DELETE"},
		"work_feed":    {"SELECT", "INSERT", "DELETE"},
	},
}

// step1 creates version 1. Functions have a number: a later step adds another function, and
// programs of the earlier version continue to use theirs.
//
// Keys may be longer than an entry of an index, so the index has their hashes. The functions forbid
// scans of whole tables, because PostgreSQL may have planned their statements while the tables were
// empty.
const step1 = `
CREATE TABLE {schema}.work_stores (
	id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	name       text NOT NULL UNIQUE,
	revision   bigint NOT NULL DEFAULT 0,      -- of the last batch
	writer     uuid NOT NULL,                  -- of the last batch
	batch      bigint NOT NULL DEFAULT 0,      -- the writer's number of the last batch
	pruned     bigint NOT NULL DEFAULT -1,     -- the feed begins after this revision
	pruned_at  timestamptz NOT NULL DEFAULT now(),
	feed_bytes bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 20);

CREATE TABLE {schema}.work_records (
	store bigint NOT NULL,
	id    bytea NOT NULL,                      -- the first 16 bytes of the SHA-256 of key
	key   bytea NOT NULL,
	value bytea NOT NULL,
	PRIMARY KEY (store, id)
);

CREATE TABLE {schema}.work_writers (
	store   bigint NOT NULL,
	writer  uuid NOT NULL,
	batch   bigint NOT NULL,                   -- the last applied batch of this writer
	used_at timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (store, writer)
) WITH (fillfactor = 20);

CREATE TABLE {schema}.work_feed (
	store      bigint NOT NULL,
	revision   bigint NOT NULL,
	writer     uuid NOT NULL,
	batch      bigint NOT NULL,
	applied_at timestamptz NOT NULL DEFAULT now(),
	size       bigint NOT NULL,                -- in bytes
	keys       bytea[] NOT NULL,
	"values"   bytea[] NOT NULL,               -- NULL removes the record
	PRIMARY KEY (store, revision)
);
ALTER TABLE {schema}.work_feed ALTER COLUMN keys SET STORAGE EXTERNAL, ALTER COLUMN "values" SET STORAGE EXTERNAL;

CREATE FUNCTION {schema}.work_open_1(p_name text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	v_id     bigint;
	v_writer uuid := gen_random_uuid();
BEGIN
	SELECT id INTO v_id FROM {schema}.work_stores WHERE name = p_name;
	IF FOUND THEN
		RETURN v_id;
	END IF;
	INSERT INTO {schema}.work_stores (name, writer) VALUES (p_name, v_writer)
	ON CONFLICT (name) DO NOTHING RETURNING id INTO v_id;
	IF FOUND THEN
		INSERT INTO {schema}.work_feed (store, revision, writer, batch, size, keys, "values")
		VALUES (v_id, 0, v_writer, 0, 0, '{}', '{}');
		RETURN v_id;
	END IF;
	SELECT id INTO STRICT v_id FROM {schema}.work_stores WHERE name = p_name; -- another program was faster
	RETURN v_id;
END $$;

-- The result is ok; repeated: this batch was applied before; stale: a later batch of the writer was
-- applied; condition: the condition does not hold; gone: the store was removed. The condition is read
-- after the lock, with a new snapshot: no batch of another writer can come between. The last batch
-- before this one stays in the feed, because followers have its revision.
CREATE FUNCTION {schema}.work_apply_1(
	p_store bigint, p_writer uuid, p_batch bigint,
	p_condition bytea, p_value bytea,          -- the id of a record and its value; NULL for no condition
	p_ids bytea[], p_keys bytea[], p_values bytea[], p_removed bytea[], p_size bigint,
	p_keep_bytes bigint, p_keep_seconds float8
) RETURNS text LANGUAGE plpgsql SET enable_seqscan = off SET lock_timeout = '10s' AS $$
DECLARE
	v_store {schema}.work_stores;
	v_batch bigint;
	v_upto  bigint;
	v_bytes bigint;
BEGIN
	SELECT * INTO v_store FROM {schema}.work_stores WHERE id = p_store FOR UPDATE;
	IF NOT FOUND THEN
		RETURN 'gone';
	END IF;
	SELECT batch INTO v_batch FROM {schema}.work_writers WHERE store = p_store AND writer = p_writer;
	IF v_batch = p_batch THEN
		RETURN 'repeated';
	ELSIF v_batch > p_batch THEN
		RETURN 'stale';
	END IF;
	IF p_condition IS NOT NULL AND p_value IS DISTINCT FROM
		(SELECT value FROM {schema}.work_records WHERE store = p_store AND id = p_condition) THEN
		RETURN 'condition';
	END IF;
	IF v_batch IS NULL THEN
		INSERT INTO {schema}.work_writers (store, writer, batch) VALUES (p_store, p_writer, p_batch);
		DELETE FROM {schema}.work_writers WHERE store = p_store AND used_at < now() - interval '30 days';
	ELSE
		UPDATE {schema}.work_writers SET batch = p_batch, used_at = now() WHERE store = p_store AND writer = p_writer;
	END IF;

	IF cardinality(p_removed) > 0 THEN
		DELETE FROM {schema}.work_records WHERE store = p_store AND id = ANY (p_removed);
	END IF;
	INSERT INTO {schema}.work_records (store, id, key, value)
	SELECT p_store, c.id, c.key, c.value FROM unnest(p_ids, p_keys, p_values) AS c (id, key, value)
	WHERE c.value IS NOT NULL
	ON CONFLICT (store, id) DO UPDATE SET value = excluded.value;

	v_store.revision := v_store.revision + 1;
	v_store.feed_bytes := v_store.feed_bytes + p_size;
	INSERT INTO {schema}.work_feed (store, revision, writer, batch, size, keys, "values")
	VALUES (p_store, v_store.revision, p_writer, p_batch, p_size, p_keys, p_values);

	IF v_store.feed_bytes > p_keep_bytes OR v_store.pruned_at < now() - interval '10 s' THEN
		SELECT max(revision) INTO v_upto FROM (
			SELECT revision, applied_at, v_store.feed_bytes - sum(size) OVER (ORDER BY revision) + size AS kept FROM (
				SELECT revision, applied_at, size FROM {schema}.work_feed
				WHERE store = p_store AND revision > v_store.pruned AND revision < v_store.revision - 1
				ORDER BY revision LIMIT 1000) AS oldest) AS o
		WHERE applied_at < now() - make_interval(secs => p_keep_seconds)
			OR v_store.feed_bytes > p_keep_bytes AND kept > p_keep_bytes * 7 / 8;
		IF v_upto IS NOT NULL THEN
			WITH gone AS (
				DELETE FROM {schema}.work_feed
				WHERE store = p_store AND revision > v_store.pruned AND revision <= v_upto RETURNING size)
			SELECT sum(size) INTO v_bytes FROM gone;
			v_store.pruned := v_upto;
			v_store.feed_bytes := v_store.feed_bytes - v_bytes;
		END IF;
		v_store.pruned_at := now();
	END IF;
	UPDATE {schema}.work_stores SET revision = v_store.revision, writer = p_writer, batch = p_batch,
		pruned = v_store.pruned, pruned_at = v_store.pruned_at, feed_bytes = v_store.feed_bytes
	WHERE id = p_store;
	PERFORM pg_notify('spokewire_works_' || p_store, v_store.revision::text);
	RETURN 'ok';
END $$;
`

// step2 creates version 2. The result of work_apply_2 is the position of the batch before this one
// instead of ok.
const step2 = `
CREATE FUNCTION {schema}.work_apply_2(
	p_store bigint, p_writer uuid, p_batch bigint, p_condition bytea, p_value bytea,
	p_ids bytea[], p_keys bytea[], p_values bytea[], p_removed bytea[], p_size bigint,
	p_keep_bytes bigint, p_keep_seconds float8
) RETURNS text LANGUAGE plpgsql SET lock_timeout = '10s' AS $$
DECLARE
	v_before text;
	v_result text;
BEGIN
	SELECT concat_ws('/', revision, writer, batch) INTO v_before
	FROM {schema}.work_stores WHERE id = p_store FOR UPDATE;
	v_result := {schema}.work_apply_1(p_store, p_writer, p_batch, p_condition, p_value,
		p_ids, p_keys, p_values, p_removed, p_size, p_keep_bytes, p_keep_seconds);
	RETURN CASE v_result WHEN 'ok' THEN v_before ELSE v_result END;
END $$;
`

const (
	openQuery  = `SELECT {schema}.work_open_1($1)`
	applyQuery = `SELECT {schema}.work_apply_2($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`
	beginRead  = `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = 0` // f may be slow
	loadQuery  = `SELECT key, value FROM {schema}.work_records WHERE store = $1`
	lastQuery  = `SELECT revision, writer::text, batch FROM {schema}.work_stores WHERE id = $1`
	batchQuery = `SELECT writer::text, batch FROM {schema}.work_feed WHERE store = $1 AND revision = $2`

	beginReadSince = beginRead + `; SET LOCAL enable_seqscan = off`
	sinceQuery     = `
SELECT c.key, r.value FROM (
	SELECT unnest(keys) AS key FROM {schema}.work_feed WHERE store = $1 AND revision > $2
	UNION SELECT unnest($3::bytea[])) AS c
LEFT JOIN {schema}.work_records r ON r.store = $1 AND r.id = substring(sha256(c.key) FROM 1 FOR 16)`
	// feedQuery returns the last batch of the store, and with newer batches also those and the batch
	// at $2, without its content.
	feedQuery = `
SELECT s.revision, s.writer::text, s.batch, f.revision, f.writer::text, f.batch,
       CASE WHEN f.revision > $2 THEN f.keys END, CASE WHEN f.revision > $2 THEN f."values" END
FROM {schema}.work_stores s
LEFT JOIN LATERAL (
	SELECT * FROM {schema}.work_feed WHERE store = s.id AND revision >= $2 AND s.revision > $2
	ORDER BY revision LIMIT 256) AS f ON true
WHERE s.id = $1
ORDER BY f.revision`
)
