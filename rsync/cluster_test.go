// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

// TestFinalizers: a context is Terminated only after its objects are deleted, not when their
// deletion was requested.
func TestFinalizers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 x=1")
		c := s.clusters.Cluster("edge", "c1")
		c.SetFinalizer(true)
		s.done(s.engine.Instantiate(t.Context(), "a"))
		ref := s.ref(s.engine.Terminate(t.Context(), "a"))
		time.Sleep(time.Hour)
		s.state("a", rsync.Terminating)
		c.Finalize()
		s.done(ref, nil)
		s.state("a", rsync.Terminated)
	})
}

// TestConnectorFails: a connector that is not available is retried, like a cluster that refuses for
// now.
func TestConnectorFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clusters := fake.New()
		calls := 0
		engine, stop := startEngineWith(t, memstore.New(memstore.Options{}),
			connector.Func(func(ctx contextT, provider, name string) (connector.Connector, error) {
				if calls++; calls < 4 {
					return nil, errors.New("no credentials yet")
				}
				return clusters.Connector(ctx, provider, name)
			}), rsync.Options{})
		defer stop()
		if err := engine.Create(t.Context(), parse(t, "a", "web@c1 x=1")); err != nil {
			t.Fatal(err)
		}
		ref, err := engine.Instantiate(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := engine.Wait(t.Context(), ref); err != nil || calls != 4 {
			t.Errorf("after %d calls: %v", calls, err)
		}
	})
}
