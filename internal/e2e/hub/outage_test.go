// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/internal/testing/chromium"
	"github.com/spokewire/sdk-go/internal/testing/tcpproxy"
)

// TestOutages cuts all replicas off the broker, and then off the database, while a person watches the
// page of one of them. The page, the status, the metrics and the probe report the outage until the
// repair. All replicas stay ready, because the page is needed.
func TestOutages(t *testing.T) {
	r := deployReplicas(t, worksOfCluster, "")
	r.serve(r.hubs)
	tab := chromium.Start(t).Open(t, r.hubs[0].url)
	tab.Until(`document.getElementById("connection").dataset.state === "live"`)
	tab.Eval(`window.before = "not reloaded"`, nil)
	for _, outage := range []struct {
		name       string
		link       func(*replica) *tcpproxy.Proxy
		lost, back string // records of the log, once
	}{
		{
			"broker", func(h *replica) *tcpproxy.Proxy { return h.broker }, `"Failed to connect to the broker, trying again"`,
			`"Connected to the broker again"`,
		},
		{"database", func(h *replica) *tcpproxy.Proxy { return h.database }, `"Lost the store"`, `"Reached the store again"`},
	} {
		since := len(r.hubs[0].run.Log())
		down := fmt.Sprintf("The %s is down", outage.name)
		for _, h := range r.hubs {
			outage.link(h).Block()
			outage.link(h).Cut()
		}
		for _, h := range r.hubs {
			for path, want := range map[string]string{"/": down, "/readyz": "the " + outage.name + " is down",
				"/api/v1/status": fmt.Sprintf(`{"name":%q,`, outage.name), "/clusters": down,
				"/metrics": fmt.Sprintf(`spokewire_hub_link_up{link=%q} 0`, outage.name)} {
				eventually(t, h.url+path+" reports the outage of the "+outage.name, func() error {
					code, text, err := r.call(h, http.MethodGet, path, "")
					if err == nil && (code != http.StatusOK || !strings.Contains(text, want) || path == "/api/v1/status" &&
						!strings.Contains(text, `"up":false`)) {
						err = fmt.Errorf("%d %.2000s", code, text)
					}
					return err
				})
			}
		}
		o := &onCall{hub: &hub{process: r.hubs[0].process, url: r.hubs[0].url}, t: t}
		o.shows("hub status", true, "Down", outage.name)
		tab.Until(fmt.Sprintf(`document.body.innerText.includes(%q)`, down))
		tab.Until(`document.body.innerText.includes("app00") || document.body.innerText.includes("No application is broken")`)
		t.Logf("screenshot: %s", tab.Screenshot(outage.name+"-down"))
		for _, h := range r.hubs {
			outage.link(h).Unblock()
		}
		tab.Until(fmt.Sprintf(`document.getElementById("connection").dataset.state === "live" && `+
			`!document.body.innerText.includes(%q)`, down))
		r.serve(r.hubs)
		for _, record := range []string{outage.lost, outage.back} {
			r.hubs[0].awaitLog(since, record)
			if log := r.hubs[0].run.Log()[since:]; strings.Count(log, record) != 1 {
				t.Errorf("%d records %s, want 1:\n%s", strings.Count(log, record), record, log)
			}
		}
	}
	var before string
	if tab.Eval(`window.before`, &before); before != "not reloaded" {
		t.Error("the page was loaded again")
	}
}

// watch makes the tab record each moment at which the page looks good although the application app00
// is broken: its row is missing or not Degraded, and neither an alert nor the connection reports why.
const watch = `
	window.before = "not reloaded";
	window.wrong = [];
	window.looks = 0;
	new MutationObserver(() => {
		looks++;
		const text = document.getElementById("main").innerText;
		const shown = [...document.querySelectorAll("#a-app00")].some((row) => /Degraded|Unknown/.test(row.innerText));
		const down = document.querySelector("#alerts .alert") !== null ||
			document.getElementById("connection").dataset.state === "lost";
		if ((!shown || text.includes("No application is broken.")) && !down) wrong.push(text);
	}).observe(document.body, {subtree: true, childList: true, attributes: true, characterData: true});
	undefined`

// TestWatchTakeover kills the leader of two replicas while persons watch the pages of both. The page
// of the other one goes on, and shows the state from the new leader. The page of the killed one
// reports that the hub does not answer, until it is started again. No page ever hides the broken
// application.
func TestWatchTakeover(t *testing.T) {
	r := deployReplicas(t, worksOfCluster, "")
	third := r.others(r.leader())[0]
	third.end()
	r.hubs = r.others(third)
	r.fleet.clusters["c000"].Refuse(func(object string) string {
		if strings.HasSuffix(object, "/app00") {
			return "no space left"
		}
		return ""
	})
	change := func(hubs []*replica) {
		t.Helper()
		if err := r.next(t.Context(), hubs, "app00"); err != nil {
			t.Fatal(err)
		}
	}
	change(r.hubs)
	leader := r.leader()
	follower := r.others(leader)[0]
	browser := chromium.Start(t)
	open := func(h *replica) *chromium.Tab {
		tab := browser.Open(t, h.url)
		tab.Until(`document.getElementById("connection").dataset.state === "live"`)
		tab.Until(`document.getElementById("a-app00")?.innerText.includes("Degraded")`)
		tab.Eval(watch, nil)
		return tab
	}
	tabs := []*chromium.Tab{open(leader), open(follower)}
	for range 2 {
		leader.kill()
		change([]*replica{follower})
		r.mu.Lock()
		revision := fmt.Sprint(r.accepted["app00"])
		r.mu.Unlock()
		const live = `document.getElementById("connection").dataset.state === "live" && ` +
			`document.querySelector("#alerts .alert") === null && `
		current := live + fmt.Sprintf(`[...document.querySelectorAll("#a-app00")].some((row) => `+
			`/Degraded/.test(row.innerText) && row.querySelector("[data-label=Revision]").innerText.includes(%q))`, revision)
		tabs[0].Until(`document.getElementById("connection").innerText.includes("The hub does not answer")`)
		tabs[1].Until(current)
		leader.start()
		tabs[0].Until(current)
		leader, follower = follower, leader
		tabs[0], tabs[1] = tabs[1], tabs[0]
	}
	for i, tab := range tabs {
		var before string
		var wrong []string
		var looks int
		tab.Eval(`window.before`, &before)
		tab.Eval(`window.wrong`, &wrong)
		tab.Eval(`window.looks`, &looks)
		if before != "not reloaded" || len(wrong) > 0 || looks == 0 {
			t.Errorf("page %d: %q, and it looked good in %d of %d changes:\n%.2000s", i, before, len(wrong), looks,
				strings.Join(wrong, "\n--\n"))
		}
		t.Logf("screenshot: %s", tab.Screenshot(fmt.Sprint("takeover", i)))
	}
}
