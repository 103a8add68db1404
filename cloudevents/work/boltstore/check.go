// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package boltstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
)

// bbolt maps the file into memory and trusts its content: an invalid page ends the process. So the
// whole file is read once before bbolt uses it, and checked against the few rules of its pages.

// The format of bbolt's files. Numbers have the byte order of the machine.
const (
	magic   = 0xED0CDAED
	version = 2

	headerSize  = 16 // of a page: ID, flags, count, overflow
	metaSize    = 64
	elementSize = 16 // of a key on a page
	bucketSize  = 16 // of a bucket in its parent: root page, sequence

	flagBranch   = 0x01
	flagLeaf     = 0x02
	flagFreelist = 0x10

	elementBucket = 0x01

	noFreelist = ^uint64(0)

	// The second meta page begins after the first page. If the first meta page is damaged, its size
	// is unknown.
	leastPage, mostPage = 1 << 10, 1 << 25

	// mostLevels is far above the height of any tree that fits on a disk.
	mostLevels = 64
)

// meta is a page with the positions of the other parts. A file has two, written in turn.
type meta struct {
	pageSize              int64
	root, freelist, pages uint64
	tx                    uint64
}

// checker reads a file. Its methods return [ErrDamaged] with the reason, or the error of the file.
type checker struct {
	file io.ReaderAt
	meta
	used []bool // by page
}

func checkFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // nothing was written
	info, err := file.Stat()
	if err != nil {
		return err
	}
	c := &checker{file: file}
	if c.meta, err = readMeta(file); err != nil {
		return err
	}
	if have := uint64(info.Size()) / uint64(c.pageSize); have < c.pages {
		return damaged("it has %d pages of %d: it was cut", have, c.pages)
	}
	c.used = make([]bool, c.pages)
	if _, err := c.tree(c.root, nil, nil, 0); err != nil {
		return err
	}
	return c.free()
}

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

// readMeta returns the valid meta page with the latest transaction.
func readMeta(file io.ReaderAt) (newest meta, err error) {
	found := false
	take := func(at int64) error {
		m, ok, err := metaAt(file, at)
		if err == nil && ok && (!found || m.tx > newest.tx) {
			newest, found = m, true
		}
		return err
	}
	if err = take(0); found {
		err = take(newest.pageSize)
	}
	for at := int64(leastPage); at <= mostPage && !found && err == nil; at *= 2 {
		err = take(at)
	}
	if err == nil && !found {
		err = damaged("it does not begin as a database")
	}
	return newest, err
}

// metaAt reads one meta page. ok is false if it is not valid.
func metaAt(file io.ReaderAt, at int64) (m meta, ok bool, err error) {
	page := make([]byte, headerSize+metaSize)
	if _, err := file.ReadAt(page, at); errors.Is(err, io.EOF) {
		return m, false, nil
	} else if err != nil {
		return m, false, err
	}
	b, n := page[headerSize:], binary.NativeEndian
	sum := fnv.New64a()
	_, _ = sum.Write(b[:metaSize-8]) // a hash never returns an error
	m = meta{
		pageSize: int64(n.Uint32(b[8:])), root: n.Uint64(b[16:]),
		freelist: n.Uint64(b[32:]), pages: n.Uint64(b[40:]), tx: n.Uint64(b[48:]),
	}
	ok = n.Uint32(b) == magic && n.Uint32(b[4:]) == version && n.Uint64(b[56:]) == sum.Sum64() &&
		m.pageSize >= leastPage && m.pageSize <= mostPage
	return m, ok, nil
}

// page reads a page with its overflow, and marks it as used.
func (c *checker) page(id uint64) ([]byte, error) {
	if id < 2 || id >= c.pages {
		return nil, damaged("page %d is out of bounds", id)
	}
	header := make([]byte, headerSize)
	if _, err := c.file.ReadAt(header, int64(id)*c.pageSize); err != nil {
		return nil, err
	}
	if got := binary.NativeEndian.Uint64(header); got != id {
		return nil, damaged("page %d says that it is page %d", id, got)
	}
	more := uint64(binary.NativeEndian.Uint32(header[12:]))
	if more >= c.pages-id {
		return nil, damaged("page %d is longer than the file", id)
	}
	for i := id; i <= id+more; i++ {
		if c.used[i] {
			return nil, damaged("page %d is used twice", i)
		}
		c.used[i] = true
	}
	page := make([]byte, int64(more+1)*c.pageSize)
	if _, err := c.file.ReadAt(page, int64(id)*c.pageSize); err != nil {
		return nil, err
	}
	return page, nil
}

