// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"testing"

	"github.com/spokewire/sdk-go/examples/hub/internal/page"
)

// BenchmarkPage measures the pages of 1,000 clusters and 100 applications.
func BenchmarkPage(b *testing.B) {
	p := newPage(b, large(1000, 100), page.Options{})
	for _, path := range []string{"/", "/clusters", "/applications/application003"} {
		b.Run(path, func(b *testing.B) {
			b.ReportAllocs()
			size := 0
			for b.Loop() {
				size = get(p, path, "Accept-Encoding", "gzip").Body.Len()
			}
			b.ReportMetric(float64(size), "bytes/page")
		})
	}
}

// TestSize checks that no page of 1,000 clusters and 100 applications has more than 200 KB.
func TestSize(t *testing.T) {
	p := newPage(t, large(1000, 100), page.Options{})
	for _, path := range []string{"/", "/clusters", "/clusters?page=20", "/applications", "/applications/application003",
		"/clusters/cluster0003", "/history"} {
		answer := get(p, path)
		t.Logf("%s: %d bytes, %d compressed", path, answer.Body.Len(), get(p, path, "Accept-Encoding", "gzip").Body.Len())
		if answer.Code != 200 || answer.Body.Len() > 200_000 {
			t.Errorf("%s: %d, %d bytes", path, answer.Code, answer.Body.Len())
		}
	}
}
