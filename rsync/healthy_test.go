// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
	"github.com/spokewire/sdk-go/rsync/store/storetest"
)

// TestHealthy: Healthy returns nil only while the engine has its lease.
func TestHealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		view := storetest.NewFaults(memstore.New(memstore.Options{}), nil)
		view.Hold()
		engine, stop := startEngine(t, view, fake.New(), rsync.Options{})
		defer stop()
		synctest.Wait()
		select {
		case <-engine.Ready():
			t.Error("it is ready while the store does not answer")
		default:
		}
		if engine.Healthy() == nil {
			t.Error("it is healthy while the store does not answer")
		}
		view.Release()
		<-engine.Ready()
		if err := engine.Healthy(); err != nil {
			t.Error(err)
		}
		view.Hold()
		time.Sleep(11 * time.Second)
		if engine.Healthy() == nil {
			t.Error("it is healthy after the end of its lease")
		}
		view.Release()
		time.Sleep(time.Minute)
		if err := engine.Healthy(); err != nil {
			t.Error(err)
		}
		stop()
		if engine.Healthy() == nil {
			t.Error("it is healthy after its end")
		}
	})
}

// TestHangingCallIsExplained: a failed probe ends a call. The status then has the message of the
// probe.
func TestHangingCallIsExplained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 x=1")
		s.clusters.Cluster("edge", "c1").SetMode(fake.ModeBlackHole)
		ref := s.ref(s.engine.Instantiate(t.Context(), "a"))
		time.Sleep(20 * time.Second)
		status, err := s.engine.Status(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		got := status.Cluster("web", appcontext.ClusterID{Provider: "edge", Name: "c1"})
		if got == nil || got.Reason != rsync.ReasonUnreachable || got.Message != "the cluster does not answer: probe: no answer within 10s" {
			t.Errorf("it shows %+v", got)
		}
		s.clusters.Cluster("edge", "c1").SetMode(fake.ModeUnreachable) // with another message
		time.Sleep(10 * time.Second)
		if status, err = s.engine.Status(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if got := status.Clusters[0]; got.Reason != rsync.ReasonUnreachable || got.Message != "the cluster does not answer: the fake cluster is told to" {
			t.Errorf("then it shows %+v", got)
		}
		s.clusters.Cluster("edge", "c1").SetMode(fake.ModeWorks)
		s.done(ref, nil)
	})
}
