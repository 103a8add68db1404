// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"sync"
	"time"
)

// Step is the duration of each value of a [Series].
const Step = 100 * time.Millisecond

// Series counts events over time. All methods may be called from any goroutine.
type Series struct {
	began time.Time

	mu     sync.Mutex
	counts []int
}

// NewSeries returns a series that starts now.
func NewSeries() *Series { return &Series{began: time.Now(), counts: make([]int, 0, 1024)} }

// Add counts one event.
func (s *Series) Add() {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := int(time.Since(s.began) / Step)
	for len(s.counts) <= at {
		s.counts = append(s.counts, 0)
	}
	s.counts[at]++
}

// PerSecond returns the rate in each step. It omits the last step, which is incomplete, unless it
// is the only one.
func (s *Series) PerSecond() []float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.counts)
	if n > 1 {
		n--
	}
	rates := make([]float64, n)
	for i := range rates {
		rates[i] = float64(s.counts[i]) / Step.Seconds()
	}
	return rates
}
