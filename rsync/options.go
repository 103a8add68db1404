// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// DeleteOrder is in which order the resources of an app on a cluster are deleted.
type DeleteOrder int

// The orders.
const (
	ReverseOrder DeleteOrder = iota // the last applied first
	SameOrder
)

// Options configures an [Engine]; the zero value is useful.
type Options struct {
	// Name begins the name of the engine's sessions and is a label of its metrics. Defaults to "rsync".
	Name string
	// Workers is how many contexts are worked on at the same instant: choosing the next event, planning, writing. Waiting takes
	// none. Defaults to 8.
	Workers int
	// ClusterConcurrency is how many calls to one cluster are under way at a time. Calls to different clusters do not limit each
	// other. Defaults to 8.
	ClusterConcurrency int
	// Backoff is the delay before what a cluster refused is tried again.
	Backoff Backoff
	// MaxRetries is how often an app on a cluster is tried again in one event after its cluster refused or did not answer, where
	// each probe that fails counts. Progress resets the count. 0 means without end: until Stop or Terminate.
	MaxRetries int
	// ProbeInterval is the time from the start of one probe of a cluster that does not answer to the start of the next,
	// regardless of how many ops wait for it. A call that makes no progress for this time has the cluster probed too.
	// Defaults to 1 s.
	ProbeInterval time.Duration
	// ProbeTimeout limits one probe. A cluster that answers more slowly counts as unreachable, unless calls to it succeed.
	// Defaults to 10 s, or to ProbeInterval if that is longer.
	ProbeTimeout time.Duration
	// CallTimeout limits the time in which a call to a cluster makes no progress: connectors that report progress, as connector/kube
	// does for each object, may take as long as their objects need. It limits the whole call for the others.
	// Defaults to 1 minute.
	CallTimeout time.Duration
	// PollInterval is how often a cluster is asked for what must become ready or gone, where its connector does not tell by itself.
	// The interval grows to ten times as much for what takes long. Defaults to 500 ms.
	PollInterval time.Duration
	// Observe has the engines follow contexts that are Instantiated: [Status].Observed then shows
	// which objects are not ready or have drifted. A change that a [connector.StatusWatcher]
	// reports is read within a second, or within three times the duration of the last read. Each
	// context is observed by one of all engines on the store, which should have the same value.
	// Defaults to ObserveNothing.
	Observe Observe
	// ObserveInterval is how often Observe reads each cluster without a reported change. It varies
	// by 10 % at random. Defaults to 10 minutes.
	ObserveInterval time.Duration
	// ConnectorIdle is how long a connector is kept open that nobody uses. Defaults to 1 minute.
	ConnectorIdle time.Duration
	// DeleteOrder defaults to ReverseOrder.
	DeleteOrder DeleteOrder
	// Comparer says which resources an update applies. One that panics fails the event with ReasonInvalidContext. Defaults to
	// [appcontext.Bytes].
	Comparer appcontext.Comparer
	// Transitions is the state machine. Defaults to [TransitionsDefault].
	Transitions Transitions
	// LeaseTTL is how long after its last sign of life an engine's work is taken over. At least 1 s. Defaults to 10 s.
	LeaseTTL time.Duration
	// HistoryLimit is how many elements that are done stay in a queue. Defaults to 100.
	HistoryLimit int
	// MetricsRegisterer takes the metrics. Nil means none.
	MetricsRegisterer prometheus.Registerer
	// Clock defaults to the real one.
	Clock clock.WithTickerAndDelayedExecution
}

// Backoff is an exponential delay. Each delay is between half of its value and the whole, at random, so that those who
// failed together do not come back together.
type Backoff struct {
	// Base is the first delay and Max the greatest. Default to 500 ms and 30 s.
	Base, Max time.Duration
}

// delay returns how long to wait before the attempt after that many.
func (b Backoff) delay(attempts int) time.Duration {
	d := min(b.Base, b.Max)
	for ; attempts > 1 && d < b.Max; attempts-- {
		d = min(2*d, b.Max)
		if d <= 0 { // it has overflowed
			d = b.Max
		}
	}
	return d/2 + rand.N(d/2+1)
}

func (o *Options) validate() error {
	for name, value := range map[string]int64{
		"Workers": int64(o.Workers), "ClusterConcurrency": int64(o.ClusterConcurrency), "MaxRetries": int64(o.MaxRetries),
		"Backoff.Base": int64(o.Backoff.Base), "Backoff.Max": int64(o.Backoff.Max), "ProbeInterval": int64(o.ProbeInterval), "ProbeTimeout": int64(o.ProbeTimeout),
		"CallTimeout": int64(o.CallTimeout), "PollInterval": int64(o.PollInterval), "ConnectorIdle": int64(o.ConnectorIdle),
		"ObserveInterval": int64(o.ObserveInterval), "LeaseTTL": int64(o.LeaseTTL),
		"HistoryLimit": int64(o.HistoryLimit),
	} {
		if value < 0 {
			return fmt.Errorf("%w: Options.%s is negative", ErrInvalidInput, name)
		}
	}
	switch {
	case o.DeleteOrder != ReverseOrder && o.DeleteOrder != SameOrder:
		return fmt.Errorf("%w: Options.DeleteOrder %d is none of its constants", ErrInvalidInput, o.DeleteOrder)
	case o.Observe < ObserveNothing || o.Observe > ObserveHeal:
		return fmt.Errorf("%w: invalid Options.Observe: %d", ErrInvalidInput, o.Observe)
	case o.LeaseTTL != 0 && o.LeaseTTL < time.Second:
		return fmt.Errorf("%w: Options.LeaseTTL is less than a second", ErrInvalidInput)
	case o.Transitions != nil:
		return o.Transitions.validate()
	}
	return nil
}

func (o Options) withDefaults() Options {
	o.Name = orDefault(o.Name, "rsync")
	o.Workers = orDefault(o.Workers, 8)
	o.ClusterConcurrency = orDefault(o.ClusterConcurrency, 8)
	o.Backoff.Base = orDefault(o.Backoff.Base, 500*time.Millisecond)
	o.Backoff.Max = max(orDefault(o.Backoff.Max, 30*time.Second), o.Backoff.Base)
	o.ProbeInterval = orDefault(o.ProbeInterval, time.Second)
	o.ProbeTimeout = orDefault(o.ProbeTimeout, max(10*time.Second, o.ProbeInterval))
	o.CallTimeout = orDefault(o.CallTimeout, time.Minute)
	o.PollInterval = orDefault(o.PollInterval, 500*time.Millisecond)
	o.ObserveInterval = orDefault(o.ObserveInterval, 10*time.Minute)
	o.ConnectorIdle = orDefault(o.ConnectorIdle, time.Minute)
	o.LeaseTTL = orDefault(o.LeaseTTL, 10*time.Second)
	o.HistoryLimit = orDefault(o.HistoryLimit, 100)
	if o.Comparer == nil {
		o.Comparer = appcontext.Bytes
	}
	if o.Transitions == nil {
		o.Transitions = TransitionsDefault
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return o
}

func orDefault[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}
