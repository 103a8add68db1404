// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package manifestwork_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/internal/testing/agenttest"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/manifestwork"
)

// mortal is a clientset of a process that dies at a write: before the write, or after the write but
// before its answer. After that, every call fails.
type mortal struct {
	worktyped.ManifestWorksGetter

	writes int // number of writes so far
	at     int // the write at which it dies; 0 for never
	done   bool
	dead   bool
}

var errDied = errors.New("the process has died")

func (m *mortal) ManifestWorks(namespace string) worktyped.ManifestWorkInterface {
	return &mortalWorks{m.ManifestWorksGetter.ManifestWorks(namespace), m}
}

// write executes a write, or dies at it.
func (m *mortal) write(do func() error) error {
	if m.dead {
		return errDied
	}
	m.writes++
	if m.dead = m.writes == m.at; !m.dead {
		return do()
	}
	if m.done {
		_ = do() // the result is lost
	}
	return errDied
}

type mortalWorks struct {
	worktyped.ManifestWorkInterface
	life *mortal
}

func (w *mortalWorks) Create(
	ctx context.Context, in *workv1.ManifestWork, o metav1.CreateOptions,
) (out *workv1.ManifestWork, err error) {
	err = w.life.write(func() error { out, err = w.ManifestWorkInterface.Create(ctx, in, o); return err })
	return out, err
}

func (w *mortalWorks) Update(
	ctx context.Context, in *workv1.ManifestWork, o metav1.UpdateOptions,
) (out *workv1.ManifestWork, err error) {
	err = w.life.write(func() error { out, err = w.ManifestWorkInterface.Update(ctx, in, o); return err })
	return out, err
}

func (w *mortalWorks) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	return w.life.write(func() error { return w.ManifestWorkInterface.Delete(ctx, name, o) })
}

// life makes the calls of an engine. If the process dies in a call, a new process repeats the call.
// It returns the objects after each call, the actions of the agent, and the number of writes.
func life(t *testing.T, at int, done bool) (after []map[string]string, calls map[string]int, writes int) {
	t.Helper()
	s := newScene(t)
	cluster := agenttest.NewCluster()
	runAgent(t, s.bus.Transport(), cluster)
	process := &mortal{ManifestWorksGetter: s.source.WorkV1(), at: at, done: done}
	pairs := func(text string) (out [][2]string) {
		for field := range strings.FieldsSeq(text) {
			name, value, _ := strings.Cut(field, "=")
			out = append(out, [2]string{name, value})
		}
		return out
	}
	for _, call := range []struct{ app, apply, remove string }{
		{"front", "a=1 b=1 moved=1 gone=1", ""},
		{"back", "c=1", ""},
		{"front2", "b=2 new=2", ""},        // an object of an earlier work, and a new object
		{"back2", "moved=2 c=2 own=2", ""}, // in three works
		{"front", "", "gone"},
		{"front", "b=1 gone=1 moved=1 c=1", ""},
		{"front2", "", "new own"},
		{"front", "", "a b moved gone c"}, // empties two works, which are deleted
	} {
		verb := func(c connector.Connector) error {
			if call.apply != "" {
				return c.Apply(t.Context(), batch("v1", call.app, pairs(call.apply)...))
			}
			return c.Delete(t.Context(), batch("v1", call.app, pairs(call.remove)...))
		}
		connectors, err := manifestwork.New(process, manifestwork.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for { // each call with a connector without a cache
			c, err := connectors.Connector(t.Context(), cluster1.Provider, cluster1.Name)
			if err == nil {
				err = verb(c)
			}
			if err == nil {
				break
			}
			if !process.dead {
				t.Fatalf("%+v: %v", call, err)
			}
			process.dead, process.at = false, 0
		}
		after = append(after, s.settled(t, cluster))
	}
	if problems := cluster.Problems(); len(problems) > 0 {
		t.Errorf("works that no agent should get: %v", problems)
	}
	calls = map[string]int{}
	for _, c := range cluster.Calls() {
		calls[c]++
	}
	return after, calls, process.writes
}

// settled waits until the agent has applied all works, and returns them.
func (s *scene) settled(t *testing.T, cluster *agenttest.Cluster) (works map[string]string) {
	t.Helper()
	eventually(t, "the agent's part", func() string {
		works = s.held(t)
		var want, got []string
		for key, text := range works {
			if strings.HasSuffix(key, "(deleting)") {
				return key
			}
			want = append(want, strings.Fields(text)...)
		}
		for object, data := range cluster.Objects() {
			got = append(got, strings.TrimPrefix(object, "ConfigMap shop/")+"="+strings.NewReplacer(`{"key":"`, "", `"}`,
				"").Replace(data))
		}
		slices.Sort(want)
		slices.Sort(got)
		return cmp.Diff(want, got)
	})
	return works
}

// TestCrashes: a process dies at any write, before or after it is done, and a new process makes the
// same call again. The works then have the same objects, and no agent has done anything twice.
func TestCrashes(t *testing.T) {
	after, calls, writes := life(t, 0, false)
	if last := after[len(after)-1]; len(last) > 0 || writes < 12 {
		t.Fatalf("%d writes, and %v is left", writes, last)
	}
	for at := 1; at <= writes; at++ {
		for _, done := range []bool{false, true} {
			t.Run(fmt.Sprintf("write %d, done %t", at, done), func(t *testing.T) {
				gotAfter, gotCalls, _ := life(t, at, done)
				for i := range after {
					if !maps.Equal(after[i], gotAfter[i]) {
						t.Errorf("after call %d there is %v, want %v", i, gotAfter[i], after[i])
					}
				}
				if diff := cmp.Diff(calls, gotCalls); diff != "" {
					t.Errorf("what the agent did (-want +got):\n%s", diff)
				}
			})
		}
	}
}
