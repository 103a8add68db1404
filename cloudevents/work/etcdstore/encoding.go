// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/spokewire/sdk-go/cloudevents/work"
)

// A record begins with inline and has its value, or begins with split and describes its chunks. A
// pending batch is the same: inline with the changes, or split with a description of its parts.
const (
	inline = 'v'
	split  = 's'
)

// chunkBytes is the maximum size of a value in a record, and the size of a chunk.
const chunkBytes = 128 << 10

// pieces describes bytes that are stored in several keys.
type pieces struct {
	id    string // of a staged batch
	size  int
	count int
	sum   [sha256.Size]byte
}

func piecesOf(id string, content []byte, size int) pieces {
	return pieces{id: id, size: len(content), count: (len(content) + size - 1) / size, sum: sha256.Sum256(content)}
}

func (p pieces) encode() string {
	return fmt.Sprintf("%c %d %d %x %s", split, p.size, p.count, p.sum, p.id)
}

var errFormat = errors.New("it has another format")

func decodePieces(value []byte) (p pieces, err error) {
	var sum []byte
	fields := bytes.SplitN(value, []byte(" "), 5)
	if len(fields) != 5 {
		return p, errFormat
	}
	if _, err := fmt.Sscanf(string(value), "s %d %d %x", &p.size, &p.count, &sum); err != nil ||
		len(sum) != len(p.sum) || p.size < 0 || p.count < 0 {
		return p, errFormat
	}
	p.id = string(fields[4])
	copy(p.sum[:], sum)
	return p, nil
}

// check returns an error if content is incomplete or changed.
func (p pieces) check(content []byte) error {
	if len(content) != p.size || sha256.Sum256(content) != p.sum {
		return fmt.Errorf("it has %d bytes of %d, or another checksum", len(content), p.size)
	}
	return nil
}

// recordValue returns the value in etcd of a record with this value.
func recordValue(value []byte) string {
	if len(value) > chunkBytes {
		return piecesOf("", value, chunkBytes).encode()
	}
	return string(inline) + string(value)
}

// encodeChanges returns changes as bytes: for each its key, and its value or 0.
func encodeChanges(changes []work.Change) []byte {
	size := 0
	for _, c := range changes {
		size += len(c.Key) + len(c.Value) + 2*binary.MaxVarintLen32
	}
	out := make([]byte, 0, size)
	for _, c := range changes {
		out = binary.AppendUvarint(out, uint64(len(c.Key)))
		out = append(out, c.Key...)
		if c.Value == nil {
			out = binary.AppendUvarint(out, 0)
			continue
		}
		out = binary.AppendUvarint(out, uint64(len(c.Value))+1)
		out = append(out, c.Value...)
	}
	return out
}

// decodeChanges is the reverse of encodeChanges. The values are parts of data.
func decodeChanges(data []byte) (changes []work.Change, err error) {
	number := func() (uint64, bool) {
		n, used := binary.Uvarint(data)
		data = data[max(used, 0):]
		return n, used > 0
	}
	take := func(n uint64) []byte {
		part := data[:n:n]
		data = data[n:]
		return part
	}
	for len(data) > 0 {
		n, ok := number()
		if !ok || n > uint64(len(data)) {
			return nil, errFormat
		}
		c := work.Change{Key: string(take(n))}
		n, ok = number()
		if !ok || n > uint64(len(data))+1 {
			return nil, errFormat
		}
		if n > 0 {
			c.Value = take(n - 1)
		}
		changes = append(changes, c)
	}
	return changes, nil
}
