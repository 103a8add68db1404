// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/examples/hub/internal/page"
	"github.com/spokewire/sdk-go/internal/testing/chromium"
)

// browsed is a page that is open in a real browser.
type browsed struct {
	*chromium.Tab
	t      *testing.T
	hub    *hub
	page   *page.Page
	server *httptest.Server
}

func browse(t *testing.T, browser *chromium.Browser, state page.State) *browsed {
	t.Helper()
	h := &hub{state: state}
	p := newPage(t, h, page.Options{Interval: 50 * time.Millisecond})
	server := httptest.NewServer(p)
	t.Cleanup(func() { p.Close(); server.Close() })
	b := &browsed{Tab: browser.Open(t, server.URL), t: t, hub: h, page: p, server: server}
	b.Until(`document.getElementById("connection").dataset.state === "live"`)
	return b
}

// change changes the state and calls Changed, like a hub.
func (b *browsed) change(change func(*page.State)) {
	b.hub.edit(change)
	b.page.Changed()
}

// value returns the value of a JavaScript expression.
func value[T any](b *browsed, expression string) (v T) {
	b.t.Helper()
	b.Eval(expression, &v)
	return v
}

// quiet fails the test if the browser has reported problems.
func (b *browsed) quiet() {
	b.t.Helper()
	if problems := b.Problems(); len(problems) > 0 {
		b.t.Errorf("the browser complains:\n%s", strings.Join(problems, "\n"))
	}
}

