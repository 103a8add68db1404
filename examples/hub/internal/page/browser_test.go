// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"errors"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/examples/hub/internal/page"
	"github.com/spokewire/sdk-go/examples/hub/internal/status"
	"github.com/spokewire/sdk-go/internal/testing/chromium"
)

var screenshots = flag.String("page.screenshots", "", "write the screenshots of the states to this folder")

// browsed is a page that is open in a real browser.
type browsed struct {
	*chromium.Tab
	t    *testing.T
	hub  *hub
	page *page.Page
	url  string
}

// browse opens a path of the page of a hub.
func browse(t *testing.T, browser *chromium.Browser, h *hub, path string) *browsed {
	t.Helper()
	p := newPage(t, h, page.Options{Interval: 50 * time.Millisecond, MayEdit: everyone})
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	b := &browsed{Tab: browser.Blank(t), t: t, hub: h, page: p, url: server.URL}
	b.ColorScheme("light")
	b.Resize(1300, 900)
	b.Go(server.URL + path)
	b.Until(`document.getElementById("connection").dataset.state === "live"`)
	return b
}

// change changes the state and calls Changed, like a hub.
func (b *browsed) change(change func(*hub)) {
	b.hub.edit(change)
	b.page.Changed()
}

// value returns the value of a JavaScript expression.
func value[T any](b *browsed, expression string) (v T) {
	b.t.Helper()
	b.Eval(expression, &v)
	return v
}

// sound fails the test if the browser has reported problems, the page is wider than the window, or
// axe finds violations.
func (b *browsed) sound() {
	b.t.Helper()
	if problems := b.Problems(); len(problems) > 0 {
		b.t.Errorf("the browser complains:\n%s", strings.Join(problems, "\n"))
	}
	if wide := value[int](b, `document.documentElement.scrollWidth - document.documentElement.clientWidth`); wide > 0 {
		b.t.Errorf("%d pixels to scroll to the right", wide)
	}
	if found := b.Violations(); len(found) > 0 {
		b.t.Errorf("axe:\n%s", strings.Join(found, "\n"))
	}
}

// shoot writes a screenshot to the folder of the flag.
func (b *browsed) shoot(name string) {
	b.t.Helper()
	file := b.Screenshot(name)
	if *screenshots == "" {
		return
	}
	content, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(filepath.Join(*screenshots, name+".png"), content, 0o600)
	}
	if err != nil {
		b.t.Error(err)
	}
}

// states are the states that a person may meet, with a text that the page must show.
func states() map[string]struct {
	hub         *hub
	path, shows string
} {
	type state = struct {
		hub         *hub
		path, shows string
	}
	rolling := shop(progressing("its agent has not applied it yet"))
	failed := shop(degraded("Deployment shop/web: 0 of 2 replicas available, for longer than 5 minutes"))
	silent := shop(status.Status{Sync: status.SyncUnknown, Health: status.Unknown,
		Reason: "no message from its agent since 2026-03-01 11:40Z; last reported: Healthy"})
	silent.state.Clusters[2].Agent, silent.state.Clusters[2].Health = status.Silent, status.Unknown
	silent.state.Clusters[2].Sync = status.SyncUnknown
	silent.state.Clusters[2].Reason = "no message from its agent since 2026-03-01 11:40Z"
	silent.state.Clusters = append(silent.state.Clusters,
		status.Cluster{Name: "cluster4", Agent: status.NeverJoined, Status: status.Status{Sync: status.SyncUnknown,
			Health: status.Missing, Reason: "no agent of the cluster has ever connected"}},
		status.Cluster{Name: "cluster5", Agent: status.Connected, LastHeard: noon, Undocumented: true,
			Status: status.Status{Sync: status.Synced, Health: status.Unknown,
				Reason: "no document names the cluster, but its agent has connected: add a Cluster document, or stop the agent"}})
	broker, database := shop(healthy()), shop(healthy())
	broker.state.Links = []status.Link{{Name: "broker", Address: "mqtts://broker.example.com",
		Reason: "not connected since 12:00:00Z: dial tcp 192.0.2.1:8883: connect: connection refused"}, up()[1]}
	database.state.Links = []status.Link{up()[0], {Name: "database", Address: "postgres://db.example.com/hub",
		Reason: "dial tcp 192.0.2.2:5432: connect: connection refused"},
		{Name: "leader", Reason: "no replica is known to lead"}}
	refused := shop(healthy())
	refused.state.Documents.Refused = `apps/shop.yaml: document 2: spec.clusters.names[1]: no Cluster "mars"`
	return map[string]state{
		"nothing-joined":    {empty(), "/", "There are no applications."},
		"rolling":           {rolling, "/", "its agent has not applied it yet"},
		"held":              {held(), "/applications/shop", "waits for an approval"},
		"changed":           {held(), "/applications/shop?done=approve", "Approved. The rollout continues."},
		"rollback":          {held(), "/applications/shop?from=2&to=1", "Roll back to revision 1"},
		"failed":            {failed, "/", "0 of 2 replicas available"},
		"failed-objects":    {failed, "/applications/shop/cluster3", "0 of 2 replicas available"},
		"silent":            {silent, "/", "no message from its agent"},
		"broker-down":       {broker, "/", "The broker is down"},
		"database-down":     {database, "/", "The database is down"},
		"refused-documents": {refused, "/", "New documents were refused"},
		"large":             {large(1000, 100), "/", "1000"},
		"large-clusters":    {large(1000, 100), "/clusters?page=3", "page 3 of 20"},
		"large-application": {large(1000, 100), "/applications/application003", "50 of 1000 clusters, page 1 of 20"},
		"history":           {failed, "/history", "Placement everywhere has changed"},
		"difference":        {failed, "/applications/shop?from=1&to=2", "From revision 1 to 2"},
		"cluster":           {failed, "/clusters/cluster3", "region=eu"},
	}
}

