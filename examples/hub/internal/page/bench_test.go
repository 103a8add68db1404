// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokewire/sdk-go/examples/hub/internal/page"
)

// BenchmarkPage measures the whole page of 200 clusters and 1,000 works after one work changed.
func BenchmarkPage(b *testing.B) {
	for _, encoding := range []string{"identity", "gzip"} {
		b.Run(encoding, func(b *testing.B) {
			h := &hub{state: large(200, 1000)}
			p := newPage(b, h, page.Options{Interval: time.Nanosecond})
			b.ReportAllocs()
			size, i := 0, 0
			for b.Loop() {
				i++
				h.edit(func(s *page.State) { s.Works[500].Application = fmt.Sprint(i) })
				p.Changed()
				size = get(p, "/", "Accept-Encoding", encoding).Body.Len()
			}
			b.ReportMetric(float64(size), "bytes/page")
		})
	}
}

// TestSize checks that one change among 200 clusters and 1,000 works sends a browser only the
// changed row.
func TestSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hub{state: large(200, 1000)}
		p := newPage(t, h, page.Options{})
		client := serve(t, p)
		browser := follow(t, client, current(t, client))
		h.edit(func(s *page.State) { s.Works[500].Objects = s.Works[500].Objects[:1] })
		p.Changed()
		if c := browser.change(); len(c.Set) != 1 || c.bytes > 2000 {
			t.Errorf("one changed work brings %d elements in %d bytes", len(c.Set), c.bytes)
		} else {
			t.Logf("one changed work: %d bytes", c.bytes)
		}
		whole := get(p, "/").Body.Len()
		packed := get(p, "/", "Accept-Encoding", "gzip").Body.Len()
		t.Logf("the page: %d bytes, %d compressed", whole, packed)
		if packed > 100_000 {
			t.Errorf("the page has %d bytes compressed", packed)
		}
	})
}
