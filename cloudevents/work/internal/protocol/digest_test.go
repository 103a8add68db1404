// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package protocol_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
)

type heldWork struct {
	id  string
	v   protocol.Version
	seq int64
}

func digestOf(buckets int, works map[string]heldWork) protocol.Digest {
	d := protocol.NewDigest(buckets)
	for _, w := range works {
		d.Add(protocol.NewIdentity(w.id, w.v.UID), w.v.V, w.seq)
	}
	return d
}

// TestDigest: digests are equal exactly if all works are equal, in any order of additions. Only the
// buckets of different works differ.
func TestDigest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		buckets := 1 << rapid.IntRange(0, 8).Draw(t, "buckets")
		works := map[string]heldWork{}
		for i := range rapid.IntRange(0, 50).Draw(t, "works") {
			id := fmt.Sprintf("id-%d", i)
			works[id] = heldWork{id, v(rapid.Int64Range(0, 9).Draw(t, "v"),
				rapid.SampledFrom([]string{"a", "b"}).Draw(t, "uid")), rapid.Int64Range(0, 9).Draw(t, "seq")}
		}
		own := digestOf(buckets, works)
		if !own.Equal(digestOf(buckets, works)) {
			t.Fatal("the same works have another digest in another order")
		}
		id := fmt.Sprintf("id-%d", rapid.IntRange(0, 50).Draw(t, "changed"))
		w := works[id]
		switch rapid.IntRange(0, 3).Draw(t, "change") {
		case 0:
			w.v.V++
		case 1:
			w.v.UID += "x"
		case 2:
			w.seq++
		case 3:
			w.id = id
		}
		if _, ok := works[id]; ok && w == works[id] {
			delete(works, id)
		} else {
			w.id = id
			works[id] = w
		}
		other := digestOf(buckets, works)
		if own.Equal(other) {
			t.Error("a change does not show in the digest")
		}
		if got, want := own.Differing(other), []int{protocol.Bucket(id, buckets)}; !slices.Equal(got, want) {
			t.Errorf("buckets %d differ, want %d", got, want)
		}
	})
}

// TestDigestIsFixed: both sides compute the same sums in all releases.
func TestDigestIsFixed(t *testing.T) {
	d := protocol.NewDigest(4)
	d.Add(protocol.NewIdentity("c3ef2c5a-c0e4-5832-ad21-a9552589ce8f", "0c1f2a55-6a55-4a1e-9d59-5f0d1c5b2f11"),
		1783432567890123456, 7)
	want := fmt.Sprint(protocol.Digest{Works: 1, Sums: []uint64{0, 0, 0, 16266810136042173744}})
	if got := fmt.Sprint(d); got != want {
		t.Errorf("digest %s, want %s", got, want)
	}
}

// TestBuckets: a bucket has about as many works as fit into a small list.
func TestBuckets(t *testing.T) {
	for works, want := range map[int]int{0: 1, 32: 1, 33: 2, 1000: 32, 25_000: 256, 1_000_000: 256} {
		if got := protocol.Buckets(works); got != want {
			t.Errorf("%d works are divided into %d buckets, want %d", works, got, want)
		}
	}
}
