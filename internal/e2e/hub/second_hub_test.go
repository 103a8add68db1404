// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

// reports waits until a hub reports a problem of its link on the page, and in the status and the probe.
func (h *hub) reports(text string) {
	h.t.Helper()
	for _, path := range []string{"/readyz", "/", "/api/v1/status"} {
		eventually(h.t, h.url+path, func() error {
			_, got, err := h.call(http.MethodGet, path)
			if !strings.Contains(got, text) {
				return fmt.Errorf("%.3000s, %w", got, err)
			}
			return nil
		})
	}
}

// TestSecondHubWithSource starts a second hub with the same --source and another store on a broker. The
// older hub stops to write, and neither deletes a work of the other. When the newer hub ends, the older
// one writes again.
func TestSecondHubWithSource(t *testing.T) {
	broker := mosquitto.Start(t, mosquitto.Options{})
	cluster := newMainCluster(t, "--broker", broker.URL())
	s := &stores{t: t}
	older, newer := newAPIHub(t, s.folder(), "--broker", broker.URL()), newAPIHub(t, s.folder(), "--broker", broker.URL())
	want := map[string]string{}
	deploy := func(h *hub, name, version string) {
		h.put("clusters/main", documentHead+"kind: Cluster\nmetadata: {name: main}\n")
		h.configMap(name, version)
		h.place(name)
	}
	older.start()
	deploy(older, "a", "1")
	older.put("complete", "")
	want["a"] = "1"
	uids := cluster.have("the older hub", want)
	newer.start()
	older.reports("newer process with the same ID")
	older.awaitLog(0, "Stopped writing: a newer process with the same ID is connected")
	newer.reports("older process with the same ID")
	newer.awaitLog(0, "Detected another process with the same ID")
	deploy(newer, "b", "1")
	newer.put("complete", "")
	want["b"] = "1"
	same(t, cluster.have("both hubs", want), uids)
	older.configMap("a", "2") // waits
	deploy(newer, "b", "2")
	want["b"] = "2"
	uids = cluster.have("the newer hub writes, the older one does not", want)
	newer.end()
	want["a"] = "2"
	same(t, cluster.have("the older hub writes again", want), uids)
}
