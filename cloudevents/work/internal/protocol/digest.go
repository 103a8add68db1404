// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"math/bits"

	"github.com/cespare/xxhash/v2"
)

// Digest summarizes the works that one side of a pair of source and agent has. Both sides have the
// same works if their digests are equal. A work counts with its resource ID, incarnation, version
// and the sequence ID of its last status.
type Digest struct {
	Works int
	// Sums has one sum of hashes for each bucket of resource IDs.
	Sums []uint64
}

// NewDigest returns the empty digest with a number of buckets, a power of two.
func NewDigest(buckets int) Digest { return Digest{Sums: make([]uint64, buckets)} }

// Identity has the hashes of a work's resource ID and incarnation.
type Identity struct{ id, uid uint64 }

// NewIdentity hashes a resource ID and an incarnation.
func NewIdentity(id, uid string) Identity {
	return Identity{xxhash.Sum64String(id), xxhash.Sum64String(uid)}
}

// Add adds a work with a version and the sequence ID of its last status to the digest.
func (d *Digest) Add(i Identity, version, seq int64) {
	d.Works++
	d.Sums[bucketOf(i.id, len(d.Sums))] += mix(mix(mix(i.id^i.uid)^uint64(version)) ^ uint64(seq))
}

// Bucket returns the bucket of a resource ID.
func Bucket(id string, buckets int) int { return bucketOf(xxhash.Sum64String(id), buckets) }

func bucketOf(hash uint64, buckets int) int {
	return int(hash >> (64 - uint(bits.TrailingZeros(uint(buckets)))))
}

// mix is the finalizer of SplitMix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Equal reports whether two digests with the same number of buckets are of the same works.
func (d Digest) Equal(other Digest) bool {
	return d.Works == other.Works && len(d.Differing(other)) == 0
}

// Differing returns the buckets with different works, in ascending order.
func (d Digest) Differing(other Digest) []int {
	var out []int
	for i, sum := range d.Sums {
		if sum != other.Sums[i] {
			out = append(out, i)
		}
	}
	return out
}

const (
	// worksPerBucket is the approximate number of works in the list of one bucket.
	worksPerBucket = 32
	mostBuckets    = 256
)

// Buckets returns the number of buckets for a number of works.
func Buckets(works int) int {
	n := 1
	for n < mostBuckets && n*worksPerBucket < works {
		n *= 2
	}
	return n
}
