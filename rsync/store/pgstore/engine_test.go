// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package pgstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/internal/testing/background"
	"github.com/spokewire/sdk-go/internal/testing/postgres"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/store/pgstore"
)

// TestEngineReportsCause: while the server is read-only, or ends all connections, Healthy of an
// engine fails and names the cause. Later the engine continues.
func TestEngineReportsCause(t *testing.T) {
	server := postgres.Start(t, postgres.Options{})
	s := open(t, pgstore.Options{ConnString: server.Database(t), Timeout: 2 * time.Second})
	engine, err := rsync.New(s, fake.New(), rsync.Options{LeaseTTL: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	background.Run(t, engine.Start)
	healthy := func() bool { return engine.Healthy() == nil }
	eventually(t, "the engine to be healthy", healthy)
	for _, fault := range []struct {
		begin, end func()
		want       string
	}{
		{
			func() { server.Restart("default_transaction_read_only = on") },
			func() { server.Restart("default_transaction_read_only = off") }, "the server is read-only",
		},
		{server.Kill, func() { server.Restart() }, "the server is unreachable"},
	} {
		fault.begin()
		var got string
		eventually(t, "Healthy to report: "+fault.want, func() bool {
			if err := engine.Healthy(); err != nil {
				got = err.Error()
			}
			return strings.Contains(got, fault.want)
		})
		if strings.Contains(got, server.Password()) {
			t.Errorf("the error has the password: %s", got)
		}
		fault.end()
		eventually(t, "the engine to be healthy again", healthy)
	}
}
