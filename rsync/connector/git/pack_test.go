// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package git_test

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/rsync/connector/git"
)

const (
	commitObject, treeObject, fileObject, offsetDelta = 1, 2, 3, 6
)

// packOf returns a pack of objects.
func packOf(objects ...[]byte) []byte {
	out := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(len(objects)))
	out = append(out, bytes.Join(objects, nil)...)
	sum := sha1.Sum(out)
	return append(out, sum[:]...)
}

// packedObject returns an object of a pack that claims to have size bytes. before is the part of a
// delta that precedes its content.
func packedObject(kind byte, size int, before, content string) []byte {
	first := kind<<4 | byte(size&15)
	var head []byte
	for size >>= 4; size > 0; size >>= 7 {
		head = append(head, first|0x80)
		first = byte(size & 0x7f)
	}
	head = append(head, first)
	out := bytes.NewBuffer(append(head, before...))
	w := zlib.NewWriter(out)
	_, _ = w.Write([]byte(content))
	_ = w.Close()
	return out.Bytes()
}

const packLimit = 1 << 20

// TestHostilePacks: the reader never keeps more of a pack than its limit.
func TestHostilePacks(t *testing.T) {
	one := packedObject(fileObject, 0, "", "")
	many := make([][]byte, 100_000)
	for i := range many {
		many[i] = one
	}
	zeros := strings.Repeat("\x00", 16<<20)
	delta := "\x04\x80\x80\x80\x80\x08" + "\x90\x04" // from 4 bytes to 2 GiB
	base := packedObject(treeObject, 4, "", "abcd")
	for name, pack := range map[string][]byte{
		"many files":                packOf(many...),
		"a large folder":            packOf(packedObject(treeObject, len(zeros), "", zeros)),
		"a folder larger than said": packOf(packedObject(treeObject, 10, "", zeros)),
		"a file larger than said":   packOf(packedObject(fileObject, 10, "", zeros)),
		"a delta of 2 GiB": packOf(base, packedObject(offsetDelta, len(delta), string([]byte{byte(len(base))}),
			delta)),
	} {
		for _, files := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, files %t", name, files), func(t *testing.T) {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				_, err := git.ReadPack(bytes.NewReader(pack), packLimit, files)
				runtime.ReadMemStats(&after)
				allocated := after.TotalAlloc - before.TotalAlloc
				if err == nil || !raceEnabled && allocated > 16*packLimit { // the race detector empties pools
					t.Errorf("%v, %d MiB were allocated", err, allocated>>20)
				}
			})
		}
	}
}

// FuzzPack: the reader returns packs and folders of a hostile server within the limit, or an error.
func FuzzPack(f *testing.F) {
	folder := "100644 a\x00" + strings.Repeat("h", 20) + "40000 b\x00" + strings.Repeat("i", 20)
	base := packedObject(treeObject, len(folder), "", folder)
	delta := string([]byte{byte(len(folder)), 4, 0x90, 4})
	f.Add(packOf())
	f.Add(packOf(base, packedObject(commitObject, 4, "", "tree"), packedObject(fileObject, 1, "", "x")))
	f.Add(packOf(base, packedObject(offsetDelta, len(delta), string([]byte{byte(len(base))}), delta)))
	f.Add(packOf(packedObject(offsetDelta, len(delta), "\x01", delta))) // without a base
	f.Add([]byte(fmt.Sprintf("PACK\x00\x00\x00\x02\xff\xff\xff\xff%s", base)))
	f.Fuzz(func(t *testing.T, pack []byte) {
		for _, files := range []bool{false, true} {
			if size, _ := git.ReadPack(bytes.NewReader(pack), packLimit, files); size > packLimit {
				t.Errorf("%d bytes are kept", size)
			}
		}
	})
}
