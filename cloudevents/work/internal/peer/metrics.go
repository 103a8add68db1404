// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"errors"
	"fmt"
	"time"

	ce "github.com/cloudevents/sdk-go/v2/event"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/cache"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/meter"
)

// Reasons to refuse a received event: values of the label reason. Each codec.Code is a value too.
const (
	RefusedNoEvent    = "not_an_event"
	RefusedOverrun    = "overrun"
	RefusedSource     = "wrong_source"
	RefusedCluster    = "wrong_cluster"
	RefusedVersion    = "version_out_of_range"
	RefusedBudget     = "over_budget"
	RefusedSchema     = "schema"
	RefusedUnexpected = "unexpected"
)

// Reasons to refuse a write that an API server would accept: values of the label reason.
const (
	writeOutboxFull   = "outbox_full"
	writeDisconnected = "disconnected"
	writeTooLarge     = "too_large"
)

// Values of the label direction.
const (
	Sent     = "sent"
	Received = "received"
)

// refusal is an error with its reason for metrics and logs.
type refusal struct {
	reason string
	error
}

// Unusable returns the error for an event that can be decoded but not used.
func Unusable(reason, format string, args ...any) error {
	return &refusal{reason, fmt.Errorf(format, args...)}
}

// RefusalReason returns the reason of an error of Profile.Decode or receive.
func RefusalReason(err error) string {
	var own *refusal
	var malformed *codec.Error
	switch {
	case errors.As(err, &own):
		return own.reason
	case errors.As(err, &malformed):
		return string(malformed.Code)
	}
	return RefusedUnexpected
}

// Metrics are the metrics that sources and agents share, in addition to those of the engine. Each
// method does nothing on nil.
type Metrics struct {
	registerer prometheus.Registerer
	Set        *meter.Set

	arrived *meter.ByType
	refused map[string]prometheus.Counter
	writes  map[string]prometheus.Counter
	// outcomes count the results of statuses, or of specs.
	Outcomes map[string]prometheus.Counter

	resyncs         prometheus.Counter
	Divergences     prometheus.Counter // nil on an agent
	resyncTime      prometheus.Histogram
	listed, answers map[string]prometheus.Counter // by direction

	storeTime     prometheus.Histogram
	storeFailures prometheus.Counter

	limit, watchers, watchersClosed *prometheus.Desc
	works, degraded, unsaved        *prometheus.Desc

	// The mutex of the source or the agent guards the following fields.
	clock clock.PassiveClock
	began time.Time // of the last resync
	round int       // number of resyncs
}

// NewMetrics makes the shared metrics. The caller adds its own metrics and calls Register.
func NewMetrics(r prometheus.Registerer, c clock.PassiveClock, kind, client string) *Metrics {
	s := meter.New(kind, client)
	return &Metrics{
		registerer: r,
		Set:        s,
		clock:      c,

		arrived: s.ByType("events_received", "Received events that could be decoded.",
			"Bytes of the data of received events that could be decoded."),
		refused: s.Counters("events_refused_total", "Received messages that were refused.", "reason",
			RefusedNoEvent, RefusedOverrun, RefusedSource, RefusedCluster, RefusedVersion, RefusedBudget, RefusedSchema,
			RefusedUnexpected,
			string(codec.CodeTopic), string(codec.CodeType), string(codec.CodeAttribute), string(codec.CodeMismatch),
			string(codec.CodeData)),
		writes: s.Counters("writes_refused_total", "Writes that failed for lack of space or of a connection.",
			"reason", writeOutboxFull, writeDisconnected, writeTooLarge),

		resyncs: s.Counter("resyncs_total", "Resyncs that began."),
		resyncTime: s.Histogram("resync_seconds",
			"Time until a peer has answered a resync completely, for each peer.",
			.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300),
		listed: s.Counters("resync_listed_works_total", "Works in the lists of resyncs.",
			"direction", Sent, Received),
		answers: s.Counters("resync_answers_total", "Specs and statuses that were sent because of a list.",
			"direction", Sent, Received),

		storeTime: s.Histogram("store_write_seconds", "Time until the Store has saved a batch of changes.",
			.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30),
		storeFailures: s.Counter("store_write_failures_total", "Batches that the Store did not save."),

		unsaved:  s.Desc("store_unsaved", "Changed records that the Store has not saved."),
		limit:    s.Desc("outbox_limit", "Limit of queued works."),
		watchers: s.Desc("watchers", "Open watches."),
		watchersClosed: s.Desc("watchers_closed_total", "Watches that ended with an error.",
			"reason"),
		works: s.Desc("works", "Works in memory.", "state"),
		degraded: s.Desc("works_degraded",
			"Works with a condition Degraded that this process set."),
	}
}

