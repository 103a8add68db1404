// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"cmp"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/internal/wait"
	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// DeleteOrder is the order in which the resources of an app on a cluster are deleted.
type DeleteOrder int

// The orders.
const (
	DeleteOrderReverse DeleteOrder = iota // the last applied first
	DeleteOrderSame
)

// Options configures an [Engine]; the zero value is useful.
type Options struct {
	// Name is the prefix of the names of the engine's sessions, and a label of its metrics.
	// Defaults to "rsync".
	Name string
	// Workers is the number of contexts that the engine plans and writes concurrently. A waiting
	// context uses no worker. Defaults to 8.
	Workers int
	// ClusterConcurrency is the number of concurrent calls to one cluster. Defaults to 8.
	ClusterConcurrency int
	// Backoff is the delay before the next attempt after a cluster has temporarily rejected a call.
	Backoff Backoff
	// MaxRetries is the number of retries of an app on a cluster in one event, after which the app
	// fails there. Each failed probe counts as one. Progress resets the count. 0 means no limit:
	// until Stop or Terminate.
	MaxRetries int
	// ProbeInterval is the time between the starts of two probes of a cluster that does not answer,
	// regardless of the number of waiting apps. The engine also probes a cluster if a call makes no
	// progress for this time. Defaults to 1 s.
	ProbeInterval time.Duration
	// ProbeTimeout limits one probe. A slower cluster counts as unreachable, unless calls to it
	// succeed. Defaults to 10 s, or to ProbeInterval if that is longer.
	ProbeTimeout time.Duration
	// CallTimeout limits the time in which a call to a cluster makes no progress. A connector that
	// reports progress for each object, for example connector/kube, may take longer for the whole
	// call. For other connectors CallTimeout limits the whole call. Defaults to 1 minute.
	CallTimeout time.Duration
	// PollInterval is the first interval at which the engine reads objects that must become ready
	// or gone, if the connector is no [connector.StatusWatcher]. The interval grows to ten times
	// this value. Defaults to 500 ms.
	PollInterval time.Duration
	// Observe makes the engines follow contexts that are Instantiated: [Status].Observed then shows
	// objects that are not ready or have drifted. After a [connector.StatusWatcher] has reported a
	// change, the engine reads the objects within a second, or within three times the duration of
	// the last read. Each context is observed by only one of the engines on the store, so all
	// engines should have the same value. Defaults to ObserveNothing.
	Observe Observe
	// ObserveInterval is the interval at which the engine reads each cluster even if no change is
	// reported. The interval has 10 % jitter. Defaults to 10 minutes.
	ObserveInterval time.Duration
	// ConnectorIdle is the time after which an unused connector is closed. Defaults to 1 minute.
	ConnectorIdle time.Duration
	// DeleteOrder is the order in which the resources of an app are deleted. Defaults to
	// DeleteOrderReverse.
	DeleteOrder DeleteOrder
	// Comparer decides which resources an update applies. If it panics, the event fails with
	// ReasonInvalidContext. Defaults to [appcontext.Bytes].
	Comparer appcontext.Comparer
	// Transitions is the state machine. Defaults to [TransitionsDefault].
	Transitions Transitions
	// LeaseTTL is the duration of an engine's lease. If the engine does not renew its lease for
	// this time, other engines continue its work. At least 1 s. Defaults to 10 s.
	LeaseTTL time.Duration
	// HistoryLimit is the number of finished elements that stay in a queue. Defaults to 100.
	HistoryLimit int
	// MetricsRegisterer receives the metrics that METRICS.md lists. Nil means no metrics.
	MetricsRegisterer prometheus.Registerer
	// Clock defaults to the real clock.
	Clock clock.WithTickerAndDelayedExecution
}

// Backoff is an exponential delay with jitter: each delay is between half of its value and the
// whole value.
type Backoff struct {
	// Base is the first delay and Max the longest. They default to 500 ms and 30 s.
	Base, Max time.Duration
}

// delay returns the time to wait after a number of attempts.
func (b Backoff) delay(attempts int) time.Duration {
	return wait.Backoff(b.Base, b.Max, max(attempts-1, 0))
}

func (o *Options) validate() error {
	for name, n := range map[string]int{
		"Workers": o.Workers, "ClusterConcurrency": o.ClusterConcurrency, "MaxRetries": o.MaxRetries,
		"HistoryLimit": o.HistoryLimit,
	} {
		if n < 0 {
			return invalidOption(name, "%d: must not be negative", n)
		}
	}
	for name, d := range map[string]time.Duration{
		"Backoff.Base": o.Backoff.Base, "Backoff.Max": o.Backoff.Max, "ProbeInterval": o.ProbeInterval,
		"ProbeTimeout": o.ProbeTimeout, "CallTimeout": o.CallTimeout, "PollInterval": o.PollInterval,
		"ConnectorIdle": o.ConnectorIdle, "ObserveInterval": o.ObserveInterval, "LeaseTTL": o.LeaseTTL,
	} {
		if d < 0 {
			return invalidOption(name, "%s: must not be negative", d)
		}
	}
	switch {
	case o.DeleteOrder != DeleteOrderReverse && o.DeleteOrder != DeleteOrderSame:
		return invalidOption("DeleteOrder", "%d: must be DeleteOrderReverse or DeleteOrderSame", o.DeleteOrder)
	case o.Observe < ObserveNothing || o.Observe > ObserveHeal:
		return invalidOption("Observe", "%d: must be a constant from ObserveNothing to ObserveHeal", o.Observe)
	case o.LeaseTTL != 0 && o.LeaseTTL < time.Second:
		return invalidOption("LeaseTTL", "%s: must be at least 1 s", o.LeaseTTL)
	case o.Transitions != nil:
		return o.Transitions.validate()
	}
	return nil
}

func (o Options) withDefaults() Options {
	o.Name = cmp.Or(o.Name, "rsync")
	o.Workers = cmp.Or(o.Workers, 8)
	o.ClusterConcurrency = cmp.Or(o.ClusterConcurrency, 8)
	o.Backoff.Base = cmp.Or(o.Backoff.Base, 500*time.Millisecond)
	o.Backoff.Max = max(cmp.Or(o.Backoff.Max, 30*time.Second), o.Backoff.Base)
	o.ProbeInterval = cmp.Or(o.ProbeInterval, time.Second)
	o.ProbeTimeout = cmp.Or(o.ProbeTimeout, max(10*time.Second, o.ProbeInterval))
	o.CallTimeout = cmp.Or(o.CallTimeout, time.Minute)
	o.PollInterval = cmp.Or(o.PollInterval, 500*time.Millisecond)
	o.ObserveInterval = cmp.Or(o.ObserveInterval, 10*time.Minute)
	o.ConnectorIdle = cmp.Or(o.ConnectorIdle, time.Minute)
	o.LeaseTTL = cmp.Or(o.LeaseTTL, 10*time.Second)
	o.HistoryLimit = cmp.Or(o.HistoryLimit, 100)
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
