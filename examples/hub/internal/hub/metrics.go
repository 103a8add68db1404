// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"github.com/prometheus/client_golang/prometheus"
)

var (
	applicationsDesc = prometheus.NewDesc("spokewire_hub_applications",
		"Number of applications, by the state that the page shows.", []string{"state"}, nil)
	clustersDesc = prometheus.NewDesc("spokewire_hub_clusters",
		"Number of clusters, by the state that the page shows.", []string{"state"}, nil)
	refusedDesc = prometheus.NewDesc("spokewire_hub_documents_refused",
		"1 while documents of the folder are refused and the previous ones stay in effect, otherwise 0.", nil, nil)
	unclaimedDesc = prometheus.NewDesc("spokewire_hub_works_unclaimed",
		"Number of works with objects that no application has.", nil, nil)
	acceptedDesc = prometheus.NewDesc("spokewire_hub_documents_accepted_timestamp_seconds",
		"Time when documents were last accepted, in seconds since 1970; 0 if never.", nil, nil)
)

// Collector returns the metrics of a hub. They are computed when they are collected.
func (h *Hub) Collector() prometheus.Collector { return collector{h} }

type collector struct{ hub *Hub }

// Describe implements [prometheus.Collector].
func (collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{applicationsDesc, clustersDesc, refusedDesc, unclaimedDesc, acceptedDesc} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (c collector) Collect(out chan<- prometheus.Metric) {
	state := c.hub.State()
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	applications, clusters := map[string]float64{}, map[string]float64{}
	for i := range state.Applications {
		applications[state.Applications[i].Status.Word]++
	}
	for i := range state.Clusters {
		clusters[state.Clusters[i].Status.Word]++
	}
	for word, n := range applications {
		gauge(applicationsDesc, n, word)
	}
	for word, n := range clusters {
		gauge(clustersDesc, n, word)
	}
	refused, accepted := 0.0, 0.0
	if state.Input.Error != "" {
		refused = 1
	}
	if !state.Input.Taken.IsZero() {
		accepted = float64(state.Input.Taken.UnixMilli()) / 1000
	}
	gauge(refusedDesc, refused)
	gauge(unclaimedDesc, float64(len(state.Unclaimed)))
	gauge(acceptedDesc, accepted)
}
