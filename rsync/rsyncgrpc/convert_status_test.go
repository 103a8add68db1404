// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc"
)

// TestObservations: a client gets the observations of an engine in Status and in Watch, including
// those from before the watch.
func TestObservations(t *testing.T) {
	s := newSceneWith(t, rsync.Options{Observe: rsync.ObserveDrift, ObserveInterval: time.Hour})
	addr, _ := serve(t, s.engine, rsyncgrpc.ServerOptions{})
	client := dial(t, addr, rsyncgrpc.ClientOptions{})
	ctx := limited(t)
	check(t, client.Create(ctx, shop(t, "a", "1", "c1")))
	must[*rsync.Status](t)(client.Wait(ctx, must[rsync.EventRef](t)(client.Instantiate(ctx, "a"))))
	object := appcontext.Object{Kind: "ConfigMap", Namespace: "default", Name: "settings"}
	ready := func(o *rsync.Observation) bool { return o.Objects == 1 && o.Ready == 1 && o.Compared && o.Drifted == 0 }
	observed := func(from int64, want func(*rsync.Observation) bool) rsync.Observation {
		t.Helper()
		for change, err := range client.Watch(ctx, "a", from) {
			check(t, err)
			if change.Observed != nil && want(change.Observed) {
				return *change.Observed
			}
		}
		t.Fatal("the watch ended")
		return rsync.Observation{}
	}
	observed(0, ready)
	before := must[*rsync.Status](t)(client.Status(ctx, "a"))
	s.clusters.Cluster("edge", "c1").SetObject(object, configMap("settings", "2"))
	drift := observed(before.Revision+1, func(o *rsync.Observation) bool { return o.Drifted == 1 })
	if len(drift.Drift) != 1 || drift.Drift[0].Kind != connector.ChangeKindUpdate || drift.Drift[0].Object != object ||
		len(drift.Drift[0].Fields) == 0 {
		t.Errorf("the drift is %+v", drift)
	}
	observed(0, func(o *rsync.Observation) bool { return o.Drifted == 1 })
	got := must[*rsync.Status](t)(client.Status(ctx, "a")).Observed
	want := must[*rsync.Status](t)(s.engine.Status(ctx, "a")).Observed
	if len(got) != 1 || !got[0].Time.Equal(want[0].Time) {
		t.Fatalf("observed are %+v, want %+v", got, want)
	}
	got[0].Time = want[0].Time
	if !reflect.DeepEqual(got, want) {
		t.Errorf("observed are %+v, want %+v", got, want)
	}
}
