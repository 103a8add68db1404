// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package certexpiry is a metric with the end of the certificates that a program reads from files.
package certexpiry

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

var expiration = prometheus.NewDesc("spokewire_certificate_expiration_timestamp_seconds",
	"When a file with certificates becomes unusable: the first end in a chain, the last end of several CAs.",
	[]string{"file"}, nil)

type collector struct{ chains, authorities []string }

// New returns a collector with a sample for each file that exists. Empty names and repetitions are
// ignored. Files are read again for each collection, because they may be replaced.
func New(chains, authorities []string) prometheus.Collector {
	unique := func(files []string) []string {
		files = slices.Compact(slices.Sorted(slices.Values(files)))
		return slices.DeleteFunc(files, func(file string) bool { return file == "" })
	}
	c := collector{unique(chains), unique(authorities)}
	c.authorities = slices.DeleteFunc(c.authorities, func(file string) bool { return slices.Contains(c.chains, file) })
	return c
}

// Describe implements [prometheus.Collector].
func (collector) Describe(out chan<- *prometheus.Desc) { out <- expiration }

// Collect implements [prometheus.Collector].
func (c collector) Collect(out chan<- prometheus.Metric) {
	for _, of := range []struct {
		files []string
		end   func([]int64) int64
	}{{c.chains, slices.Min[[]int64]}, {c.authorities, slices.Max[[]int64]}} {
		for _, file := range of.files {
			if ends := endsIn(file); len(ends) > 0 {
				out <- prometheus.MustNewConstMetric(expiration, prometheus.GaugeValue, float64(of.end(ends)), file)
			}
		}
	}
}

// endsIn returns when the certificates in a file end, in seconds.
func endsIn(file string) (ends []int64) {
	content, _ := os.ReadFile(file) // the connections report a missing file
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if certificate, err := x509.ParseCertificate(block.Bytes); err == nil {
			ends = append(ends, certificate.NotAfter.Unix())
		}
	}
	return ends
}
