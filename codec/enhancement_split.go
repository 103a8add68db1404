// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import "strconv"

// ResyncChunkSize is the usual size limit of a chunk in bytes: see [SplitSpecResync].
const ResyncChunkSize = 128 << 10

// chunkOverhead is the size of a chunk in addition to an event without entries: content type,
// index, count, the end of its ID, and the brackets around the list.
const chunkOverhead = 256

// SplitSpecResync divides a request into chunks of at most limit bytes, as events in structured
// mode. An entry larger than the limit has its own chunk.
// limit 0 means [ResyncChunkSize].
//
// A request within the limit is returned unchanged. Otherwise each chunk is a copy of r with its
// part of the entries (sharing their memory), Chunk set, and the ID `<id>-<index>`. r then needs a
// ResyncID, or Encode refuses the chunks. A request that cannot be encoded is returned unchanged,
// so that Encode returns the error.
func SplitSpecResync(r *SpecResync, limit int) []*SpecResync {
	if r == nil {
		return []*SpecResync{r}
	}
	empty := *r
	empty.Entries = nil
	return split(r, &empty, r.Entries, limit, specEntry, func(c *SpecResync, i, n int, part []SpecEntry) {
		c.ID, c.Chunk, c.Entries = chunkID(r.ID, i), Chunk{Index: i, Count: n}, part
	})
}

// SplitStatusResync divides a status resync into chunks, like [SplitSpecResync].
func SplitStatusResync(r *StatusResync, limit int) []*StatusResync {
	if r == nil {
		return []*StatusResync{r}
	}
	empty := *r
	empty.Entries = nil
	return split(r, &empty, r.Entries, limit, statusEntry, func(c *StatusResync, i, n int, part []StatusEntry) {
		c.ID, c.Chunk, c.Entries = chunkID(r.ID, i), Chunk{Index: i, Count: n}, part
	})
}

// split divides a request. empty is the request without entries; set makes a copy of r the i-th of n
// chunks.
func split[M, E any](
	r *M, empty Message, entries []E, limit int, members []entryMember[E], set func(c *M, i, n int, part []E),
) []*M {
	var buf []byte
	ends := chunkEnds(empty, limit, len(entries), func(i int) int {
		buf = appendEntry(buf[:0], &entries[i], members)
		return len(buf)
	})
	if len(ends) <= 1 {
		return []*M{r}
	}
	chunks := make([]*M, len(ends))
	start := 0
	for i, end := range ends {
		c := *r
		set(&c, i, len(ends), entries[start:end:end])
		chunks[i], start = &c, end
	}
	return chunks
}

func chunkID(id string, index int) string { return id + "-" + strconv.Itoa(index) }

// chunkEnds returns the index after the last entry of each chunk. empty is the message without
// entries, size returns the length of an entry.
func chunkEnds(empty Message, limit, n int, size func(int) int) []int {
	if limit <= 0 {
		limit = ResyncChunkSize
	}
	_, e, err := ManifestWork.Encode(empty)
	if err != nil {
		return nil
	}
	envelope, err := AppendStructured(nil, e)
	if err != nil {
		return nil
	}
	room := limit - len(envelope) - chunkOverhead
	var ends []int
	start, used := 0, 0
	for i := range n {
		length := size(i) + 1 // the comma
		if used > 0 && (used+length > room || i-start == MaxElements) {
			ends = append(ends, i)
			start, used = i, 0
		}
		used += length
	}
	return append(ends, n)
}
