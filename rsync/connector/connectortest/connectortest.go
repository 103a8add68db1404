// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package connectortest tests a driver against the contract of package connector.
package connectortest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
)

// patience limits the time until the effects of a call.
const patience = 30 * time.Second

// Cluster is a cluster for the test. It must not have the ConfigMaps that the test applies.
type Cluster struct {
	Connector connector.Connector
	ID        appcontext.ClusterID
	// Namespace exists on the cluster. Defaults to "default".
	Namespace string
	// Break makes the cluster unreachable, and Mend reverts it. If they are nil, the test skips
	// unreachable clusters.
	Break, Mend func()
	// Value returns the value of "key" in the data of a ConfigMap in Namespace. It must read from
	// the cluster, not from the connector. If it is nil, the test does not notice a connector that
	// never updates objects.
	Value func(ctx context.Context, name string) (string, error)
}

// Run tests a driver. Each test calls newCluster for its own cluster.
func Run(t *testing.T, newCluster func(t *testing.T) Cluster) {
	tests := map[string]func(*testing.T, *suite){
		"ApplyAndGet":     testApplyAndGet,
		"ApplyAgain":      testApplyAgain,
		"Delete":          testDelete,
		"DeleteWhatIsNot": testDeleteWhatIsNot,
		"Diff":            testDiff,
		"Unreachable":     testUnreachable,
		"ContextEnds":     testContextEnds,
		"Concurrent":      testConcurrent,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			if c.Namespace == "" {
				c.Namespace = "default"
			}
			test(t, &suite{c})
			if err := c.Connector.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
}

type suite struct{ Cluster }

func (s *suite) batch(value string, names ...string) connector.Batch {
	b := connector.Batch{AppContextID: "conformance", App: "app", Cluster: s.ID}
	for _, name := range names {
		manifest := fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\n  namespace: %s\ndata:\n  "+
			"key: %q\n", name, s.Namespace, value)
		b.Resources = append(b.Resources, appcontext.Resource{
			Object:   appcontext.Object{Kind: "ConfigMap", Namespace: s.Namespace, Name: name},
			Manifest: []byte(manifest),
		})
	}
	return b
}

// expect waits until each object exists, or does not exist, as in exist.
func (s *suite) expect(t *testing.T, b connector.Batch, exist ...bool) {
	t.Helper()
	var got []bool
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		states, err := s.Connector.Get(t.Context(), b)
		if err != nil {
			t.Fatalf("Get: %v", err)
		}
		got = nil
		for i, state := range states {
			if state.Object != b.Resources[i].Object {
				t.Errorf("the state at place %d is of %s, want %s", i, state.Object, b.Resources[i].Object)
			}
			got = append(got, state.Exists)
		}
		if cmp.Equal(got, exist) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("objects exist: %v, want %v", got, exist)
		}
	}
}

// expectValue waits until the objects have a value on the cluster.
func (s *suite) expectValue(t *testing.T, want string, names ...string) {
	t.Helper()
	if s.Value == nil {
		return
	}
	for _, name := range names {
		for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
			got, err := s.Value(t.Context(), name)
			if err == nil && got == want {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%s has the value %q on the cluster (%v), want %q", name, got, err, want)
			}
		}
	}
}

func testApplyAndGet(t *testing.T, s *suite) {
	s.expect(t, s.batch("1", "a", "b"), false, false)
	if err := s.Connector.Apply(t.Context(), s.batch("1", "a")); err != nil {
		t.Fatalf("Apply: %v", err)
	}
	s.expect(t, s.batch("1", "b", "a"), false, true)
	states, err := s.Connector.Get(t.Context(), s.batch("1", "a"))
	if err != nil || !states[0].Ready || states[0].Failed {
		t.Errorf("a ConfigMap that is there is not ready: %+v, %v", states, err)
	}
}

func testApplyAgain(t *testing.T, s *suite) {
	for _, value := range []string{"1", "1", "2"} {
		if err := s.Connector.Apply(t.Context(), s.batch(value, "a", "b")); err != nil {
			t.Fatalf("Apply of %s: %v", value, err)
		}
		s.expectValue(t, value, "a", "b")
	}
	s.expect(t, s.batch("2", "a", "b"), true, true)
	if err := s.Connector.Apply(t.Context(), s.batch("3", "b")); err != nil {
		t.Fatalf("Apply of one of two: %v", err)
	}
	s.expectValue(t, "3", "b")
	s.expectValue(t, "2", "a")
}

func testDelete(t *testing.T, s *suite) {
	if err := s.Connector.Apply(t.Context(), s.batch("1", "a", "b", "c")); err != nil {
		t.Fatalf("Apply: %v", err)
	}
	if err := s.Connector.Delete(t.Context(), s.batch("1", "c", "a")); err != nil {
		t.Fatalf("Delete: %v", err)
	}
	s.expect(t, s.batch("1", "a", "b", "c"), false, true, false)
}

func testDeleteWhatIsNot(t *testing.T, s *suite) {
	if err := s.Connector.Delete(t.Context(), s.batch("1", "a")); err != nil {
		t.Errorf("Delete of what was never there: %v", err)
	}
}

