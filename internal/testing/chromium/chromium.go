// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package chromium runs a real, headless Chromium beside a test and looks at pages through it.
//
//	tab := chromium.Start(t).Open(t, server.URL)
//	tab.Until(`document.querySelector("h1").textContent === "Hub"`)
//	if problems := tab.Problems(); len(problems) > 0 { … }
//
// It speaks the DevTools protocol over a pipe, so that nothing listens on a port. The browser reaches 127.0.0.1 and no
// other host. The test is skipped where the program is missing, and fails instead when the environment variable CI is
// "true", so that no run there skips it unnoticed.
package chromium

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/internal/testing/daemon"
)

const (
	// stepLimit bounds each single step: a command, or a condition that is waited for.
	stepLimit = 30 * time.Second
	stopGrace = 10 * time.Second
)

// Browser is a Chromium process. It is for the goroutine of its test alone.
type Browser struct {
	wire *wire
}

// Start runs a browser until the end of the test.
func Start(t testing.TB) *Browser {
	t.Helper()
	path := daemon.Require(t, "chromium", "chromium")
	home := t.TempDir()
	cmd := exec.Command(path, flags(home)...)
	cmd.Env = append(os.Environ(), "HOME="+home) // for what the browser keeps outside of its profile
	log := &daemon.Log{}
	cmd.Stdout, cmd.Stderr = log, log
	// Its children have these too, and write to the profile until they end.
	cmd.WaitDelay = stopGrace
	// The browser reads commands from descriptor 3 and writes to 4.
	commands, toBrowser, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fromBrowser, events, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{commands, events}
	if err := cmd.Start(); err != nil {
		t.Fatalf("chromium: %v", err)
	}
	_ = commands.Close()
	_ = events.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	b := &Browser{wire: newWire(toBrowser, fromBrowser)}
	t.Cleanup(func() {
		_ = b.wire.send("", "Browser.close", nil)
		select {
		case <-ended:
		case <-time.After(stopGrace):
			_ = cmd.Process.Kill()
			<-ended
		}
		b.wire.close()
		if t.Failed() {
			t.Logf("log of chromium:\n%s", log.Last(4<<10))
		}
	})
	return b
}

// flags are those of a browser that does what it is told, and nothing on its own.
func flags(home string) []string {
	all := []string{
		"--headless", "--remote-debugging-pipe", "--user-data-dir=" + home + "/profile",
		"--no-first-run", "--no-default-browser-check", "--disable-gpu", "--disable-dev-shm-usage",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions", "--mute-audio",
		"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
	}
	if os.Geteuid() == 0 {
		all = append(all, "--no-sandbox") // Chromium refuses to run as root with one
	}
	return append(all, "about:blank")
}

// Open opens a page in a tab of its own, which shares nothing with others, and returns when the page has loaded. The
// test may be a part of the browser's.
func (b *Browser) Open(t testing.TB, url string) *Tab {
	t.Helper()
	tab := b.Blank(t)
	tab.Go(url)
	return tab
}

// Blank opens a tab with an empty page, for what must be set before a page loads.
func (b *Browser) Blank(t testing.TB) *Tab {
	t.Helper()
	tab := &Tab{t: t, wire: b.wire}
	var room struct {
		ID string `json:"browserContextId"`
	}
	tab.call("Target.createBrowserContext", nil, &room)
	var target struct {
		ID string `json:"targetId"`
	}
	tab.call("Target.createTarget", params{"url": "about:blank", "browserContextId": room.ID}, &target)
	var session struct {
		ID string `json:"sessionId"`
	}
	tab.call("Target.attachToTarget", params{"targetId": target.ID, "flatten": true}, &session)
	tab.session = session.ID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network", "Audits"} {
		tab.call(domain+".enable", nil, nil)
	}
	return tab
}
