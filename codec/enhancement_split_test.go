// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/spokewire/sdk-go/codec"
)

func TestSplitReturnsSmallRequestUnchanged(t *testing.T) {
	spec, status := newSpecResync(), newStatusResync()
	if got := codec.SplitSpecResync(spec, 0); len(got) != 1 || got[0] != spec {
		t.Errorf("got %d chunks, want the request itself", len(got))
	}
	if got := codec.SplitStatusResync(status, 0); len(got) != 1 || got[0] != status {
		t.Errorf("got %d chunks, want the request itself", len(got))
	}
	spec.Entries, status.Entries = nil, nil
	if got := codec.SplitSpecResync(spec, 1); len(got) != 1 || got[0] != spec {
		t.Errorf("got %d chunks of an empty request, want the request itself", len(got))
	}
	if got := codec.SplitStatusResync(status, 1); len(got) != 1 || got[0] != status {
		t.Errorf("got %d chunks of an empty request, want the request itself", len(got))
	}
}

func TestSplitDefaultLimit(t *testing.T) {
	r := benchSpecResync(10000)
	chunks := codec.SplitSpecResync(r, 0)
	if len(chunks) < 10 || len(chunks) > 25 {
		t.Errorf("10,000 entries make %d chunks", len(chunks))
	}
	for i, c := range chunks {
		if _, payload := structured(t, c); len(payload) > codec.ResyncChunkSize {
			t.Errorf("chunk %d has %d bytes", i, len(payload))
		} else if i < len(chunks)-1 && len(payload) < codec.ResyncChunkSize*9/10 {
			t.Errorf("chunk %d is filled with %d bytes only", i, len(payload))
		}
	}
}

func TestSplitSpecResync(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newSpecResync()
		r.Entries = nil
		for i := range rapid.IntRange(0, 60).Draw(t, "entries") {
			r.Entries = append(r.Entries, codec.SpecEntry{ResourceID: "x" + rapid.String().Draw(t, "id"), Version: int64(i),
				UID: types.UID(rapid.String().Draw(t, "uid"))})
		}
		limit := rapid.IntRange(1, 4000).Draw(t, "limit")
		chunks := codec.SplitSpecResync(r, limit)
		var entries []codec.SpecEntry
		for i, c := range chunks {
			entries = append(entries, c.Entries...)
			checkChunk(t, c, c.Chunk, i, len(chunks), len(c.Entries), limit)
			if c.ResyncID != r.ResyncID || c.AgentSession != r.AgentSession || c.Scope != r.Scope {
				t.Fatal("a chunk is about something else")
			}
		}
		if diff := cmp.Diff(r.Entries, entries); diff != "" {
			t.Fatalf("together (-want +got):\n%s", diff)
		}
	})
}

func TestSplitStatusResync(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newStatusResync()
		r.Entries = nil
		for i := range rapid.IntRange(0, 60).Draw(t, "entries") {
			r.Entries = append(r.Entries, codec.StatusEntry{ResourceID: "x" + rapid.String().Draw(t, "id"), StatusSeq: int64(i),
				Hash: rapid.String().Draw(t, "hash")})
		}
		limit := rapid.IntRange(1, 4000).Draw(t, "limit")
		chunks := codec.SplitStatusResync(r, limit)
		var entries []codec.StatusEntry
		for i, c := range chunks {
			entries = append(entries, c.Entries...)
			checkChunk(t, c, c.Chunk, i, len(chunks), len(c.Entries), limit)
			if c.ResyncID != r.ResyncID || c.Cluster != r.Cluster || c.Scope != r.Scope {
				t.Fatal("a chunk is about something else")
			}
		}
		if diff := cmp.Diff(r.Entries, entries); diff != "" {
			t.Fatalf("together (-want +got):\n%s", diff)
		}
	})
}

// checkChunk checks the index, the count, and the size of one chunk.
func checkChunk(t *rapid.T, m codec.Message, chunk codec.Chunk, i, n, entries, limit int) {
	_, e, err := codec.ManifestWork.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := codec.AppendStructured(nil, e)
	if err != nil {
		t.Fatal(err)
	}
	if len(payload) > limit && entries > 1 {
		t.Fatalf("chunk %d of %d entries has %d bytes, limit %d", i, entries, len(payload), limit)
	}
	if n == 1 {
		return
	}
	if chunk != (codec.Chunk{Index: i, Count: n}) || entries == 0 {
		t.Fatalf("chunk %d of %d: %+v with %d entries", i, n, chunk, entries)
	}
	if id := m.Head().ID; !strings.HasPrefix(id, "0b1f-") {
		t.Fatalf("chunk %d has the ID %s", i, id)
	}
}

// TestSplitLeavesErrorsToEncode checks that lists which cannot be encoded are split without an
// error, and that Encode returns the error.
func TestSplitLeavesErrorsToEncode(t *testing.T) {
	r := benchSpecResync(10)
	r.ResyncID = ""
	for _, c := range codec.SplitSpecResync(r, 600) {
		_, _, err := codec.ManifestWork.Encode(c)
		wantError(t, err, codec.CodeAttribute, "resyncid", "chunks need it")
	}
	r.ID = ""
	if got := codec.SplitSpecResync(r, 600); len(got) != 1 || got[0] != r {
		t.Errorf("got %d chunks of a request that cannot be encoded", len(got))
	}
}