// Values of the label kind.
const (
	KindSource = "source"
	KindAgent  = "agent"
)

// Register registers the metrics. At each scrape, collect sends the sizes.
func (m *Metrics) Register(collect func(chan<- prometheus.Metric)) error {
	m.Set.OnScrape(collect)
	return m.Set.Register(m.registerer)
}

// Unregister removes the metrics from the registerer.
func (m *Metrics) Unregister() {
	if m != nil {
		m.registerer.Unregister(m.Set)
	}
}

// CountEvent counts a decoded event.
func (m *Metrics) CountEvent(e *ce.Event) {
	if m != nil {
		m.arrived.Of(e.Type()).Add(len(e.DataEncoded))
	}
}

// CountRefused counts messages that could not be used.
func (m *Metrics) CountRefused(reason string, n int) {
	if m == nil {
		return
	}
	if c, ok := m.refused[reason]; ok {
		c.Add(float64(n))
	} else { // a code of the codec that has no label here
		m.refused[RefusedUnexpected].Add(float64(n))
	}
}

// CountWrite counts a refused write and returns its error.
func (m *Metrics) CountWrite(err error) error {
	if m == nil || err == nil {
		return err
	}
	switch {
	case apierrors.IsTooManyRequests(err):
		m.writes[writeOutboxFull].Inc()
	case apierrors.IsServiceUnavailable(err):
		m.writes[writeDisconnected].Inc()
	case apierrors.IsRequestEntityTooLargeError(err):
		m.writes[writeTooLarge].Inc()
	}
	return err
}

// CountOutcome counts the result of a spec or a status.
func (m *Metrics) CountOutcome(outcome string) {
	if m != nil {
		m.Outcomes[outcome].Inc()
	}
}

// ResyncBeganLocked starts the time of a resync.
func (m *Metrics) ResyncBeganLocked() {
	if m == nil {
		return
	}
	m.resyncs.Inc()
	m.began = m.clock.Now()
	m.round++
}

// CountDivergence counts a comparison that found different works at a source and an agent.
func (m *Metrics) CountDivergence() {
	if m != nil {
		m.Divergences.Inc()
	}
}

// AnsweredLocked records the time of a peer's complete answer, once in each resync. last is the
// number of the resync that the peer answered last.
func (m *Metrics) AnsweredLocked(last *int) {
	if m == nil || *last == m.round {
		return
	}
	*last = m.round
	m.resyncTime.Observe(m.clock.Since(m.began).Seconds())
}

// CountListed counts the works that a list names.
func (m *Metrics) CountListed(direction string, n int) {
	if m != nil {
		m.listed[direction].Add(float64(n))
	}
}

// CountAnswer counts an event that is part of an answer.
func (m *Metrics) CountAnswer(direction string) {
	if m != nil {
		m.answers[direction].Inc()
	}
}

// StoreWrote records the duration of a batch of the Store, and counts a failure.
func (m *Metrics) StoreWrote(began time.Time, err error) {
	if m == nil {
		return
	}
	m.storeTime.Observe(m.clock.Since(began).Seconds())
	if err != nil {
		m.storeFailures.Inc()
	}
}

// Sizes are the sizes that sources and agents share.
type Sizes struct {
	Cache             cache.Stats
	Works             map[string]int
	Degraded, Unsaved int
}

// Collect sends the sizes.
func (m *Metrics) Collect(out chan<- prometheus.Metric, outbox int, now Sizes) {
	s := now.Cache
	out <- meter.Gauge(m.limit, float64(max(outbox, 0)))
	out <- meter.Gauge(m.watchers, float64(s.Watchers))
	out <- meter.Total(m.watchersClosed, s.Slow, "slow")
	out <- meter.Total(m.watchersClosed, s.Expired, "expired")
	out <- meter.Total(m.watchersClosed, s.Future, "future")
	for state, n := range now.Works {
		out <- meter.Gauge(m.works, float64(n), state)
	}
	out <- meter.Gauge(m.degraded, float64(now.Degraded))
	out <- meter.Gauge(m.unsaved, float64(now.Unsaved))
}

// RefusedMessages returns the number of messages that a transport refused with one error, and the
// reason.
func RefusedMessages(err error) (reason string, n int) {
	var overrun *cloudevents.OverrunError
	if errors.As(err, &overrun) {
		return RefusedOverrun, overrun.Messages
	}
	return RefusedNoEvent, 1
}
