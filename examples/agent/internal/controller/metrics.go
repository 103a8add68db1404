// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/agent/internal/status"
)

// counted are the conditions of works in the metrics.
var counted = []string{
	workv1.WorkApplied, workv1.WorkAvailable, workv1.WorkProgressing, workv1.WorkDegraded, workv1.WorkComplete,
	status.Contested, workv1.WorkDeleting, status.ManifestsReported, status.ObjectsWatched, status.RulesWithinLimits,
}

// metrics counts the served works. The state of works and manifests is computed from the informer
// on each scrape.
type metrics struct {
	served  *prometheus.CounterVec
	seconds prometheus.Histogram
}

// newMetrics registers the metrics, including those of works, unless the registry is nil.
func newMetrics(registry prometheus.Registerer, works cache.Store) (*metrics, error) {
	m := &metrics{
		served: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spokewire_agent_served_total",
			Help: "Number of times that works were served, by result: applied, failed, removed.",
		}, []string{"result"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "spokewire_agent_apply_seconds", Help: "Duration of an apply with the report, in seconds.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2.5, 10),
		}),
	}
	for _, result := range []string{"applied", "failed", "removed"} {
		m.served.WithLabelValues(result)
	}
	if registry == nil {
		return m, nil
	}
	return m, errors.Join(registry.Register(m.served), registry.Register(m.seconds),
		registry.Register(worksCollector{works}))
}

func (m *metrics) observe(e Event) {
	result := "applied"
	switch {
	case e.Err != nil:
		result = "failed"
	case e.Deleted:
		result = "removed"
	}
	m.served.WithLabelValues(result).Inc()
}

func (m *metrics) took(since time.Time) { m.seconds.Observe(time.Since(since).Seconds()) }

var (
	worksDesc     = prometheus.NewDesc("spokewire_agent_works", "Number of works of the cluster.", nil, nil)
	conditionDesc = prometheus.NewDesc("spokewire_agent_work_conditions",
		"Number of works with a condition, by its type and status.", []string{"type", "status"}, nil)
	manifestsDesc = prometheus.NewDesc("spokewire_agent_manifests",
		"Number of manifests, by status and reason of their condition Applied.", []string{"applied", "reason"}, nil)
)

// worksCollector counts the works in the informer.
type worksCollector struct {
	works cache.Store
}

func (c worksCollector) Describe(out chan<- *prometheus.Desc) {
	out <- worksDesc
	out <- conditionDesc
	out <- manifestsDesc
}

func (c worksCollector) Collect(out chan<- prometheus.Metric) {
	works := c.works.List()
	conditions, manifests := map[[2]string]int{}, map[[2]string]int{}
	for _, obj := range works {
		w := obj.(*workv1.ManifestWork)
		for _, kind := range counted {
			if is := meta.FindStatusCondition(w.Status.Conditions, kind); is != nil {
				conditions[[2]string{kind, string(is.Status)}]++
			}
		}
		for i := range w.Status.ResourceStatus.Manifests {
			if is := meta.FindStatusCondition(w.Status.ResourceStatus.Manifests[i].Conditions,
				workv1.ManifestApplied); is != nil {
				manifests[[2]string{string(is.Status), is.Reason}]++
			}
		}
	}
	out <- prometheus.MustNewConstMetric(worksDesc, prometheus.GaugeValue, float64(len(works)))
	for labels, n := range conditions {
		out <- prometheus.MustNewConstMetric(conditionDesc, prometheus.GaugeValue, float64(n), labels[:]...)
	}
	for labels, n := range manifests {
		out <- prometheus.MustNewConstMetric(manifestsDesc, prometheus.GaugeValue, float64(n), labels[:]...)
	}
}

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