// tree checks the part of a tree below a page. Its keys must be at least low and below high; nil
// means no bound. It returns the last key.
func (c *checker) tree(id uint64, low, high []byte, level int) (last []byte, err error) {
	if level > mostLevels {
		return nil, damaged("page %d lies too deep", id)
	}
	page, err := c.page(id)
	if err != nil {
		return nil, err
	}
	flags := binary.NativeEndian.Uint16(page[8:])
	if flags != flagBranch && flags != flagLeaf {
		return nil, damaged("page %d has flags %#x", id, flags)
	}
	list, err := elements(page, id)
	if err != nil {
		return nil, err
	}
	for i, e := range list {
		switch order := bytes.Compare(low, e.key); {
		case low != nil && (order > 0 || order == 0 && i > 0), high != nil && bytes.Compare(e.key, high) >= 0:
			return nil, damaged("the keys of page %d are not in order", id)
		}
		low = e.key
		switch {
		case flags == flagBranch:
			end := high
			if i+1 < len(list) {
				end = list[i+1].key
			}
			if low, err = c.tree(e.child, e.key, end, level+1); err != nil {
				return nil, err
			}
		case e.bucket:
			if err := c.bucket(e.value, id, level+1); err != nil {
				return nil, err
			}
		}
	}
	return low, nil
}

// bucket checks a bucket by its value in the parent: the number of its root page, or all its keys.
func (c *checker) bucket(value []byte, parent uint64, level int) error {
	if len(value) < bucketSize {
		return damaged("a bucket of page %d is cut", parent)
	}
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		_, err := c.tree(root, nil, nil, level)
		return err
	}
	page := value[bucketSize:]
	if len(page) < headerSize || binary.NativeEndian.Uint16(page[8:]) != flagLeaf {
		return damaged("a bucket of page %d is no page", parent)
	}
	list, err := elements(page, parent)
	for i := range list {
		if list[i].bucket || i > 0 && bytes.Compare(list[i-1].key, list[i].key) >= 0 {
			return damaged("the keys of a bucket of page %d are not in order", parent)
		}
	}
	return err
}

// element is a key of a page, with its value or its child page.
type element struct {
	key, value []byte // of a leaf
	bucket     bool
	child      uint64 // of a branch
}

func elements(page []byte, id uint64) ([]element, error) {
	n := binary.NativeEndian
	branch, count := n.Uint16(page[8:]) == flagBranch, int(n.Uint16(page[10:]))
	if headerSize+count*elementSize > len(page) || branch && count == 0 {
		return nil, damaged("page %d cannot have %d keys", id, count)
	}
	list := make([]element, count)
	for i := range list {
		at := headerSize + i*elementSize
		b, e := page[at:], &list[i]
		var pos, key, value uint64
		if branch {
			pos, key, e.child = uint64(n.Uint32(b)), uint64(n.Uint32(b[4:])), n.Uint64(b[8:])
		} else {
			pos, key, value = uint64(n.Uint32(b[4:])), uint64(n.Uint32(b[8:])), uint64(n.Uint32(b[12:]))
			e.bucket = n.Uint32(b)&elementBucket != 0
		}
		if pos+key+value > uint64(len(b)) {
			return nil, damaged("a key of page %d is beyond it", id)
		}
		e.key, e.value = b[pos:pos+key], b[pos+key:pos+key+value]
	}
	return list, nil
}

// free checks the list of free pages. Files that were never written to have this list.
func (c *checker) free() error {
	if c.freelist == noFreelist {
		return nil
	}
	page, err := c.page(c.freelist)
	if err != nil {
		return err
	}
	n := binary.NativeEndian
	if flags := n.Uint16(page[8:]); flags != flagFreelist {
		return damaged("page %d has flags %#x", c.freelist, flags)
	}
	count, ids := uint64(n.Uint16(page[10:])), page[headerSize:]
	if count == 1<<16-1 { // the count is too large for its field
		count, ids = n.Uint64(ids), ids[8:]
	}
	if count > uint64(len(ids))/8 {
		return damaged("page %d cannot have %d free pages", c.freelist, count)
	}
	for i := range count {
		id := n.Uint64(ids[8*i:])
		if id < 2 || id >= c.pages || c.used[id] {
			return damaged("page %d cannot be free", id)
		}
		c.used[id] = true
	}
	return nil
}
