// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package measure measures a run: time, memory, processor time and bytes on the wire.
package measure

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

const (
	// subBits sets 32 buckets for each power of two: the error of a value is at most 3 %.
	subBits = 5
	buckets = 64 << subBits
)

// Histogram counts durations. Its size does not depend on the number of values, so it does not
// distort measurements of memory. The zero value is empty. All methods may be called from any
// goroutine.
type Histogram struct {
	counts [buckets]atomic.Int64
	max    atomic.Int64
}

// Add counts one duration.
func (h *Histogram) Add(d time.Duration) {
	d = max(d, 0)
	h.counts[bucketOf(uint64(d))].Add(1)
	for {
		was := h.max.Load()
		if int64(d) <= was || h.max.CompareAndSwap(was, int64(d)) {
			return
		}
	}
}

// Count returns the number of durations.
func (h *Histogram) Count() int64 {
	var n int64
	for i := range h.counts {
		n += h.counts[i].Load()
	}
	return n
}

// Quantile returns the duration that a share q of all durations do not exceed, or 0 if it is empty.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank := int64(math.Ceil(q * float64(h.Count())))
	var seen int64
	for i := range h.counts {
		if seen += h.counts[i].Load(); seen >= rank && seen > 0 {
			return min(time.Duration(upper(i)), h.Max())
		}
	}
	return h.Max()
}

// Max returns the longest duration.
func (h *Histogram) Max() time.Duration { return time.Duration(h.max.Load()) }

// bucketOf returns the bucket of a value: exact below 64 ns and logarithmic above.
func bucketOf(v uint64) int {
	if v < 2<<subBits {
		return int(v)
	}
	shift := bits.Len64(v) - subBits - 1
	return shift<<subBits + int(v>>shift)
}

// upper returns the largest value of a bucket.
func upper(i int) uint64 {
	if i < 2<<subBits {
		return uint64(i)
	}
	shift := i>>subBits - 1
	return uint64(i-shift<<subBits+1)<<shift - 1
}