// TestStates shows each state in Chromium, in both color schemes, and on a phone.
func TestStates(t *testing.T) {
	browser := chromium.Start(t)
	for name, state := range states() {
		t.Run(name, func(t *testing.T) {
			b := browse(t, browser, state.hub, state.path)
			if text := value[string](b, `document.body.innerText`); !strings.Contains(text, state.shows) {
				t.Errorf("the page does not show %q:\n%s", state.shows, text)
			}
			b.Eval(`document.getElementById("legend").open = true`, nil)
			grounds := map[string]bool{}
			for _, scheme := range []string{"light", "dark"} {
				b.ColorScheme(scheme)
				grounds[value[string](b, `getComputedStyle(document.body).backgroundColor`)] = true
				for _, width := range []int{1300, 320} {
					b.Resize(width, 900)
					b.sound()
					shot := name
					if scheme == "dark" {
						shot += "-dark"
					}
					if width < 400 {
						shot += "-narrow"
					}
					b.shoot(shot)
				}
			}
			if len(grounds) != 2 {
				t.Errorf("both schemes have the ground %v", grounds)
			}
		})
	}
}

// TestFirstPaint checks that the page of 1,000 clusters and 100 applications is small, and logs the
// time until it is visible.
func TestFirstPaint(t *testing.T) {
	b := browse(t, chromium.Start(t), large(1000, 100), "/")
	b.Until(`performance.getEntriesByName("first-contentful-paint").length === 1`)
	t.Logf("first paint after %.0f ms",
		value[float64](b, `performance.getEntriesByName("first-contentful-paint")[0].startTime`))
	size := value[int](b, `performance.getEntriesByType("navigation")[0].decodedBodySize`)
	if size == 0 || size > 200_000 {
		t.Errorf("the page has %d bytes", size)
	}
}

