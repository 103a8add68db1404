// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spokewire/sdk-go/examples/hub/internal/status"
)

// links returns the connections of the hub.
func (p *parts) links(ctx context.Context, o options) []status.Link {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	name, address, store := "broker", addressOf(o.Broker.BrokerURL), "store"
	if o.GRPC != "" {
		name, address = "gRPC port", o.GRPC
	}
	if o.shared() {
		store = "database"
	}
	if err := p.outage.Load(); err != nil { // the other parts are stopped because of it
		return []status.Link{status.NewLink(store, addressOf(o.Store), *err)}
	}
	out := []status.Link{
		status.NewLink(name, address, p.clusters.Link()), status.NewLink(store, addressOf(o.Store), p.healthy(ctx)),
	}
	if p.server != nil {
		out = append(out, status.NewLink("API server", p.server.Host, p.server.Away()))
	}
	if p.election != nil && !p.leads.Load() {
		out = append(out, status.NewLink("leader", "", p.election.Follows()))
	}
	return out
}

// addressOf returns the store or the broker without a password.
func addressOf(raw string) string {
	if u, err := url.Parse(raw); err == nil {
		return u.Redacted()
	}
	return raw // a folder: URLs were parsed before
}

// readyz reports whether the page can be served. A replica is ready once it leads, or mirrors the works
// and reaches the leader. It stays ready during outages, because the page shows them.
func (p *parts) readyz(*http.Request) error {
	if p.election == nil || p.ready.Load() {
		return nil
	}
	serves := p.rollouts.Engine().Healthy
	if !p.leads.Load() {
		serves = p.election.Follows
	}
	err := serves()
	p.ready.Store(err == nil)
	return err
}

// isView reports whether a request reads the page or the status, which replicas without a leader
// answer too.
func isView(r *http.Request) bool {
	return r.Method == http.MethodGet && (!strings.HasPrefix(r.URL.Path, "/api/") || r.URL.Path == "/api/v1/status")
}
