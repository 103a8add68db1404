// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"maps"
	"slices"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
)

// TestRandomUpdatesConverge: random contexts have moves, renames and changes, and a random walk of
// updates leads through them. After each update the clusters have exactly the objects of the new
// context. No update deletes one of these objects.
func TestRandomUpdatesConverge(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(2, 4).Draw(rt, "contexts")
		texts := make([]string, n)
		wants := make([]map[string]string, n)
		for i := range texts {
			texts[i], wants[i] = drawText(rt)
		}
		walk := rapid.SliceOfN(rapid.IntRange(0, n-1), 1, 5).Draw(rt, "walk")
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, nil, rsync.Options{})
			for i, text := range texts {
				s.create(fmt.Sprint("id", i), text)
			}
			at := walk[0]
			s.done(s.engine.Instantiate(t.Context(), fmt.Sprint("id", at)))
			for _, next := range walk[1:] {
				if next == at {
					continue
				}
				for c := range 3 {
					s.clusters.Cluster("edge", fmt.Sprint("c", c)).Forget()
				}
				s.done(s.engine.Update(t.Context(), fmt.Sprint("id", at), fmt.Sprint("id", next)))
				at = next
				for c := range 3 {
					cluster := fmt.Sprint("c", c)
					if got := s.objects(cluster); got != wants[at][cluster] {
						t.Errorf("walk %v of %q: %s has %q, want %q", walk, texts, cluster, got, wants[at][cluster])
					}
					for _, call := range s.clusters.Cluster("edge", cluster).Calls() {
						if call.Verb == fake.VerbDelete && strings.Contains(" "+wants[at][cluster], " "+call.Object.Name+"=") {
							t.Errorf("%s was deleted on %s, which the update has", call.Object.Name, cluster)
						}
					}
				}
			}
		})
		if t.Failed() {
			rt.FailNow()
		}
	})
}

// drawText returns a random text of a context, and the objects of that context on each cluster.
func drawText(t *rapid.T) (string, map[string]string) {
	apps := map[string][]string{}
	want := map[string]string{}
	for c := range 3 {
		var list []string
		for _, name := range []string{"u", "v", "w", "x"} {
			if app := rapid.SampledFrom([]string{"", "a1", "a2", "a3"}).Draw(t, "app"); app != "" {
				object := fmt.Sprintf("%s=%d", name, rapid.IntRange(1, 2).Draw(t, "value"))
				key := fmt.Sprintf("%s@c%d", app, c)
				apps[key] = append(apps[key], object)
				list = append(list, object)
			}
		}
		slices.Sort(list)
		want[fmt.Sprint("c", c)] = strings.Join(list, " ")
	}
	text := ""
	for _, key := range slices.Sorted(maps.Keys(apps)) {
		text += key + " " + strings.Join(apps[key], " ") + "; "
	}
	return text, want
}