func testUnreachable(t *testing.T, s *suite) {
	if s.Break == nil {
		t.Skip("this cluster cannot be made unreachable")
	}
	if err := s.Connector.Probe(t.Context()); err != nil {
		t.Errorf("Probe: %v", err)
	}
	s.Break()
	for name, call := range s.calls() {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		if err := call(ctx); !errors.Is(err, connector.ErrUnreachable) {
			t.Errorf("%s on a cluster that is not reachable: %v, want connector.ErrUnreachable", name, err)
		}
		cancel()
	}
	s.Mend()
	if err := s.Connector.Apply(t.Context(), s.batch("1", "a")); err != nil {
		t.Errorf("Apply when the cluster is back: %v", err)
	}
}

// testDiff: a Differ returns the changes of Apply and Delete, and does not make them.
func testDiff(t *testing.T, s *suite) {
	differ, ok := s.Connector.(connector.Differ)
	if !ok {
		t.Skip("this connector cannot compare")
	}
	diff := func(value string, want ...connector.ChangeKind) []connector.Change {
		t.Helper()
		apply, remove := s.batch(value, "a", "b"), s.batch(value, "a", "b")
		changes, err := differ.Diff(t.Context(), connector.DiffBatch{
			AppContextID: apply.AppContextID, App: apply.App, Cluster: s.ID, Apply: apply.Resources,
			Delete: remove.Resources,
		})
		if err != nil {
			t.Fatalf("Diff: %v", err)
		}
		var kinds []connector.ChangeKind
		for i, c := range changes {
			if i < len(want) && c.Object != append(apply.Resources, remove.Resources...)[i].Object {
				t.Errorf("the change at place %d is of %s", i, c.Object)
			}
			kinds = append(kinds, c.Kind)
		}
		if d := cmp.Diff(want, kinds); d != "" {
			t.Errorf("Diff: %s", d)
		}
		return changes
	}
	diff("1", connector.ChangeKindCreate, connector.ChangeKindCreate, connector.ChangeKindNone,
		connector.ChangeKindNone)
	s.expect(t, s.batch("1", "a", "b"), false, false)
	if err := s.Connector.Apply(t.Context(), s.batch("1", "a")); err != nil {
		t.Fatalf("Apply: %v", err)
	}
	s.expect(t, s.batch("1", "a", "b"), true, false)
	diff("1", connector.ChangeKindNone, connector.ChangeKindCreate, connector.ChangeKindDelete,
		connector.ChangeKindNone)
	changes := diff("2", connector.ChangeKindUpdate, connector.ChangeKindCreate, connector.ChangeKindDelete,
		connector.ChangeKindNone)
	want := []connector.FieldChange{{Path: ".data.key", Before: `"1"`, After: `"2"`}}
	if d := cmp.Diff(want, changes[0].Fields); d != "" {
		t.Errorf("the fields: %s", d)
	}
	s.expect(t, s.batch("1", "a", "b"), true, false)
	s.expectValue(t, "1", "a")
}

// calls returns all calls of a connector, for one object.
func (s *suite) calls() map[string]func(context.Context) error {
	calls := map[string]func(context.Context) error{
		"Apply":  func(ctx context.Context) error { return s.Connector.Apply(ctx, s.batch("1", "a")) },
		"Delete": func(ctx context.Context) error { return s.Connector.Delete(ctx, s.batch("1", "a")) },
		"Get":    func(ctx context.Context) error { _, err := s.Connector.Get(ctx, s.batch("1", "a")); return err },
		"Probe":  s.Connector.Probe,
	}
	if differ, ok := s.Connector.(connector.Differ); ok {
		calls["Diff"] = func(ctx context.Context) error {
			_, err := differ.Diff(ctx, connector.DiffBatch{
				AppContextID: "conformance", App: "app", Cluster: s.ID, Apply: s.batch("1", "a").Resources,
			})
			return err
		}
	}
	return calls
}

// testContextEnds: a call with an ended context does nothing, and returns an error that is not
// terminal.
func testContextEnds(t *testing.T, s *suite) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for name, call := range s.calls() {
		for _, ctx := range []context.Context{cancelled, late} {
			if err := call(ctx); err == nil || errors.Is(err, connector.ErrTerminal) {
				t.Errorf("%s with a context that has ended (%v): %v, want an error that is not terminal", name,
					ctx.Err(), err)
			}
		}
	}
	s.expect(t, s.batch("1", "a"), false)
}

// persist repeats a call after retryable errors, as the engine does.
func (s *suite) persist(call func() error) error {
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		err := call()
		if err == nil || !errors.Is(connector.ClassOf(err), connector.ErrRetryable) || time.Now().After(end) {
			return err
		}
	}
}

// testConcurrent: several callers make calls at the same time, each for its own objects.
func testConcurrent(t *testing.T, s *suite) {
	const callers = 8
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			name := fmt.Sprint("c", i)
			for _, value := range []string{"1", "2"} {
				if err := s.persist(func() error {
					return s.Connector.Apply(t.Context(), s.batch(value, name, name+"-b"))
				}); err != nil {
					t.Errorf("Apply of %s: %v", name, err)
				}
			}
			if _, err := s.Connector.Get(t.Context(), s.batch("2", name)); err != nil {
				t.Errorf("Get of %s: %v", name, err)
			}
			if err := s.persist(func() error {
				return s.Connector.Delete(t.Context(), s.batch("2", name))
			}); err != nil {
				t.Errorf("Delete of %s: %v", name, err)
			}
		})
	}
	all.Wait()
	for i := range callers {
		name := fmt.Sprint("c", i)
		s.expect(t, s.batch("2", name, name+"-b"), false, true)
		s.expectValue(t, "2", name+"-b")
	}
}
