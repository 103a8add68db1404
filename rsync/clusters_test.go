// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// processor returns the processor time that the process has used.
func processor(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestEventsAreLinearInClusters: each step in the life of a context takes processor time in
// proportion to its clusters. An app waits for another app, on the same clusters or on other
// clusters.
func TestEventsAreLinearInClusters(t *testing.T) {
	const factor = 10
	small := 400
	if testing.Short() || raceEnabled {
		small = 50
	}
	for name, shift := range map[string]int{"on the same clusters": 0, "on other clusters": 1} {
		t.Run(name, func(t *testing.T) {
			life := func(clusters int) map[string]time.Duration {
				s := newScene(t, nil, rsync.Options{ConnectorIdle: time.Millisecond})
				defer s.stop()
				took := map[string]time.Duration{}
				last := processor(t)
				lap := func(what string) {
					now := processor(t)
					took[what], last = now-last, now
				}
				b := appcontext.NewBuilder("a")
				b.App("web").DependsOn("db", appcontext.OpStatusReady, 0)
				for i := range clusters {
					b.App("db").Resource("edge", fmt.Sprint("c", i), manifest("ConfigMap", "db", "1"))
					b.App("web").Resource("edge", fmt.Sprint("c", i+shift*clusters), manifest("ConfigMap", "web", "1"))
				}
				c, err := b.Build()
				if err != nil {
					t.Fatal(err)
				}
				lap("build")
				if err := s.engine.Create(t.Context(), c); err != nil {
					t.Fatal(err)
				}
				lap("create")
				s.done(s.engine.Instantiate(t.Context(), "a"))
				lap("instantiate")
				s.create("b", "db@c0 db=1")
				last = processor(t)
				s.done(s.engine.Update(t.Context(), "a", "b"))
				lap("update")
				s.done(s.engine.Instantiate(t.Context(), "a"))
				last = processor(t)
				s.done(s.engine.Terminate(t.Context(), "a"))
				lap("terminate")
				if err := s.engine.Delete(t.Context(), "a"); err != nil {
					t.Fatal(err)
				}
				lap("delete")
				return took
			}
			life(small) // work that is done once in a process
			few, many := life(small), life(factor*small)
			for what, d := range many {
				t.Logf("%s: %s with %d clusters, %s with %d", what, few[what], small, d, factor*small)
				if d > 3*factor*few[what] && d > 2*time.Second {
					t.Errorf("%s takes %s with %d clusters, and %s with %d", what, few[what], small, d, factor*small)
				}
			}
		})
	}
}