// TestBrowser checks the page in Chromium.
func TestBrowser(t *testing.T) {
	browser := chromium.Start(t)
	const shown = `[...document.querySelectorAll("tbody tr:not([hidden])")].map((row) => row.id)`

	t.Run("live", func(t *testing.T) {
		b := browse(t, browser, small())
		b.Eval(`window.before = "not reloaded"; document.querySelector("details").open = true`, nil)
		b.change(func(s *page.State) {
			s.Clusters[0].Status.Word = "Back again"
			s.Works[0].Objects[0].Health = page.Status{Tone: page.Good, Word: "Recovered"}
			s.Works = append(s.Works, page.Work{Cluster: "cluster1", Name: "a-first"},
				page.Work{Cluster: "cluster9", Name: "z-last"})
			s.Input.Error = ""
		})
		b.Until(`document.getElementById("clusters/cluster2").innerText.includes("Back again")`)
		if got := value[string](b, `document.querySelector("details[open]").innerText`); !strings.Contains(got, "Recovered") {
			t.Errorf("the open list of objects says %q", got)
		}
		want := "works/cluster1/a-first works/cluster1/shop-web works/cluster2/shop-web works/cluster9/z-last"
		if got := value[string](b, `[...document.getElementById("works").rows].map((row) => row.id).join(" ")`); got != want {
			t.Errorf("works %q, want %q", got, want)
		}
		if value[bool](b, `document.querySelector(".error") !== null`) {
			t.Error("an error of the input that is mended is still shown")
		}
		b.change(func(s *page.State) { s.Works = s.Works[:1] })
		b.Until(`document.getElementById("works").rows.length === 1`)
		if got := value[string](b, `document.getElementById("works.summary").textContent`); got != "1 work · 1 bad" {
			t.Errorf("summary %q", got)
		}
		b.Until(`document.getElementById("news").textContent.includes("changes")`) // announced by screen readers
		if got := value[string](b, `window.before`); got != "not reloaded" {
			t.Error("the page was loaded again")
		}
		b.quiet()
	})

	t.Run("filter", func(t *testing.T) {
		b := browse(t, browser, small())
		b.Type("filter", "Cluster2 failed")
		b.Until(`document.getElementById("matches").textContent === "1 of 7 rows"`)
		if got := value[[]string](b, shown); len(got) != 1 || got[0] != "placements/shop/cluster2" {
			t.Errorf("shown: %v", got)
		}
		b.change(func(s *page.State) {
			s.Works = append(s.Works, page.Work{Cluster: "cluster2", Name: "failed-job"},
				page.Work{Cluster: "cluster2", Name: "other"})
		})
		b.Until(`document.getElementById("matches").textContent === "2 of 9 rows"`)
		// The address contains the filter, so a link to it shows the same rows, also when only the
		// server filters.
		b.Go(value[string](b, `location.href`))
		b.Until(`document.getElementById("matches").textContent === "2 of 9 rows"`)
		b.Eval(`document.getElementById("filter").value = ""; document.getElementById("filter").dispatchEvent(new Event("input"))`, nil)
		if got := value[[]string](b, shown); len(got) != 9 {
			t.Errorf("shown without a filter: %v", got)
		}
		if got := value[string](b, `location.search`); got != "" {
			t.Errorf("the address still has %q", got)
		}
		b.quiet()
	})

	t.Run("hostile names", func(t *testing.T) {
		text := `"><img src=x onerror="document.title='taken'"><script>document.title='taken'</script>`
		b := browse(t, browser, hostile(text))
		b.change(func(s *page.State) {
			s.Clusters = append(s.Clusters, page.Cluster{Name: text + "2", Status: page.Status{Reason: text}})
		})
		b.Until(`document.getElementById("clusters").rows.length === 2`)
		if value[bool](b, `document.querySelector("img, script:not([src])") !== null || document.title === "taken"`) {
			t.Error("a name became a part of the page")
		}
		if got := value[string](b, `document.querySelector("#clusters th").textContent`); got != text {
			t.Errorf("the name is shown as %q", got)
		}
		b.quiet()
	})

	t.Run("schemes and widths", func(t *testing.T) {
		b := browse(t, browser, small())
		grounds := map[string]string{}
		for _, scheme := range []string{"light", "dark"} {
			b.ColorScheme(scheme)
			grounds[scheme] = value[string](b, `getComputedStyle(document.body).backgroundColor`)
			for _, width := range []int{320, 390, 800, 1400} {
				b.Resize(width, 900)
				if got := value[int](b, `document.documentElement.scrollWidth`); got > width {
					t.Errorf("%s, %d pixels wide: %d pixels to scroll", scheme, width, got)
				}
				t.Logf("screenshot: %s", b.Screenshot(fmt.Sprintf("page-%s-%d", scheme, width)))
			}
		}
		if grounds["light"] == grounds["dark"] {
			t.Errorf("both schemes have the ground %s", grounds["light"])
		}
		b.quiet()
	})

	t.Run("long reasons", func(t *testing.T) {
		state := small()
		for _, s := range []*page.Status{&state.Clusters[0].Status, &state.Applications[0].Status,
			&state.Applications[0].Placements[0].Status} {
			s.Reason = strings.Repeat("for the cluster cluster1: what it says is long; ", 30) + strings.Repeat("x", 300)
		}
		state.Clusters[1].Labels = map[string]string{"example.com/" + strings.Repeat("x", 63): strings.Repeat("y", 63)}
		b := browse(t, browser, state)
		for _, width := range []int{320, 800, 1300} {
			b.Resize(width, 900)
			if got := value[int](b, `document.documentElement.scrollWidth`); got > width {
				t.Errorf("%d pixels wide: %d pixels to scroll", width, got)
			}
			if got := value[[]string](b, `[...document.querySelectorAll("tbody th, td[data-label=Cluster], td[data-label=Revision] code")].filter((cell) => {
				const text = document.createRange();
				text.selectNodeContents(cell);
				return !/[ -]/.test(cell.innerText) && new Set([...text.getClientRects()].map((line) => line.top)).size > 1;
			}).map((cell) => cell.innerText)`); len(got) > 0 {
				t.Errorf("%d pixels wide: words are broken: %q", width, got)
			}
			t.Logf("screenshot: %s", b.Screenshot(fmt.Sprintf("page-long-%d", width)))
		}
		b.quiet()
	})

	t.Run("assistive technology", func(t *testing.T) {
		b := browse(t, browser, small())
		for _, width := range []int{1400, 390} { // as tables and as cards
			b.Resize(width, 900)
			for role, want := range map[string]int{"heading": 6, "table": 4, "columnheader": 18, "rowheader": 7, "row": 11,
				"status": 2} {
				if got := b.Accessible(role); len(got) != want || slices.Contains(got, "") && role != "status" && role != "row" {
					t.Errorf("%d pixels wide: %d of role %s, want %d with names: %q", width, len(got), role, want, got)
				}
			}
			if got := b.Accessible("searchbox"); !slices.Equal(got, []string{"Filter"}) {
				t.Errorf("search boxes %q", got)
			}
		}
	})

	t.Run("without scripts", func(t *testing.T) {
		server := httptest.NewServer(newPage(t, &hub{state: small()}, page.Options{}))
		defer server.Close()
		b := &browsed{Tab: browser.Blank(t), t: t}
		b.NoScripts()
		b.Go(server.URL + "/?q=cluster2")
		if got := value[string](b, `document.getElementById("matches").textContent`); got != "3 of 7 rows" {
			t.Errorf("the server says %q", got)
		}
		if !value[bool](b, `document.getElementById("connection").innerText.includes("reload") && document.querySelector("#search button").checkVisibility()`) {
			t.Error("the page does not say how to go on without scripts")
		}
		b.quiet()
	})

	t.Run("large", func(t *testing.T) {
		b := browse(t, browser, large(200, 1000))
		b.Eval(`window.started = performance.now()`, nil)
		b.change(func(s *page.State) { s.Works[999].Application = "renamed" })
		b.Until(`document.getElementById("works/cluster199/shop-999").textContent.includes("renamed")`)
		t.Logf("one change of 1,000 works is shown after %.0f ms", value[float64](b, `performance.now() - window.started`))
		b.Type("filter", "renamed")
		if got := value[string](b, `document.getElementById("matches").textContent`); got != "1 of 1401 rows" {
			t.Errorf("filtered: %q", got)
		}
		t.Logf("a key of the filter takes %.0f ms",
			value[float64](b, `(() => { const before = performance.now(); document.getElementById("filter").dispatchEvent(new Event("input")); return performance.now() - before })()`))
		b.quiet()
	})
}

