// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package manifestwork_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/manifestwork"
)

// held returns the objects of each work in the form "a=1 b=2". The keys name the app that the work
// was created for.
func (s *scene) held(t *testing.T) map[string]string {
	t.Helper()
	list, err := s.source.WorkV1().ManifestWorks(cluster1.Name).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for i := range list.Items {
		w := &list.Items[i]
		var all []string
		for _, m := range w.Spec.Workload.Manifests {
			var o struct {
				Metadata struct{ Name string }
				Data     struct{ Key string }
			}
			if err := json.Unmarshal(m.Raw, &o); err != nil {
				t.Fatal(err)
			}
			all = append(all, o.Metadata.Name+"="+o.Data.Key)
		}
		key := w.Annotations[manifestwork.AnnotationAppContext] + "/" + w.Annotations[manifestwork.AnnotationApp]
		if w.DeletionTimestamp != nil {
			key += " (deleting)"
		}
		out[key] = strings.Join(all, " ")
	}
	return out
}

func (s *scene) expect(t *testing.T, step string, want ...string) {
	t.Helper()
	var got []string
	for key, text := range s.held(t) {
		got = append(got, key+": "+text)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("after %s there is %q, want %q", step, got, want)
	}
}

// report makes the agent report that it applied a work. edit may change the report, for example
// remove objects.
func (s *scene) report(t *testing.T, name string, edit func(status *workv1.ManifestWorkStatus)) {
	t.Helper()
	hub, err := s.source.WorkV1().ManifestWorks(cluster1.Name).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	agent := s.agent(t)
	eventually(t, "the work on the agent", func() string {
		w, err := agent.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || w.Generation != hub.Generation {
			return "not there yet"
		}
		if len(w.Finalizers) > 0 {
			return ""
		}
		w.Finalizers = []string{workv1.ManifestWorkFinalizer} // otherwise a deletion would not wait for the agent
		_, err = agent.Update(t.Context(), w, metav1.UpdateOptions{})
		return problem(err)
	})
	status := workv1.ManifestWorkStatus{Conditions: conditions(hub.Generation, metav1.ConditionTrue)}
	for i, m := range hub.Spec.Workload.Manifests {
		o, err := appcontext.ParseObject(m.Raw)
		if err != nil {
			t.Fatal(err)
		}
		status.ResourceStatus.Manifests = append(status.ResourceStatus.Manifests, workv1.ManifestCondition{
			ResourceMeta: workv1.ManifestResourceMeta{Ordinal: int32(i), Group: o.Group, Version: "v1", Kind: o.Kind,
				Namespace: o.Namespace, Name: o.Name},
			Conditions: conditions(hub.Generation, metav1.ConditionTrue),
		})
	}
	if edit != nil {
		edit(&status)
	}
	data, err := json.Marshal(map[string]any{"status": map[string]any{
		"conditions": status.Conditions, "resourceStatus": map[string]any{"manifests": status.ResourceStatus.Manifests},
	}})
	if err != nil {
		t.Fatal(err)
	}
	reported, err := agent.Patch(t.Context(), name, types.MergePatchType, data, metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
	want, err := json.Marshal(reported.Status)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the status on the hub", func() string {
		w, err := s.source.WorkV1().ManifestWorks(cluster1.Name).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if got, err := json.Marshal(w.Status); err != nil || string(got) != string(want) {
			return fmt.Sprintf("%s, %v", got, err)
		}
		return ""
	})
}

func conditions(generation int64, status metav1.ConditionStatus) []metav1.Condition {
	var out []metav1.Condition
	for _, kind := range []string{workv1.WorkApplied, workv1.WorkAvailable} {
		out = append(out, metav1.Condition{
			Type: kind, Status: status, Reason: "Reported", Message: kind + " says so", ObservedGeneration: generation,
			LastTransitionTime: metav1.Unix(1_700_000_000, 0),
		})
	}
	return out
}

// nameOf returns the name of an app's work with default options.
func nameOf(t *testing.T, s *scene, id, app string) string {
	t.Helper()
	connectors, err := manifestwork.New(s.source.WorkV1(), manifestwork.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return connectors.Name(id, app)
}

// TestObjectsStay: an object stays in its work, whatever context and app it is applied or deleted
// for.
func TestObjectsStay(t *testing.T) {
	s := newScene(t)
	c := open(t, s.source, manifestwork.Options{})
	do := func(step string, err error, want ...string) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", step, err)
		}
		s.expect(t, step, want...)
	}
	ctx := t.Context()
	do("an app's beginning", c.Apply(ctx, batch("v1", "x", [2]string{"a", "1"}, [2]string{"b", "1"})), "v1/x: a=1 b=1")
	do("its second phase", c.Apply(ctx, batch("v1", "x", [2]string{"hook", "1"})), "v1/x: a=1 b=1 hook=1")
	do("another app", c.Apply(ctx, batch("v1", "y", [2]string{"c", "1"})), "v1/x: a=1 b=1 hook=1", "v1/y: c=1")
	do("an update that changes, adds and moves",
		c.Apply(ctx, batch("v2", "y", [2]string{"b", "2"}, [2]string{"new", "2"})), "v1/x: a=1 b=2 hook=1", "v1/y: c=1",
		"v2/y: new=2")

	another := open(t, s.source, manifestwork.Options{}) // it has no cache yet
	do("the same by another process", another.Apply(ctx, batch("v2", "y", [2]string{"b", "2"}, [2]string{"new", "2"})),
		"v1/x: a=1 b=2 hook=1", "v1/y: c=1", "v2/y: new=2")
	do("a delete", another.Delete(ctx, batch("v1", "x", [2]string{"hook", ""}, [2]string{"a", ""})), "v1/x: b=2",
		"v1/y: c=1", "v2/y: new=2")
	do("a rollback", another.Apply(ctx, batch("v1", "x", [2]string{"a", "1"}, [2]string{"b", "1"})), "v1/x: b=1 a=1",
		"v1/y: c=1", "v2/y: new=2")
	do("the end of all in one batch",
		c.Delete(ctx, batch("v2", "y", [2]string{"new", ""}, [2]string{"b", ""}, [2]string{"c", ""}, [2]string{"a", ""})),
		"v1/x (deleting): b=1 a=1", "v1/y (deleting): c=1", "v2/y (deleting): new=2")
	err := c.Apply(ctx, batch("v3", "z", [2]string{"d", "3"}, [2]string{"a", "3"}))
	if !errors.Is(err, connector.ErrRetryable) || !strings.Contains(err.Error(), "shop/a") ||
		!strings.Contains(err.Error(), "is being deleted") {
		t.Errorf("an object of a work that is being deleted: %v", err)
	}
}

