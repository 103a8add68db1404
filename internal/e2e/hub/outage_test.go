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
		name string
		link func(*replica) *tcpproxy.Proxy
	}{
		{"broker", func(h *replica) *tcpproxy.Proxy { return h.broker }},
		{"database", func(h *replica) *tcpproxy.Proxy { return h.database }},
	} {
		down := fmt.Sprintf("The %s is down", outage.name)
		for _, h := range r.hubs {
			outage.link(h).Block()
			outage.link(h).Cut()
		}
		for _, h := range r.hubs {
			for path, want := range map[string]string{"/": down, "/readyz": "the " + outage.name + " is down",
				"/api/v1/status": fmt.Sprintf(`{"name":%q,`, outage.name), "/clusters": down} {
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
		tab.Until(fmt.Sprintf(`document.body.innerText.includes(%q)`, down))
		tab.Until(`document.body.innerText.includes("app00") || document.body.innerText.includes("No application is broken")`)
		t.Logf("screenshot: %s", tab.Screenshot(outage.name+"-down"))
		for _, h := range r.hubs {
			outage.link(h).Unblock()
		}
		tab.Until(fmt.Sprintf(`document.getElementById("connection").dataset.state === "live" && `+
			`!document.body.innerText.includes(%q)`, down))
		r.serve(r.hubs)
	}
	var before string
	if tab.Eval(`window.before`, &before); before != "not reloaded" {
		t.Error("the page was loaded again")
	}
}
