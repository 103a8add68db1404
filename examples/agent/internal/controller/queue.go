// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/util/workqueue"
)

// newQueue returns the queue of works. Its metrics have the same names as in every Kubernetes
// controller.
func newQueue(registry prometheus.Registerer) (workqueue.TypedRateLimitingInterface[string], error) {
	config := workqueue.TypedRateLimitingQueueConfig[string]{Name: "manifestworks"}
	metrics := &queueMetrics{}
	if registry != nil {
		metrics.Registerer = prometheus.WrapRegistererWith(prometheus.Labels{"name": config.Name}, registry)
		config.MetricsProvider = metrics
	}
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](retryAfter, retryAtMost)
	queue := workqueue.NewTypedRateLimitingQueueWithConfig(limiter, config)
	if metrics.err != nil {
		queue.ShutDown()
		return nil, fmt.Errorf("register the metrics of the queue: %w", metrics.err)
	}
	return queue, nil
}

// queueMetrics implements [workqueue.MetricsProvider]. The queue asks for each metric once.
type queueMetrics struct {
	prometheus.Registerer
	err error
}

func registered[M prometheus.Collector](q *queueMetrics, m M) M {
	if err := q.Register(m); err != nil {
		q.err = err
	}
	return m
}

func (q *queueMetrics) counter(name, help string) prometheus.Counter {
	return registered(q, prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help}))
}

func (q *queueMetrics) gauge(name, help string) prometheus.Gauge {
	return registered(q, prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help}))
}

func (q *queueMetrics) histogram(name, help string) prometheus.Histogram {
	buckets := prometheus.ExponentialBuckets(1e-8, 10, 12)
	return registered(q, prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}))
}

func (q *queueMetrics) NewDepthMetric(string) workqueue.GaugeMetric {
	return q.gauge("workqueue_depth", "Number of works in the queue.")
}

func (q *queueMetrics) NewAddsMetric(string) workqueue.CounterMetric {
	return q.counter("workqueue_adds_total", "Number of works that were added to the queue.")
}

func (q *queueMetrics) NewLatencyMetric(string) workqueue.HistogramMetric {
	return q.histogram("workqueue_queue_duration_seconds", "Time that works wait in the queue, in seconds.")
}

func (q *queueMetrics) NewWorkDurationMetric(string) workqueue.HistogramMetric {
	return q.histogram("workqueue_work_duration_seconds", "Duration of serving a work, in seconds.")
}

func (q *queueMetrics) NewUnfinishedWorkSecondsMetric(string) workqueue.SettableGaugeMetric {
	return q.gauge("workqueue_unfinished_work_seconds",
		"Time that works in progress have been served so far, in total, in seconds.")
}

func (q *queueMetrics) NewLongestRunningProcessorSecondsMetric(string) workqueue.SettableGaugeMetric {
	return q.gauge("workqueue_longest_running_processor_seconds",
		"Time that the longest-running work has been served, in seconds.")
}

func (q *queueMetrics) NewRetriesMetric(string) workqueue.CounterMetric {
	return q.counter("workqueue_retries_total", "Number of retries after a failure.")
}
