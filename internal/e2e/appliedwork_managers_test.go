// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/appliedwork"
)

// TestAppliedWorkManagers: an AppliedWork has one field manager per object at a time, even after
// the manager is renamed, unless a partial object is applied.
func TestAppliedWorkManagers(t *testing.T) {
	t.Parallel()
	g := newGround(t, groundOptions{noController: true})
	g.create(namespaceOf("managers"))
	x := g.plain(nil)
	work := x.ensure(t, "managers")
	obj := func(data string) *unstructured.Unstructured {
		return parsed(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"managers","name":"c"},"data":{%s}}`,
			data)
	}
	key, err := appliedwork.Identify(obj(""))
	if err != nil {
		t.Fatal(err)
	}
	apply := func(data string, options appliedwork.ObjectOptions) (appliedwork.Change, error) {
		t.Helper()
		changes, err := x.applier.Apply(t.Context(), work, []*unstructured.Unstructured{obj(data)},
			appliedwork.ApplyOptions{ByKey: map[appliedwork.Key]appliedwork.ObjectOptions{key: options}})
		return changes.Entries[0], err
	}
	is := func(change appliedwork.Change, want map[string]any, managers ...string) {
		t.Helper()
		live, err := g.at(obj("")).Get(t.Context(), "c", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(live.Object, change.Live.Object); diff != "" {
			t.Errorf("what is left is another: %s", diff)
		}
		if diff := cmp.Diff(want, live.Object["data"]); diff != "" {
			t.Error(diff)
		}
		var ours []string
		for _, e := range live.GetManagedFields() {
			if name, ok := strings.CutSuffix(e.Manager, "-"+string(work.UID)); ok {
				ours = append(ours, name)
			}
		}
		if diff := cmp.Diff(managers, ours); diff != "" {
			t.Error(diff)
		}
	}
	for i, step := range []struct {
		data, manager string
		partial       bool
		want          map[string]any
		managers      []string
	}{
		{`"a":"1","b":"1"`, "one", false, map[string]any{"a": "1", "b": "1"}, []string{"one"}},
		{`"a":"1","b":"1"`, "one", false, map[string]any{"a": "1", "b": "1"}, []string{"one"}}, // nothing is written
		{`"a":"2"`, "two", false, map[string]any{"a": "2"}, []string{"two"}},
		{`"c":"3"`, "one", false, map[string]any{"c": "3"}, []string{"one"}},
		{`"d":"4"`, "part", true, map[string]any{"c": "3", "d": "4"}, []string{"one", "part"}},
		{`"c":"5"`, "one", false, map[string]any{"c": "5"}, []string{"one"}},
	} {
		// of the hash
		change, err := apply(step.data, appliedwork.ObjectOptions{FieldManager: step.manager, Partial: step.partial,
			Force: step.partial})
		if err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		is(change, step.want, step.managers...)
	}

	// A manifest that was made from the object is rejected if the object has changed since.
	change, err := apply(`"c":"5"`, appliedwork.ObjectOptions{FieldManager: "one"})
	if err != nil {
		t.Fatal(err)
	}
	read := change.Live.GetResourceVersion()
	if _, err = apply(`"c":"6"`, appliedwork.ObjectOptions{FieldManager: "two", ResourceVersion: read}); err != nil {
		t.Error(err)
	}
	if change, err = apply(`"c":"7"`, appliedwork.ObjectOptions{FieldManager: "two", ResourceVersion: read}); !errors.Is(
		err, appliedwork.ErrChanged) || change.Live != nil {
		t.Errorf("%+v, %v", change, err)
	}
	if err := g.at(obj("")).Delete(t.Context(), "c", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err = apply(`"c":"7"`, appliedwork.ObjectOptions{FieldManager: "two", ResourceVersion: read}); !errors.Is(err,
		appliedwork.ErrChanged) {
		t.Error(err)
	}
}
