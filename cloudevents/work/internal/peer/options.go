// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package peer has what a source and an agent share: budgets, request queues, presence, metrics.
package peer

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/cache"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/journal"
	"github.com/spokewire/sdk-go/codec"
)

// Options are the options that sources and agents share, with their defaults. Package work
// documents and checks them.
type Options struct {
	Profile        codec.Profile
	Store          journal.Store // nil keeps the state in memory
	QPS            float32
	Burst          int
	Outbox         int           // -1: no write waits for a connection
	ResyncInterval time.Duration // not positive: no resyncs at intervals
	ResyncAll      bool          // with all peers, also those that send digests
	TombstoneTTL   time.Duration
	DrainTimeout   time.Duration
	Cache          cache.Limits

	MetricsRegisterer prometheus.Registerer // nil means no metrics
	Tracer            Tracer                // nil means no spans
	Clock             clock.WithTicker
}
