// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub_test

import (
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/internal/testing/chromium"
)

// page shows the page of the application on the first cluster in Chromium, while its Deployment
// becomes ready. The agent's report appears without a reload.
func (l *life) page(t *testing.T) {
	p := l.spokes[0]
	tab := chromium.Start(t).Open(t, l.hub.url+"/applications/shop/cluster1")
	const main = `document.getElementById("main").textContent`
	tab.Until(`document.getElementById("connection").dataset.state === "live"`)
	tab.Until(main + `.includes("Applied=True")`)
	tab.Until(main + `.includes("Progressing=True")`)
	tab.Until(main + `.includes("0 of 1 replicas")`)
	tab.Eval(`window.before = "not reloaded"`, nil)

	p.pretend("web")
	tab.Until(`[...document.querySelectorAll("#main tr")]` +
		`.some((row) => /Deployment shop\/web\s+✓ Healthy/.test(row.innerText))`)
	var before string
	if tab.Eval(`window.before`, &before); before != "not reloaded" {
		t.Error("the page was loaded again")
	}
	if problems := tab.Problems(); len(problems) > 0 {
		t.Errorf("the browser complains:\n%s", strings.Join(problems, "\n"))
	}
	t.Logf("screenshot: %s", tab.Screenshot("hub"))
}
