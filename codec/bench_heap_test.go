// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec_test

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/spokewire/sdk-go/codec"
)

// BenchmarkLiveHeap measures the memory that a decoded event occupies in the cache of its receiver:
// the objects, and everything that they keep alive. Each event has its own memory, like an event
// from a broker, and is dropped after it is decoded.
func BenchmarkLiveHeap(b *testing.B) {
	for _, tc := range []struct {
		name    string
		message codec.Message
		binary  bool
	}{
		{name: "spec", message: benchSpec(1 << 10)},
		{name: "spec/binary", message: benchSpec(1 << 10), binary: true},
		{name: "spec/100", message: benchSpecs(100)},
		{name: "status", message: benchStatus(1)},
		{name: "status/100", message: benchStatus(100)},
	} {
		b.Run(tc.name, func(b *testing.B) {
			topic, payload := structured(b, tc.message)
			if tc.binary {
				_, e, err := codec.ManifestWork.Encode(tc.message)
				if err != nil {
					b.Fatal(err)
				}
				payload = e.Data()
			}
			kept := make([]any, 0, 1000)
			var total, rounds float64
			for b.Loop() {
				clear(kept)
				kept = kept[:0]
				before := heapInUse()
				for range cap(kept) {
					kept = append(kept, keep(b, topic, bytes.Clone(payload), tc.message, tc.binary))
				}
				total += float64(heapInUse()) - float64(before)
				rounds++
			}
			runtime.KeepAlive(kept)
			b.ReportMetric(total/rounds/float64(cap(kept)), "live-B/event")
			b.ReportMetric(float64(len(payload)), "payload-B")
		})
	}
}

// keep decodes an event and returns what a cache keeps of it.
func keep(b *testing.B, topic string, payload []byte, m codec.Message, binary bool) any {
	e, err := codec.ParseStructured(payload)
	if binary {
		_, e, err = codec.ManifestWork.Encode(m)
		e.DataEncoded = payload
	}
	if err != nil {
		b.Fatal(err)
	}
	m, err = codec.ManifestWork.Decode(topic, e)
	if err != nil {
		b.Fatal(err)
	}
	if spec, ok := m.(*codec.Spec); ok {
		return spec.Work
	}
	return m.(*codec.Status).Status
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
