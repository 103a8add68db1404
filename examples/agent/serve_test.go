// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestServer(t *testing.T) {
	registry := prometheus.NewRegistry()
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: "answer"})
	gauge.Set(42)
	registry.MustRegister(gauge)
	var ready atomic.Bool
	address, serve, err := listen("127.0.0.1:0", registry, func() error {
		if !ready.Load() {
			return errors.New("the broker is away")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := listen(address, registry, nil); err == nil || !strings.Contains(err.Error(), "--listen: ") {
		t.Errorf("an address that is in use: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, step := range []struct {
		path   string
		ready  bool
		status int
		want   string
	}{
		{"/healthz", false, http.StatusOK, "ok"},
		{"/readyz", false, http.StatusServiceUnavailable, "the broker is away"},
		{"/readyz", true, http.StatusOK, "ok"},
		{"/metrics", true, http.StatusOK, "answer 42"},
		{"/other", true, http.StatusNotFound, ""},
	} {
		ready.Store(step.ready)
		response, err := client.Get("http://" + address + step.path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != step.status || !strings.Contains(string(body), step.want) {
			t.Errorf("%s: %s, %s, %v", step.path, response.Status, body, err)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
