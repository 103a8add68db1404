// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
)

// TestDiffText: the text of a difference has a line for each object and each field, in a fixed
// order.
func TestDiffText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{CallTimeout: 5 * time.Second})
		s.create("v1", "web@c1 same=1 changed=1 gone=1; web@c2 x=1; db@c2 y=1 pre-delete!bye=1")
		s.create("v2", "web@c1 same=1 changed=2 new=1; web@c2 x=2; web@c3 z=1; web@c4 z=1")
		s.create("guest", "other@c1 gone=2")
		s.done(s.engine.Instantiate(t.Context(), "v1"))
		s.done(s.engine.Instantiate(t.Context(), "guest"))
		s.clusters.Cluster("edge", "c3").SetMode(fake.ModeBlackHole)
		s.clusters.Cluster("edge", "c4").SetMode(fake.ModeRefusing)
		before := s.objects("c1") + s.objects("c2")
		diff, err := s.engine.Diff(t.Context(), rsync.Update, "v2", "v1")
		if err != nil {
			t.Fatal(err)
		}
		want := `Update of v2 from v1: 2 to create, 2 to change, 0 to replace, 1 to delete, 1 unchanged; unknown for 2 apps on clusters
edge+c1
  web of v1
    = ConfigMap default/gone: left for app other of app context guest
  web of v2
    ~ ConfigMap default/changed
        .value: 1 -> 2
    + ConfigMap default/new
edge+c2
  db of v1
    - ConfigMap default/y
    + Job default/bye: the hook is deleted when it is done
  web of v2
    ~ ConfigMap default/x
        .value: 1 -> 2
edge+c3
  web of v2
    ? Unreachable: the cluster does not answer: no answer within 5s
edge+c4
  web of v2
    ? Refused: the cluster refused: the fake cluster is in this mode
`
		if got := diff.String(); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		if err := diff.Err(); !errors.Is(err, rsync.ErrUnreachable) || !errors.Is(err, rsync.ErrFailed) ||
			!strings.Contains(err.Error(), "web on edge+c3") {
			t.Errorf("Err: %v", err)
		}
		if after := s.objects("c1") + s.objects("c2"); after != before {
			t.Errorf("the clusters have %s, before %s", after, before)
		}
		s.state("v2", rsync.Created)
	})
}
