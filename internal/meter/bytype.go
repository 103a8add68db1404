// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package meter

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// maxTypes is the maximum number of values of the label type: peers may send any number of types.
// All further types have the label other.
const maxTypes = 32

// ByType counts events and the bytes of their data by event type.
type ByType struct {
	events, bytes *prometheus.CounterVec

	mu    sync.Mutex
	types map[string]*Traffic
}

// Traffic counts the events of one type.
type Traffic struct{ events, bytes prometheus.Counter }

// ByType adds the metrics <name>_total and <name>_bytes_total.
func (s *Set) ByType(name, help, bytesHelp string) *ByType {
	return &ByType{
		events: s.CounterVec(name+"_total", help, "type"),
		bytes:  s.CounterVec(name+"_bytes_total", bytesHelp, "type"),
		types:  map[string]*Traffic{},
	}
}

// Of returns the counters of an event type.
func (b *ByType) Of(eventType string) *Traffic {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.types[eventType]
	if t != nil {
		return t
	}
	label := shortType(eventType)
	if len(b.types) >= maxTypes {
		label, eventType = "other", ""
	}
	t = &Traffic{events: b.events.WithLabelValues(label), bytes: b.bytes.WithLabelValues(label)}
	b.types[eventType] = t
	return t
}

// Add counts one event with the size of its data.
func (t *Traffic) Add(bytes int) {
	t.events.Inc()
	t.bytes.Add(float64(bytes))
}

// shortType returns the last two words of a type: "spec.created" of
// "io.open-cluster-management.v1.manifestwork.spec.created".
func shortType(eventType string) string {
	last := max(strings.LastIndexByte(eventType, '.'), 0)
	return eventType[strings.LastIndexByte(eventType[:last], '.')+1:]
}
