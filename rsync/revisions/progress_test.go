// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package revisions_test

import (
	"errors"
	"testing"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/revisions"
)

// TestProgress checks the progress of a rollout that waits for one of its clusters, and of the
// revision that it replaces.
func TestProgress(t *testing.T) {
	f := newFixture(t)
	f.start()
	f.Set("shop", f.target("a=1", "c1", "c2"))
	f.settle()
	on := func(name string) appcontext.ClusterID { return appcontext.ClusterID{Provider: "hub", Name: name} }
	progress := func(revision int) revisions.Progress {
		t.Helper()
		p, err := f.Progress(t.Context(), "shop", revision)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if p := progress(1); p.InProgress || p.LastRollout != nil || p.Clusters[on("c2")].Ended != 1 {
		t.Errorf("%+v after the instantiation", p)
	}
	if p, err := f.InProgress(t.Context(), "shop"); err != nil || p.InProgress {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := f.Progress(t.Context(), "shop", 2); !errors.Is(err, rsync.ErrNotFound) {
		t.Errorf("%v for a missing revision", err)
	}

	c2 := f.clusters.Cluster("hub", "c2")
	c2.SetMode(fake.ModeUnreachable)
	target := f.target("a=2", "c1", "c2")
	target.Rollout = &rsync.Rollout{}
	f.Set("shop", target)
	f.until("c1 is done, and c2 is not", func() bool {
		p, err := f.InProgress(t.Context(), "shop")
		first, second := p.Clusters[on("c1")], p.Clusters[on("c2")]
		return err == nil && p.InProgress && p.Rollout && first.Ended == 1 && first.Message == "" &&
			second.Begun && second.Ended == 0 && !second.Failed && second.Message != ""
	})
	c2.SetMode(fake.ModeWorks)
	f.settle()
	p := progress(2)
	if p.InProgress || p.LastRollout == nil || p.Clusters[on("c2")] != (revisions.ClusterProgress{Ended: 1}) {
		t.Errorf("%+v after the rollout", p)
	}
	status, err := f.Engine().RolloutStatus(t.Context(), *p.LastRollout)
	if err != nil || status.Status != rsync.Done {
		t.Errorf("%+v, %v", status, err)
	}
}
