// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spokewire/sdk-go/internal/meter"
)

var (
	applicationsDesc = prometheus.NewDesc("spokewire_hub_applications",
		"Number of applications, by the status that the page shows.", []string{"sync", "health"}, nil)
	placementsDesc = prometheus.NewDesc("spokewire_hub_placements",
		"Number of applications on clusters, by the health that the page shows.", []string{"health"}, nil)
	clustersDesc = prometheus.NewDesc("spokewire_hub_clusters",
		"Number of clusters, by the health that the page shows and the connection of the agent.",
		[]string{"agent", "health"}, nil)
	linkDesc = prometheus.NewDesc("spokewire_hub_link_up",
		"1 while a connection of the hub works, otherwise 0.", []string{"link"}, nil)
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
	for _, d := range []*prometheus.Desc{
		applicationsDesc, placementsDesc, clustersDesc, linkDesc, refusedDesc, unclaimedDesc, acceptedDesc,
	} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (c collector) Collect(out chan<- prometheus.Metric) {
	state := c.hub.State(context.Background())
	for _, l := range state.Links {
		out <- meter.Gauge(linkDesc, meter.Bool(l.Up), l.Name)
	}
	if state.Documents.Accepted.IsZero() && state.Documents.Refused == "" {
		return // a follower: the leader counts
	}
	type sample struct {
		desc   *prometheus.Desc
		labels [2]string
	}
	counts := map[sample]int{}
	for i := range state.Applications {
		a := &state.Applications[i]
		counts[sample{applicationsDesc, [2]string{string(a.Sync), string(a.Health)}}]++
		for health, n := range a.On {
			counts[sample{placementsDesc, [2]string{string(health)}}] += n
		}
	}
	for i := range state.Clusters {
		k := &state.Clusters[i]
		counts[sample{clustersDesc, [2]string{string(k.Agent), string(k.Health)}}]++
	}
	for s, n := range counts {
		labels := slices.DeleteFunc(s.labels[:], func(label string) bool { return label == "" })
		out <- meter.Gauge(s.desc, float64(n), labels...)
	}
	out <- meter.Gauge(refusedDesc, meter.Bool(state.Documents.Refused != ""))
	out <- meter.Gauge(unclaimedDesc, float64(len(state.Unclaimed)))
	accepted := 0.0
	if !state.Documents.Accepted.IsZero() {
		accepted = float64(state.Documents.Accepted.UnixMilli()) / 1000
	}
	out <- meter.Gauge(acceptedDesc, accepted)
}