// TestBrowserReconnects checks that the page reports a lost hub, and then shows the state of the
// next hub process.
func TestBrowserReconnects(t *testing.T) {
	h := &hub{state: small()}
	first := newPage(t, h, page.Options{})
	server := httptest.NewUnstartedServer(first)
	address := server.Listener.Addr().String()
	server.Start()
	t.Cleanup(func() { first.Close(); server.Close() })
	b := &browsed{Tab: chromium.Start(t).Open(t, server.URL), t: t}
	b.Until(`document.getElementById("connection").dataset.state === "live"`)
	b.Eval(`window.before = "not reloaded"`, nil)

	first.Close()
	server.Close()
	b.Until(`document.getElementById("connection").textContent.startsWith("Disconnected")`)

	h.edit(func(s *page.State) { s.Works = s.Works[:1]; s.Clusters[0].Status.Word = "Seen again" })
	second := newPage(t, h, page.Options{})
	again := &http.Server{Addr: address, Handler: second}
	served := make(chan error, 1)
	go func() { served <- again.ListenAndServe() }()
	t.Cleanup(func() {
		second.Close()
		again.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	b.Until(`document.getElementById("connection").dataset.state === "live" && document.getElementById("clusters/cluster2").innerText.includes("Seen again")`)
	if got := value[int](b, `document.getElementById("works").rows.length`); got != 1 {
		t.Errorf("%d works, want 1: what went meanwhile is gone", got)
	}
	if got := value[string](b, `window.before`); got != "not reloaded" {
		t.Error("the page was loaded again")
	}
}