// TestBrowser checks that the page stays live in Chromium.
func TestBrowser(t *testing.T) {
	browser := chromium.Start(t)
	t.Run("live", func(t *testing.T) {
		b := browse(t, browser, shop(progressing("its agent has not applied it yet")), "/applications/shop/cluster1")
		b.Eval(`window.before = "not reloaded"; document.querySelector("main details").open = true;
			document.querySelector("main a").focus()`, nil)
		b.change(func(h *hub) {
			c := h.clusters["cluster1"]
			c.Placements = []status.Placement{{Application: "shop", Cluster: "cluster1", Revision: "3",
				Status: degraded("Deployment shop/web: no image")}}
			c.Works = slices.Clone(c.Works)
			c.Works[0].Objects = append([]status.Object{{Kind: "ConfigMap", Name: "first", Status: healthy()}},
				c.Works[0].Objects...)
			h.clusters["cluster1"] = c
			h.state.Links[0] = status.Link{Name: "broker", Reason: "gone"}
		})
		b.Until(`document.body.innerText.includes("no image")`)
		text := value[string](b, `document.getElementById("main").innerText`)
		if !strings.Contains(text, "ConfigMap first") || !strings.Contains(text, "The broker is down") {
			t.Error(text)
		}
		if !value[bool](b, `document.querySelector("main details").open && `+
			`document.activeElement.href.endsWith("/applications/shop")`) {
			t.Error("the details were closed, or the focus was lost")
		}
		b.change(func(h *hub) { h.state.Links[0].Up = true })
		b.Until(`!document.body.innerText.includes("The broker is down")`)
		if got := value[string](b, `window.before`); got != "not reloaded" {
			t.Error("the page was loaded again")
		}
		b.sound()
	})
	t.Run("filter", func(t *testing.T) {
		b := browse(t, browser, large(120, 3), "/clusters?page=2")
		b.Type("filter", "region1")
		b.Until(`document.getElementById("matches").textContent === "17 of 17 clusters"`)
		if !value[bool](b, `location.search === "?q=region1" && document.activeElement.id === "filter" && `+
			`document.activeElement.value === "region1"`) {
			t.Errorf("the address has %q", value[string](b, `location.search`))
		}
		b.Go(value[string](b, `location.href`)) // a link to it shows the same rows
		b.Until(`document.getElementById("matches").textContent === "17 of 17 clusters"`)
		b.Eval(`const field = document.getElementById("filter"); field.value = ""; `+
			`field.dispatchEvent(new Event("input", {bubbles: true}))`, nil)
		b.Until(`document.getElementById("matches").textContent.startsWith("50 of 120 clusters")`)
		b.sound()
	})
	t.Run("keyboard", func(t *testing.T) {
		b := browse(t, browser, shop(healthy()), "/applications")
		var names []string
		for range 12 {
			b.Press("Tab")
			names = append(names, value[string](b, `document.activeElement.id || document.activeElement.textContent.trim()`))
		}
		const want = "Skip to the content, Overview, Applications, Clusters, History, filter, Filter"
		if strings.Join(names[:7], ", ") != want || !slices.Contains(names, "shop") {
			t.Errorf("the order of the focus is %q", names)
		}
		if !value[bool](b, `[...document.querySelectorAll("a, button, input, summary")]`+
			`.every((e) => e.type === "hidden" || e.tabIndex >= 0)`) {
			t.Error("an element cannot have the focus")
		}
	})
	t.Run("hostile names", func(t *testing.T) {
		text := `"><img src=x onerror="document.title='taken'"><script>document.title='taken'</script>`
		b := browse(t, browser, hostile(text), "/applications/x?from=1&to=2")
		b.change(func(h *hub) { h.state.Links[0].Reason = text + "2" })
		b.Until(`document.getElementById("alerts").textContent.includes("</script>2")`)
		if value[bool](b, `document.querySelector("img, script:not([src])") !== null || document.title === "taken"`) {
			t.Error("a name became a part of the page")
		}
	})
	t.Run("without scripts", func(t *testing.T) {
		server := httptest.NewServer(newPage(t, large(120, 3), page.Options{}))
		defer server.Close()
		b := &browsed{Tab: browser.Blank(t), t: t}
		b.NoScripts()
		b.Go(server.URL + "/clusters?q=region1")
		if got := value[string](b, `document.getElementById("matches").textContent`); got != "17 of 17 clusters" {
			t.Errorf("the server says %q", got)
		}
		if !value[bool](b, `document.getElementById("connection").innerText.includes("Reload")`) {
			t.Error("the page does not say how to go on without scripts")
		}
	})
}

// TestBrowserReconnects checks that the page reports a lost hub, and then shows the state of the
// next hub process.
func TestBrowserReconnects(t *testing.T) {
	h := shop(healthy())
	server := httptest.NewServer(newPage(t, h, page.Options{}))
	address := server.Listener.Addr().String()
	b := &browsed{Tab: chromium.Start(t).Open(t, server.URL), t: t}
	b.Until(`document.getElementById("connection").dataset.state === "live"`)
	b.Eval(`window.before = "not reloaded"`, nil)
	server.CloseClientConnections()
	server.Close()
	b.Until(`document.getElementById("connection").textContent.startsWith("The hub does not answer")`)
	again := &http.Server{Addr: address, Handler: newPage(t, shop(degraded("seen again")), page.Options{})}
	served := make(chan error, 1)
	go func() { served <- again.ListenAndServe() }()
	t.Cleanup(func() {
		again.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	b.Until(`document.getElementById("connection").dataset.state === "live" && ` +
		`document.body.innerText.includes("seen again")`)
	if got := value[string](b, `window.before`); got != "not reloaded" {
		t.Error("the page was loaded again")
	}
}
