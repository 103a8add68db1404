// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestFullDisk: a hub whose states can no longer be written is not ready.
func TestFullDisk(t *testing.T) {
	s := newSite(t)
	s.start()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) { // it serves before the broker has answered
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
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: uint64(os.Getpagesize()), Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	code, text := s.call("PUT", "/api/v1/clusters/c1", cluster("c1", ""))
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if code != http.StatusInternalServerError {
		t.Fatalf("%d %s", code, text)
	}
	if code, text := s.call("GET", "/readyz", ""); code != http.StatusServiceUnavailable || !strings.Contains(text, "can no longer be written") {
		t.Errorf("%d %s", code, text)
	}
}
