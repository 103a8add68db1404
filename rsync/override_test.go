// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"bytes"
	"testing"
	"testing/synctest"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
)

// TestDiffOfOverride: a difference shows the change of an override on its cluster, and no other
// change. The update makes this change only.
func TestDiffOfOverride(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		build := func(id string) *appcontext.Builder {
			b := appcontext.NewBuilder(id)
			for _, cluster := range []string{"c1", "c2"} {
				b.App("web").Resource("edge", cluster, manifest("ConfigMap", "x", "1"))
			}
			return b
		}
		plain, overridden := build("a"), build("b")
		overridden.App("web").Override("edge", "c2", object("ConfigMap", "x"), func(manifest []byte) ([]byte, error) {
			return bytes.ReplaceAll(manifest, []byte("value: 1"), []byte("value: 7")), nil
		})
		for _, b := range []*appcontext.Builder{plain, overridden} {
			c, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			if err := s.engine.Create(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		s.done(s.engine.Instantiate(t.Context(), "a"))
		diff, err := s.engine.Diff(t.Context(), rsync.Update, "b", "a")
		if err != nil || diff.Err() != nil {
			t.Fatal(err, diff.Err())
		}
		if len(diff.Clusters) != 1 || diff.Clusters[0].Cluster.Name != "c2" || len(diff.Clusters[0].Changes) != 1 {
			t.Fatalf("the difference is %+v", diff.Clusters)
		}
		change := diff.Clusters[0].Changes[0]
		if change.Kind != connector.ChangeKindUpdate || len(change.Fields) != 1 || change.Fields[0].Path != ".value" {
			t.Errorf("the change is %s with the fields %+v", change.Kind, change.Fields)
		}
		s.done(s.engine.Update(t.Context(), "a", "b"))
		s.shows("c1", "x=1")
		s.shows("c2", "x=7")
	})
}
