// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package pgstore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/spokewire/sdk-go/cloudevents/work"
)

// batch has the parameters of work_apply_2. The driver would encode arrays with ten allocations for
// each record.
type batch struct {
	values  [][]byte
	types   []uint32
	formats []int16
}

func (b *batch) add(oid uint32, format int16, value []byte) {
	b.values, b.types, b.formats = append(b.values, value), append(b.types, oid), append(b.formats, format)
}

func (b *batch) addInt(n int64) {
	b.add(pgtype.Int8OID, pgtype.TextFormatCode, strconv.AppendInt(nil, n, 10))
}

// encode returns the parameters of a write with the number s.batch.
func (s *Store) encode(condition *work.Change, changes []work.Change) *batch {
	ids, keys, values := make([][]byte, len(changes)), make([][]byte, len(changes)), make([][]byte, len(changes))
	var removed [][]byte
	var size int64
	for i, c := range changes {
		ids[i], keys[i], values[i] = id(c.Key), []byte(c.Key), c.Value
		size += int64(len(c.Key) + len(c.Value))
		if c.Value == nil {
			removed = append(removed, ids[i])
		}
	}
	var conditionID, conditionValue []byte
	if condition != nil {
		conditionID, conditionValue = id(condition.Key), condition.Value
	}
	b := &batch{}
	b.addInt(s.id)
	b.add(pgtype.UUIDOID, pgtype.TextFormatCode, []byte(s.writer))
	b.addInt(s.batch)
	b.add(pgtype.ByteaOID, pgtype.BinaryFormatCode, conditionID)
	b.add(pgtype.ByteaOID, pgtype.BinaryFormatCode, conditionValue)
	for _, array := range [][][]byte{ids, keys, values, removed} {
		b.add(pgtype.ByteaArrayOID, pgtype.BinaryFormatCode, encodeArray(array))
	}
	b.addInt(size)
	b.addInt(s.options.FeedBytes)
	age := strconv.AppendFloat(nil, s.options.FeedAge.Seconds(), 'f', -1, 64)
	b.add(pgtype.Float8OID, pgtype.TextFormatCode, age)
	return b
}

// id returns the id of a record. Keys may be longer than an entry of an index.
func id(key string) []byte {
	sum := sha256.Sum256([]byte(key))
	return sum[:16]
}

// encodeArray returns the binary format of a bytea[] with one dimension. A nil element is NULL.
func encodeArray(elements [][]byte) []byte {
	const header = 5 * 4
	size, null := header, uint32(0)
	for _, e := range elements {
		size += 4 + len(e)
		if e == nil {
			null = 1
		}
	}
	order := binary.BigEndian
	b := make([]byte, 0, size)
	if len(elements) == 0 {
		return append(b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, pgtype.ByteaOID) // no dimensions
	}
	for _, n := range []uint32{1, null, pgtype.ByteaOID, uint32(len(elements)), 1} {
		b = order.AppendUint32(b, n)
	}
	for _, e := range elements {
		if e == nil {
			b = order.AppendUint32(b, ^uint32(0))
			continue
		}
		b = append(order.AppendUint32(b, uint32(len(e))), e...)
	}
	return b
}

// send applies a batch in one round trip, and returns the result of work_apply_2.
func (s *Store) send(ctx context.Context, b *batch) (string, error) {
	conn, err := s.db.Pool.Acquire(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Release()
	sql := s.db.SQL(applyQuery)
	formats := []int16{pgtype.TextFormatCode}
	result := conn.Conn().PgConn().ExecParams(ctx, sql, b.values, b.types, b.formats, formats).Read()
	if result.Err != nil {
		return "", result.Err
	}
	if len(result.Rows) != 1 || len(result.Rows[0]) != 1 {
		return "", fmt.Errorf("the result of a write has %d rows, want 1", len(result.Rows))
	}
	return string(result.Rows[0][0]), nil
}
