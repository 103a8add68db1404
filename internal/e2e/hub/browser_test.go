// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub_test

import (
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/internal/testing/chromium"
)

// page shows the hub's page in Chromium while the Deployment of the first cluster becomes ready.
// The agent's report appears without a reload.
func (l *life) page(t *testing.T) {
	p := l.spokes[0]
	tab := chromium.Start(t).Open(t, l.hub.url)
	const work = `[...document.querySelectorAll("#works tr")].find((row) => row.id.startsWith("works/cluster1/base-"))?.textContent`
	tab.Until(`document.getElementById("connection").dataset.state === "live"`)
	tab.Until(work + `?.includes("Applied=True")`)
	tab.Until(work + `?.includes("Progressing=True")`)
	tab.Until(`document.getElementById("applications/shop")?.textContent.includes("Rolling")`)
	tab.Eval(`window.before = "not reloaded"`, nil)

	p.pretend("web")
	tab.Until(work + `?.includes("Progressing=False")`)
	tab.Until(`[...document.querySelectorAll("#works li")].some((line) => /Healthy Deployment shop\/web/.test(line.textContent))`)
	var before string
	if tab.Eval(`window.before`, &before); before != "not reloaded" {
		t.Error("the page was loaded again")
	}
	if problems := tab.Problems(); len(problems) > 0 {
		t.Errorf("the browser complains:\n%s", strings.Join(problems, "\n"))
	}
	t.Logf("screenshot: %s", tab.Screenshot("hub"))
}
