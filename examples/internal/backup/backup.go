// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package backup copies the two stores of a program, one of package rsync and one of package work, to
// a file while the program runs, and restores the file into empty stores of any kind.
//
// A backup has the content of both stores at one moment, like the disk after a crash. Keys with a
// lease are not in it. A file is compressed with gzip. Its first line is a [Header] in JSON, then
// follow the records: a byte for the store, and the lengths and the bytes of key and value.
package backup

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/rsync/store"
)

const (
	format  = "spokewire-hub-backup"
	version = 1
	// attempts limits how often Write waits for a moment without a transaction between its two reads.
	attempts = 1000
	// maxValue is the maximum size of a value in a file, that of all stores. The one of a key is
	// [work.MaxKeyLength].
	maxValue = 64 << 20
)

// The kinds of records.
const (
	stateRecord = 's'
	workRecord  = 'w'
	endRecord   = 'e' // the last one: a file without it is truncated
)

// Stores are the stores of a program.
type Stores struct {
	State store.Store
	Works work.Store
}

// Header describes a backup.
type Header struct {
	Format  string    `json:"format"`
	Version int       `json:"version"`
	Source  string    `json:"source"` // the source ID: works of another source cannot be used
	Created time.Time `json:"created"`
}

// errMoved is returned when a transaction was executed between the reads of both stores.
var errMoved = errors.New("the stores change too often to read both at one moment: try again")

// Write writes a backup of the stores of a source. The stores may be in use. to must not block,
// because some stores cannot free space during the call.
func Write(ctx context.Context, to io.Writer, source string, s Stores) error {
	for attempt := 1; ; attempt++ {
		err := write(ctx, to, Header{format, version, source, time.Now().UTC()}, s)
		if !errors.Is(err, errMoved) || attempt == attempts {
			return err
		}
	}
}

// write returns errMoved before it has written anything.
func write(ctx context.Context, to io.Writer, h Header, s Stores) error {
	before, err := s.State.Txn(ctx, nil, nil)
	if err != nil {
		return err
	}
	var w *writer
	// begin reads the state while works are read: if its revision is the one of before, the works have
	// not been read earlier or later than the state.
	begin := func() error {
		state, err := s.State.Range(ctx, "")
		switch {
		case err != nil:
			return err
		case state.Revision != before.Revision:
			return errMoved
		}
		w = newWriter(to, h)
		for _, kv := range state.KVs {
			if kv.Lease == 0 && kv.Key != markerKey {
				w.record(stateRecord, kv.Key, kv.Value)
			}
		}
		return w.err
	}
	err = s.Works.Load(ctx, func(key string, value []byte) error {
		if w == nil {
			if err := begin(); err != nil {
				return err
			}
		}
		w.record(workRecord, key, value)
		return w.err
	})
	if err == nil && w == nil { // without works
		err = begin()
	}
	if err != nil {
		return err
	}
	w.record(endRecord, "", nil)
	return errors.Join(w.err, w.gzip.Close())
}

type writer struct {
	gzip *gzip.Writer
	err  error
}

func newWriter(to io.Writer, h Header) *writer {
	w := &writer{gzip: gzip.NewWriter(to)}
	w.err = json.NewEncoder(w.gzip).Encode(h)
	return w
}

func (w *writer) record(kind byte, key string, value []byte) {
	head := binary.AppendUvarint([]byte{kind}, uint64(len(key)))
	head = binary.AppendUvarint(append(head, key...), uint64(len(value)))
	for _, part := range [][]byte{head, value} {
		if w.err == nil {
			_, w.err = w.gzip.Write(part)
		}
	}
}

// The errors of [Read], for errors.Is.
var (
	ErrForeign   = errors.New("the file is not a backup of a hub")
	ErrNewer     = errors.New("the backup was made by a newer program: restore it with that program")
	ErrTruncated = errors.New("the backup is truncated: copy the file again, or use another one")
	ErrDamaged   = errors.New("the backup is damaged: copy the file again, or use another one")
)

// Read checks a whole backup, and calls f, unless it is nil, with its records: key and value are of
// the store of package work if ofWork, and otherwise of that of package rsync.
func Read(from io.Reader, f func(ofWork bool, key string, value []byte) error) (h Header, err error) {
	unpacked, err := gzip.NewReader(from)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return h, ErrTruncated
	case errors.Is(err, gzip.ErrHeader):
		return h, ErrForeign
	case err != nil:
		return h, err
	}
	r := &reader{in: bufio.NewReader(unpacked)}
	line, err := r.in.ReadSlice('\n')
	if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
		return h, explain(err)
	}
	switch err := json.Unmarshal(line, &h); {
	case err != nil || h.Format != format:
		return h, ErrForeign
	case h.Version > version:
		return h, ErrNewer
	case codec.ValidateName("source", h.Source) != nil:
		return h, ErrDamaged
	}
	for {
		kind, key, value, err := r.record()
		switch {
		case err != nil:
			return h, explain(err)
		case kind == endRecord:
			switch _, err := r.in.ReadByte(); {
			case err == nil:
				return h, ErrDamaged
			case !errors.Is(err, io.EOF):
				return h, explain(err)
			}
			return h, nil
		case kind != stateRecord && kind != workRecord:
			return h, ErrDamaged
		case f != nil:
			if err := f(kind == workRecord, key, value); err != nil {
				return h, err
			}
		}
	}
}

type reader struct{ in *bufio.Reader }

func (r *reader) record() (kind byte, key string, value []byte, err error) {
	kind, err = r.in.ReadByte()
	var k []byte
	if err == nil {
		k, err = r.bytes(work.MaxKeyLength)
	}
	if err == nil {
		value, err = r.bytes(maxValue)
	}
	return kind, string(k), value, err
}

// bytes reads a length and as many bytes. Its memory grows with the file and not with the length.
func (r *reader) bytes(limit uint64) ([]byte, error) {
	n, err := binary.ReadUvarint(r.in)
	if err != nil {
		return nil, err
	}
	if n > limit {
		return nil, ErrDamaged
	}
	var out bytes.Buffer
	_, err = io.CopyN(&out, r.in, int64(n))
	return bytes.Clone(out.Bytes()), err
}

// explain returns the error of this package for an error of gzip.
func explain(err error) error {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return ErrTruncated
	case errors.Is(err, gzip.ErrChecksum), errors.As(err, new(flate.CorruptInputError)):
		return ErrDamaged
	}
	return err
}
