// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/testing/background"
)

// TestReadyDuringOutageOfBroker: a source serves works without a broker, also after a start. An
// agent does so after its initial sync.
func TestReadyDuringOutageOfBroker(t *testing.T) {
	bus := memory.New()
	bus.Disconnect()
	source := newSource(t, bus)
	if err := source.InventoryComplete(t.Context()); err != nil {
		t.Fatal(err)
	}
	agent, err := work.NewAgent(bus.Transport(), work.AgentOptions{ClusterName: "cluster1", Sources: []string{"hub"}})
	if err != nil {
		t.Fatal(err)
	}
	toSource, _ := serve(t, source, nil)
	toAgent, _ := serve(t, agent, nil)
	background.Run(t, source.Start)
	background.Run(t, agent.Start)
	eventually := func(request call, code int, part string) {
		t.Helper()
		for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
			got := request("GET", "/readyz?verbose", "")
			if got.code == code && strings.Contains(got.body, part) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("/readyz: %d %s, want %d with %s", got.code, got.body, code, part)
			}
		}
	}
	eventually(toSource, http.StatusOK, "[+]manifestworks ok")
	eventually(toAgent, http.StatusInternalServerError, "[-]manifestworks failed")
	if source.Healthy() == nil {
		t.Fatal("the source is connected")
	}
	if got := toSource("POST", worksPath, body, "Content-Type", "application/json"); got.code != http.StatusCreated {
		t.Errorf("create: %d %s", got.code, got.body)
	}
	bus.Reconnect()
	eventually(toAgent, http.StatusOK, "[+]manifestworks ok")
	bus.Disconnect()
	for deadline := time.Now().Add(patience); agent.Healthy() == nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the agent is still connected")
		}
	}
	eventually(toAgent, http.StatusOK, "[+]manifestworks ok")
	if got := toAgent("GET", worksPath+"/a", ""); got.code != http.StatusOK {
		t.Errorf("get: %d %s", got.code, got.body)
	}
}
