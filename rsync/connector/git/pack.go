// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package git

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	storage "github.com/go-git/go-git/v5/storage/memory"
)

// errTooLarge: the server sends more than Options.MaxFetchBytes.
var errTooLarge = errors.New("the answer is larger than Options.MaxFetchBytes")

// objectCost is the memory for the record of an object, which may have nine bytes in a pack.
const objectCost = 100

// packReader reads a pack as a stream, and keeps only folders and commits, unless files is set. The
// base of a delta always precedes the delta and has the same type.
type packReader struct {
	limit int64 // bytes that may be kept
	files bool
	kept  map[plumbing.Hash]packed
	at    map[int64]packed // by offset in the pack
}

// packed is an object of a pack. raw is nil for a tag, and for a file that is not kept.
type packed struct {
	kind plumbing.ObjectType
	raw  []byte
}

// readPack returns the folders and commits of a pack, and the files if files is set.
func readPack(r io.Reader, limit int64, files bool) (map[plumbing.Hash]packed, error) {
	p := &packReader{limit: limit, files: files, kept: map[plumbing.Hash]packed{}, at: map[int64]packed{}}
	scanner := packfile.NewScanner(r)
	_, count, err := scanner.Header()
	if errors.Is(err, packfile.ErrEmptyPackfile) {
		return p.kept, nil
	}
	for ; err == nil && count > 0; count-- {
		err = p.object(scanner)
	}
	if err == nil {
		_, err = scanner.Checksum()
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return p.kept, err
}

func (p *packReader) object(scanner *packfile.Scanner) error {
	header, err := scanner.NextObjectHeader()
	if err != nil {
		return err
	}
	if p.limit -= objectCost; p.limit < 0 {
		return errTooLarge
	}
	kind, base := header.Type, packed{}
	switch header.Type {
	case plumbing.OFSDeltaObject:
		base = p.at[header.OffsetReference]
		kind = base.kind
	case plumbing.REFDeltaObject:
		base = p.kept[header.Reference]
		kind = base.kind // zero for a file without a computed hash
	}
	if kind != plumbing.TreeObject && kind != plumbing.CommitObject && (kind != plumbing.BlobObject || !p.files) {
		_, _, err := scanner.NextObject(io.Discard)
		p.at[header.Offset] = packed{kind: kind}
		return err
	}
	if p.limit -= header.Length; p.limit < 0 {
		return errTooLarge
	}
	var raw bytes.Buffer
	if _, _, err := scanner.NextObject(&raw); err != nil {
		return err
	}
	o := packed{kind: kind, raw: raw.Bytes()}
	if header.Type.IsDelta() {
		if o.raw, err = p.patch(base.raw, o.raw); err != nil {
			return err
		}
	}
	p.at[header.Offset] = o
	p.kept[plumbing.ComputeHash(kind, o.raw)] = o
	return nil
}

// patch applies a delta. Its head has the sizes before and after.
func (p *packReader) patch(base, delta []byte) ([]byte, error) {
	_, n := binary.Uvarint(delta)
	if n <= 0 {
		return nil, packfile.ErrInvalidDelta
	}
	size, m := binary.Uvarint(delta[n:])
	if m <= 0 {
		return nil, packfile.ErrInvalidDelta
	}
	if size > uint64(p.limit) { // never negative here
		return nil, errTooLarge
	}
	p.limit -= int64(size)
	return packfile.PatchDelta(base, delta)
}

// writePack returns objects as a pack.
func writePack(objects []plumbing.EncodedObject) ([]byte, error) {
	store := storage.NewStorage()
	hashes := make([]plumbing.Hash, 0, len(objects))
	for _, o := range objects {
		h, err := store.SetEncodedObject(o)
		if err != nil {
			return nil, err
		}
		hashes = append(hashes, h)
	}
	var out bytes.Buffer
	// Without a search for deltas: the objects are few and differ.
	if _, err := packfile.NewEncoder(&out, store, false).Encode(hashes, 0); err != nil {
		return nil, fmt.Errorf("the pack cannot be written: %w", err)
	}
	return out.Bytes(), nil
}

// memory returns an object with a content.
func memory(kind plumbing.ObjectType, raw []byte) *plumbing.MemoryObject {
	o := &plumbing.MemoryObject{}
	o.SetType(kind)
	_, _ = o.Write(raw) // never fails
	return o
}

// content returns the content of an object.
func content(o *plumbing.MemoryObject) []byte {
	r, _ := o.Reader() // neither fails
	raw, _ := io.ReadAll(r)
	return raw
}
