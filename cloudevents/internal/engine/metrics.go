// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/internal/meter"
)

// Values of the label reason.
const (
	dropTooLarge    = "too_large"
	dropUnencodable = "not_encodable"
	dropRefused     = "refused_by_broker"
	dropLost        = "connection_lost"
)

// metrics are the metrics of an engine. Each method does nothing on nil. Sizes are read on scrape.
type metrics struct {
	engine     *Engine
	registerer prometheus.Registerer
	set        *meter.Set
	began      time.Time

	sent        *meter.ByType
	publish     prometheus.Histogram
	dropped     map[string]prometheus.Counter
	refusals    prometheus.Counter
	connections prometheus.Counter
	failures    map[string]prometheus.Counter // by whether it is permanent

	depth, inflight, oldest     *prometheus.Desc
	isConnected, changed, limit *prometheus.Desc
}

func (e *Engine) measure() error {
	if e.options.MetricsRegisterer == nil {
		return nil
	}
	s := meter.New(e.options.Kind, e.options.Name)
	m := &metrics{
		engine:     e,
		registerer: e.options.MetricsRegisterer,
		set:        s,
		began:      e.options.Clock.Now(),

		sent: s.ByType("events_sent", "Events that the broker has acknowledged.",
			"Bytes of the data of events that the broker has acknowledged."),
		publish: s.Histogram("publish_seconds",
			"Time from queuing an item of the lane live until the broker acknowledged its event.",
			.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800),
		dropped: s.Counters("events_dropped_total", "Queued events that were dropped.",
			"reason", dropTooLarge, dropUnencodable, dropRefused, dropLost),
		refusals:    s.Counter("publish_refusals_total", "Publications that the broker refused."),
		connections: s.Counter("connections_total", "Established connections, with all subscriptions granted."),
		failures: s.Counters("connect_failures_total", "Attempts to connect that failed.",
			"permanent", "false", "true"),

		depth:    s.Desc("outbox_depth", "Queued events that the broker has not acknowledged.", "lane"),
		inflight: s.Desc("outbox_inflight", "Published events that the broker has not acknowledged."),
		oldest:   s.Desc("outbox_oldest_seconds", "Age of the oldest unacknowledged item of the lane live."),

		isConnected: s.Desc("connected", "1 while connected and subscribed, otherwise 0."),
		changed: s.Desc("connection_changed_timestamp_seconds",
			"Time of the last change of connected, or of the client's start."),
		limit: s.Desc("packet_limit_bytes", "The broker's limit for the size of a message; 0 for no limit."),
	}
	s.OnScrape(m.collect)
	if err := s.Register(m.registerer); err != nil {
		return err
	}
	e.metrics, e.outbox.metrics = m, m
	return nil
}

func (m *metrics) unregister() {
	if m != nil {
		m.registerer.Unregister(m.set)
	}
}

// uptime returns the time since the metrics were created. Items of the outbox are stamped with it.
func (m *metrics) uptime() time.Duration {
	if m == nil {
		return 0
	}
	return m.engine.options.Clock.Since(m.began)
}

func (m *metrics) connected() {
	if m != nil {
		m.connections.Inc()
	}
}

func (m *metrics) connectFailed(err error) {
	if m == nil {
		return
	}
	_, permanent := errors.AsType[*cloudevents.PermanentError](err)
	m.failures[strconv.FormatBool(permanent)].Inc()
}

// gaveUp counts items that were dropped with their connection before they were published.
func (m *metrics) gaveUp(n int) {
	if m != nil {
		m.dropped[dropLost].Add(float64(n))
	}
}

func (m *metrics) settled(how outcome, ended bool, err error) {
	if m == nil || how == acknowledged {
		return
	}
	if how == refused || how == postponed {
		m.refusals.Inc()
	}
	if ended {
		m.dropped[dropReason(how, err)].Inc()
	}
}

func dropReason(how outcome, err error) string {
	var tooLarge *cloudevents.TooLargeError
	switch {
	case errors.As(err, &tooLarge):
		return dropTooLarge
	case how == refused:
		return dropRefused
	case how == interrupted:
		return dropLost
	}
	return dropUnencodable
}

// sending records the acknowledgement of an event.
type sending struct {
	metrics *metrics
	traffic *meter.Traffic
	bytes   int
	since   time.Duration // negative if the time of the event does not count
}

// sending is called before an event is passed to the transport.
func (m *metrics) sending(lane Lane, it Item, msg cloudevents.Message) sending {
	if m == nil {
		return sending{}
	}
	s := sending{metrics: m, traffic: m.sent.Of(msg.Event.Type()), bytes: len(msg.Event.DataEncoded), since: -1}
	if lane == LaneLive {
		s.since = m.engine.outbox.since(it)
	}
	return s
}

func (s sending) acknowledged() {
	if s.metrics == nil {
		return
	}
	s.traffic.Add(s.bytes)
	if s.since >= 0 {
		s.metrics.publish.Observe((s.metrics.uptime() - s.since).Seconds())
	}
}

func (o *outbox) since(it Item) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	if st := o.live[it]; st != nil {
		return st.since
	}
	return -1
}

// sizes returns the items of each lane, the items in flight, and since when the oldest item of
// LaneLive is in the outbox: now if there is none.
func (o *outbox) sizes(now time.Duration) (depth [lanes]int, inflight int, oldest time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for lane := range lanes {
		depth[lane] = o.waiting[lane] + o.inflight[lane]
		inflight += o.inflight[lane]
	}
	depth[LaneLive] = len(o.live)
	oldest = now
	for _, st := range o.live {
		oldest = min(oldest, st.since)
	}
	return depth, inflight, oldest
}

func (m *metrics) collect(out chan<- prometheus.Metric) {
	e := m.engine
	now := m.uptime()
	depth, inflight, oldest := e.outbox.sizes(now)
	for lane, name := range [lanes]string{LaneControl: "control", LaneLive: "live", LaneBulk: "bulk"} {
		out <- meter.Gauge(m.depth, float64(depth[lane]), name)
	}
	out <- meter.Gauge(m.inflight, float64(inflight))
	out <- meter.Gauge(m.oldest, (now - oldest).Seconds())
	e.mu.Lock()
	connected, since, limit := e.state == stateConnected, e.since, e.maxPacket
	e.mu.Unlock()
	out <- meter.Gauge(m.isConnected, meter.Bool(connected))
	out <- meter.Gauge(m.changed, float64(since.UnixMilli())/1000)
	out <- meter.Gauge(m.limit, float64(limit))
}