// TestNothingIsWrittenTwice: a call that changes nothing writes nothing, even if a manifest has
// another form. A large number with another last digit is a change.
func TestNothingIsWrittenTwice(t *testing.T) {
	s := newScene(t)
	c := open(t, s.source, manifestwork.Options{})
	version := func() string {
		t.Helper()
		w, err := s.source.WorkV1().ManifestWorks(cluster1.Name).Get(t.Context(), nameOf(t, s, "v1", "x"),
			metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return w.ResourceVersion
	}
	b := batch("v1", "x", [2]string{"a", "1"}, [2]string{"b", "1"})
	if err := c.Apply(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	before := version()
	b.Resources[0].Manifest = []byte(
		`{"metadata": {"namespace": "shop", "name": "a"}, "data": {"key": "1"}, "kind": "ConfigMap", "apiVersion": "v1"}`)
	if err := errors.Join(c.Apply(t.Context(), b),
		c.Delete(t.Context(), batch("v1", "x", [2]string{"never", ""}))); err != nil {
		t.Fatal(err)
	}
	if now := version(); now != before {
		t.Errorf("the version was %s and is %s", before, now)
	}
	b.Resources[0].Manifest = []byte(
		`{"metadata": {"namespace": "shop", "name": "a"}, "data": {"key": "1"}, "n": 9007199254740992, "kind": "ConfigMap", "apiVersion": "v1"}`)
	if err := c.Apply(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	before = version()
	b.Resources[0].Manifest = []byte(
		`{"metadata": {"namespace": "shop", "name": "a"}, "data": {"key": "1"}, "n": 9007199254740993, "kind": "ConfigMap", "apiVersion": "v1"}`)
	if err := c.Apply(t.Context(), b); err != nil || version() == before {
		t.Errorf("a large number that differs in its last digit is no change: %v", err)
	}
}

// TestWorksOfUnknownManagers: the connector ignores works of other managers, and does not change
// them.
func TestWorksOfUnknownManagers(t *testing.T) {
	s := newScene(t)
	works := s.source.WorkV1().ManifestWorks(cluster1.Name)
	theirs := open(t, s.source, manifestwork.Options{Manager: "theirs"})
	if err := theirs.Apply(t.Context(), batch("v1", "x", [2]string{"a", "theirs"})); err != nil {
		t.Fatal(err)
	}
	c := open(t, s.source, manifestwork.Options{})
	states, err := c.Get(t.Context(), batch("v1", "x", [2]string{"a", ""}))
	if err != nil || states[0].Exists {
		t.Errorf("%+v, %v", states, err)
	}
	if err := c.Delete(t.Context(), batch("v1", "x", [2]string{"a", ""})); err != nil {
		t.Fatal(err)
	}
	s.expect(t, "our delete", "v1/x: a=theirs")
	name := nameOf(t, s, "v1", "y")
	if _, err := works.Create(t.Context(), &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: name}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	err = c.Apply(t.Context(), batch("v1", "y", [2]string{"b", "1"}))
	if !errors.Is(err, connector.ErrTerminal) || !strings.Contains(err.Error(), name) ||
		!strings.Contains(err.Error(), "is not of manager") {
		t.Errorf("a work of our name that is not ours: %v", err)
	}
}

func TestNames(t *testing.T) {
	s := newScene(t)
	seen := map[string][2]string{}
	for _, pair := range [][2]string{
		{"v1", "web"}, {"v1w", "eb"}, {"v", "1web"}, {"v1", "WEB"}, {"v1", "web_"}, {"v1", "web."},
		{"v1", strings.Repeat("w", 253)}, {"v1", "@@@"},
	} {
		name := nameOf(t, s, pair[0], pair[1])
		if other, ok := seen[name]; ok {
			t.Errorf("%q and %q have the same name", pair, other)
		}
		seen[name] = pair
		if len(name) > 63 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" ||
			strings.HasPrefix(name, "-") || strings.HasSuffix(name, "-") {
			t.Errorf("%q has the name %q", pair, name)
		}
		if name != nameOf(t, s, pair[0], pair[1]) {
			t.Errorf("%q has several names", pair)
		}
	}
}
