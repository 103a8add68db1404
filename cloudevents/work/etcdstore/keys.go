// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"fmt"
	"strings"
)

// The keys of a store, after its prefix, in the order of etcd:
//
//	format           formatValue
//	pending          the committed batch that is not copied to its records yet
//	record/KEY       a record
//	record/KEY\0NNN  a chunk of a large record
//	removed          the keys that the last batch removed, for followers
//	stage/ID         a batch that is written in parts, and the number of the last part
//	stage/ID/NNN     a part
//	writer/ID        the fence of a Store, which its next write after an error sets again
//
// Only the keys from pending to removed are watched. While there is a pending batch, all writes
// but its copy are refused by their conditions. So the copy may be repeated by any process, in any
// number of transactions. Readers take the records of a pending batch from the batch.

// formatValue is the value under the key format.
const formatValue = "spokewire-works/1"

// keys is the prefix of a store.
type keys string

func (k keys) format() string  { return string(k) + "format" }
func (k keys) pending() string { return string(k) + "pending" }
func (k keys) removed() string { return string(k) + "removed" }
func (k keys) records() string { return string(k) + "record/" }
func (k keys) staged() string  { return string(k) + "stage/" }
func (k keys) writers() string { return string(k) + "writer/" }

func (k keys) recordsEnd() string { return string(k) + "record0" } // the character after the slash
func (k keys) watchEnd() string   { return k.staged() }

func (k keys) writer(id string) string   { return k.writers() + id }
func (k keys) stage(id string) string    { return k.staged() + id }
func (k keys) stageEnd(id string) string { return k.stage(id) + "0" }
func (k keys) part(id string, n int) string {
	return fmt.Sprintf("%s/%06d", k.stage(id), n)
}

func (k keys) record(key string) string { return k.records() + escaper.Replace(key) }
func (k keys) chunk(key string, n int) string {
	return fmt.Sprintf("%s\x00%06d", k.record(key), n)
}

// recordEnd is the end of the range of a record and its chunks.
func (k keys) recordEnd(key string) string { return k.record(key) + "\x01" }

// The escaped key has no zero byte, and no byte 1 without a letter.
var (
	escaper   = strings.NewReplacer("\x00", "\x01z", "\x01", "\x01o")
	unescaper = strings.NewReplacer("\x01z", "\x00", "\x01o", "\x01")
)

// recordOf returns the key of a record, and whether the key of etcd is one of its chunks.
func (k keys) recordOf(key []byte) (record string, chunk, ok bool) {
	rest, ok := strings.CutPrefix(string(key), k.records())
	if !ok {
		return "", false, false
	}
	record, _, chunk = strings.Cut(rest, "\x00")
	return unescaper.Replace(record), chunk, true
}
