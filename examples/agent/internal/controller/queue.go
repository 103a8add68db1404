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
	provider := &queueMetrics{registry: registry}
	if registry != nil {
		config.MetricsProvider = provider
	}
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](retryAfter, retryAtMost)
	queue := workqueue.NewTypedRateLimitingQueueWithConfig(limiter, config)
	if provider.err != nil {
		queue.ShutDown()
		return nil, fmt.Errorf("register the metrics of the queue: %w", provider.err)
	}
	return queue, nil
}

// queueMetrics implements [workqueue.MetricsProvider]. The queue asks for each metric once.
type queueMetrics struct {
	registry prometheus.Registerer
	err      error
}

// registered registers a metric of the queue.
func registered[M prometheus.Collector](q *queueMetrics, m M) M {
	if err := q.registry.Register(m); err != nil {
		q.err = err
	}
	return m
}

func (q *queueMetrics) counter(queue, name, help string) prometheus.Counter {
	return registered(q, prometheus.NewCounter(prometheus.CounterOpts{
		Name: "workqueue_" + name, Help: help, ConstLabels: prometheus.Labels{"name": queue},
	}))
}

func (q *queueMetrics) gauge(queue, name, help string) prometheus.Gauge {
	return registered(q, prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "workqueue_" + name, Help: help, ConstLabels: prometheus.Labels{"name": queue},
	}))
}

func (q *queueMetrics) histogram(queue, name, help string) prometheus.Histogram {
	return registered(q, prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "workqueue_" + name, Help: help, ConstLabels: prometheus.Labels{"name": queue},
		Buckets: prometheus.ExponentialBuckets(1e-8, 10, 12),
	}))
}

// NewDepthMetric returns the metric for the number of queued works.
func (q *queueMetrics) NewDepthMetric(queue string) workqueue.GaugeMetric {
	return q.gauge(queue, "depth", "Number of works in the queue.")
}

// NewAddsMetric returns the metric for the number of works added.
func (q *queueMetrics) NewAddsMetric(queue string) workqueue.CounterMetric {
	return q.counter(queue, "adds_total", "Number of works that were added to the queue.")
}

// NewLatencyMetric returns the metric for the time that works are queued.
func (q *queueMetrics) NewLatencyMetric(queue string) workqueue.HistogramMetric {
	return q.histogram(queue, "queue_duration_seconds", "Time that works wait in the queue, in seconds.")
}

// NewWorkDurationMetric returns the metric for the duration of serving a work.
func (q *queueMetrics) NewWorkDurationMetric(queue string) workqueue.HistogramMetric {
	return q.histogram(queue, "work_duration_seconds", "Duration of serving a work, in seconds.")
}

// NewUnfinishedWorkSecondsMetric returns the metric for the total time of works in progress.
func (q *queueMetrics) NewUnfinishedWorkSecondsMetric(queue string) workqueue.SettableGaugeMetric {
	return q.gauge(queue, "unfinished_work_seconds",
		"Time that works in progress have been served so far, in total, in seconds.")
}

// NewLongestRunningProcessorSecondsMetric returns the metric for the longest time of a work in
// progress.
func (q *queueMetrics) NewLongestRunningProcessorSecondsMetric(queue string) workqueue.SettableGaugeMetric {
	return q.gauge(queue, "longest_running_processor_seconds",
		"Time that the longest-running work has been served, in seconds.")
}

// NewRetriesMetric returns the metric for the number of retries.
func (q *queueMetrics) NewRetriesMetric(queue string) workqueue.CounterMetric {
	return q.counter(queue, "retries_total", "Number of retries after a failure.")
}
