// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package chromium runs a real, headless Chromium next to a test and checks pages with it.
//
//	tab := chromium.Start(t).Open(t, server.URL)
//	tab.Until(`document.querySelector("h1").textContent === "Hub"`)
//	if problems := tab.Problems(); len(problems) > 0 { … }
//
// It uses the DevTools protocol over a pipe, so no port is open. The browser connects only to
// 127.0.0.1. Without the program, the test is skipped. With the environment variable CI set to
// "true", it fails instead, so no CI run skips it unnoticed.
package chromium

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/internal/testing/daemon"
)

const (
	// stepLimit limits each step: a command, or the wait for a condition.
	stepLimit = 30 * time.Second
	stopGrace = 10 * time.Second
)

// Browser is a Chromium process. Only the goroutine of its test may use it.
type Browser struct {
	wire *wire
}

// Start runs a browser until the end of the test.
func Start(t testing.TB) *Browser {
	t.Helper()
	path := daemon.Require(t, "chromium", "chromium")
	home := t.TempDir()
	cmd := exec.Command(path, flags(home)...)
	cmd.Env = append(os.Environ(), "HOME="+home) // for browser files outside of its profile
	log := &daemon.Log{}
	cmd.Stdout, cmd.Stderr = log, log
	// Child processes inherit the log, and write to the profile until they end.
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

// flags returns the flags of a browser without background activity.
func flags(home string) []string {
	all := []string{
		"--headless", "--remote-debugging-pipe", "--user-data-dir=" + home + "/profile",
		"--no-first-run", "--no-default-browser-check", "--disable-gpu", "--disable-dev-shm-usage",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
		"--mute-audio",
		"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
	}
	if os.Geteuid() == 0 {
		all = append(all, "--no-sandbox") // Chromium refuses to run as root with a sandbox
	}
	return append(all, "about:blank")
}

// Open opens a page in a new tab that shares no state with other tabs. It returns when the page has
// loaded. t may be a subtest of the browser's test.
func (b *Browser) Open(t testing.TB, url string) *Tab {
	t.Helper()
	tab := b.Blank(t)
	tab.Go(url)
	return tab
}

// Blank opens a tab with an empty page, for settings that are needed before a page loads.
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
