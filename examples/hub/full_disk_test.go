// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestFullDisk checks that a hub that cannot write its state reports it on the page, in the API, the probes,
// the metrics and once in the log, and works again after a restart.
func TestFullDisk(t *testing.T) {
	s := newSite(t)
	s.start()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) { // it serves before the broker responds
		code, text := s.call("GET", "/readyz", "")
		if code == http.StatusOK {
			break
		}
		if time.Now().After(end) {
			t.Fatal(text)
		}
	}
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	// The limit applies to the whole process, and go test also writes a log.
	const limit = 4 << 20
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	const size = 500 << 10
	code, text := http.StatusOK, ""
	for i := 0; i < 2*limit/size && code < http.StatusInternalServerError; i++ {
		name := fmt.Sprint("large", i)
		code, text = s.call("PUT", "/api/v1/applications/"+name, application(name, "a="+strings.Repeat("x", size)))
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if code != http.StatusInternalServerError {
		t.Fatalf("%d %s", code, text)
	}
	for path, want := range map[string]int{"/healthz": 503, "/readyz": 200, "/": 200, "/api/v1/status": 200} {
		if code, text := s.call("GET", path, ""); code != want || !strings.Contains(text, "can no longer be written") {
			t.Errorf("%s: %d %s, want %d", path, code, text, want)
		}
	}
	const lost, down = `msg="Lost the store" err="`, `spokewire_hub_link_up{link="store"} 0`
	eventually(t, lost, func() bool { return strings.Contains(s.said.String(), lost) })
	if n := strings.Count(s.said.String(), lost); n != 1 || !strings.Contains(s.must("GET", "/metrics", ""), down) {
		t.Errorf("%d records %s, or no %s", n, lost, down)
	}
	s.stop()
	s.start()
	for _, path := range []string{"/healthz", "/", "/metrics"} {
		text := s.must("GET", path, "")
		if strings.Contains(text, "can no longer be written") || strings.Contains(text, down) {
			t.Errorf("%s after the restart: %s", path, text)
		}
	}
}
