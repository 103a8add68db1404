// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package ocm_test

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/boltstore"
	"github.com/spokewire/sdk-go/internal/e2e/aggregated"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

// aggregatedWorks are the works of a source that the hub serves as an aggregated API.
type aggregatedWorks struct {
	t      *testing.T
	server *aggregated.Server
	broker *mosquitto.Broker
	folder string // of the store
	stop   func()
}

// aggregate starts a source on a broker, and registers the API of its works.
func aggregate(t *testing.T, h *hub, broker *mosquitto.Broker) *aggregatedWorks {
	t.Helper()
	a := &aggregatedWorks{t: t, server: aggregated.New(t, h.Cluster), broker: broker, folder: t.TempDir()}
	if err := a.start().InventoryComplete(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.server.Register()
	return a
}

// start starts the source and the API server.
func (a *aggregatedWorks) start() *work.Source {
	a.t.Helper()
	transport, err := mqtt.New(mqtt.Options{BrokerURL: a.broker.URL()})
	if err != nil {
		a.t.Fatal(err)
	}
	store, err := boltstore.Open(filepath.Join(a.folder, "works.db"), boltstore.Options{})
	if err != nil {
		a.t.Fatal(err)
	}
	source, err := work.NewSource(transport, work.SourceOptions{SourceID: "hub", Store: store})
	if err != nil {
		a.t.Fatal(err)
	}
	stopSource := background(a.t, source.Start)
	stopServer := a.server.Start(source)
	a.stop = sync.OnceFunc(func() {
		stopServer() // requests need the source
		stopSource()
		if err := store.Close(); err != nil {
			a.t.Error(err)
		}
	})
	a.t.Cleanup(a.stop)
	return source
}

// restart replaces the source and the API server. The store stays.
func (a *aggregatedWorks) restart() {
	a.t.Helper()
	a.stop()
	a.start()
}
