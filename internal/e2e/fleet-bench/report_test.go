// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestText(t *testing.T) {
	p := phase{
		name: "create", unit: "round trips", count: 12345, took: 2500 * time.Millisecond,
		latency: []time.Duration{250 * time.Microsecond, 99940 * time.Microsecond, 100 * time.Millisecond,
			2500 * time.Millisecond, 61 * time.Second},
		wire:   wireBytes{sent: 5 << 30, received: 512},
		events: map[string]traffic{"spec": {events: 7, bytes: 3 << 20, largest: 1024}, "status": {}},
		each:   &memory{heap: 50 << 10, stack: 2 << 10},
	}
	p.fact("it was over after", 1500*time.Millisecond)
	want := `create     12345 round trips in 2.50 s: 4938/s
  latency   p50 0.2 ms   p90 99.9 ms   p99 100.0 ms   p99.9 2.50 s   max 61.00 s
  wire      5.00 GiB sent, 0.5 KiB received
  spec      7 events, 3.0 MiB of data, 1.0 KiB the largest
  then      it was over after 1.50 s
  each      50.0 KiB of heap, 2.0 KiB of stack
`
	if diff := cmp.Diff(want, p.text()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestQuantiles(t *testing.T) {
	var all []time.Duration
	for i := 2000; i > 0; i-- {
		all = append(all, time.Duration(i))
	}
	if diff := cmp.Diff([]time.Duration{1000, 1800, 1980, 1998, 2000}, quantiles(all)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]time.Duration{7, 7, 7, 7, 7}, quantiles([]time.Duration{7})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
