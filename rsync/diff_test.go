// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"bytes"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

// TestDiffOfSeveralReplacedContexts: an object of two replaced contexts gets the manifest of the
// context that holds it, if the manifest of one of the two differs.
func TestDiffOfSeveralReplacedContexts(t *testing.T) {
	for _, values := range [][]string{{"1", "2"}, {"2", "1"}} {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, nil, rsync.Options{})
			s.create("guest", "other@c1 u=1")
			s.create("v1", "web@c1 u="+values[0])
			s.create("v2", "web@c1 u="+values[1])
			s.create("v3", "web@c1 x=1")
			s.done(s.engine.Instantiate(t.Context(), "guest"))
			s.done(s.engine.Instantiate(t.Context(), "v1"))
			failing(s.clusters.Cluster("edge", "c1"), fake.VerbApply)
			s.fails(rsync.ReasonRefused, s.ref(s.engine.Update(t.Context(), "v1", "v2")), nil)
			s.clusters.Cluster("edge", "c1").Intercept(nil)
			s.clusters.Cluster("edge", "c1").SetObject(
				appcontext.Object{Kind: "ConfigMap", Namespace: "default", Name: "u"}, manifest("ConfigMap", "u", "2"))
			diff, err := s.engine.Diff(t.Context(), rsync.Update, "v3", "v2")
			if want := "~ ConfigMap default/u: left for app other of app context guest"; err != nil ||
				!strings.Contains(diff.String(), want) {
				t.Errorf("%s, %v, want %q", diff, err, want)
			}
			s.done(s.engine.Update(t.Context(), "v2", "v3"))
			s.shows("c1", "u=1 x=1")
		})
	}
}

// TestDiffErrors: a difference that cannot be computed is an error with the reason.
func TestDiffErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("v1", "web@c1 x=1")
		s.create("v2", "web@c1 x=2")
		for _, tt := range []struct {
			event    rsync.EventType
			id, from string
			want     error
		}{
			{rsync.Read, "v1", "", rsync.ErrInvalidInput},
			{rsync.UpdateDelete, "v1", "v2", rsync.ErrInvalidInput},
			{rsync.Instantiate, "v1", "v2", rsync.ErrInvalidInput},
			{rsync.Update, "v1", "", rsync.ErrInvalidInput},
			{rsync.Update, "v1", "v1", rsync.ErrInvalidInput},
			{rsync.Instantiate, "v3", "", rsync.ErrNotFound},
			{rsync.Update, "v2", "v3", rsync.ErrNotFound},
			{rsync.Update, "v2", "v1", rsync.ErrInvalidState},
			{rsync.Terminate, "v1", "", rsync.ErrInvalidState},
		} {
			if _, err := s.engine.Diff(t.Context(), tt.event, tt.id, tt.from); !errors.Is(err, tt.want) {
				t.Errorf("%s of %s from %q: %v, want %v", tt.event, tt.id, tt.from, err, tt.want)
			}
		}
	})
}

// TestDiffKeepsSharedNamespaces: a Namespace stays if the new context of the update, or another
// context, has objects in it.
func TestDiffKeepsSharedNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		namespace := []byte("{apiVersion: v1, kind: Namespace, metadata: {name: default}}")
		for id, inside := range map[string]bool{"v1": true, "v2": true, "v3": false} {
			b := appcontext.NewBuilder(id)
			app := b.App("web").Cluster("edge", "c1").Resource("edge", "c1",
				[]byte("{apiVersion: v1, kind: Node, metadata: {name: one}}"))
			if id == "v1" {
				app.Resource("edge", "c1", namespace)
			}
			if inside {
				app.Resource("edge", "c1", manifest("ConfigMap", "x", "1"))
			}
			c, err := b.Build()
			if err == nil {
				err = s.engine.Create(t.Context(), c)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		s.done(s.engine.Instantiate(t.Context(), "v1"))
		for to, want := range map[string]string{"v2": "= Namespace default: left for app web of app context v2",
			"v3": "- Namespace default\n"} {
			diff, err := s.engine.Diff(t.Context(), rsync.Update, to, "v1")
			if err != nil || !strings.Contains(diff.String(), want) {
				t.Errorf("to %s: %s, %v, want %q", to, diff, err, want)
			}
		}
		s.done(s.engine.Update(t.Context(), "v1", "v2"))
		time.Sleep(time.Minute)
		if _, there := s.clusters.Cluster("edge",
			"c1").Objects()[appcontext.Object{Kind: "Namespace", Name: "default"}]; !there {
			t.Error("the update deleted the Namespace")
		}
	})
}

// TestDiffOfReplacedContexts: an update also replaces the contexts that failed updates have left.
// Objects that only these contexts hold are deleted once. All objects of the new context are
// applied.
func TestDiffOfReplacedContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("v1", "web@c1 old=1 same=1")
		s.create("v2", "web@c1 old=1 same=1 other=1")
		s.create("v3", "web@c1 same=1")
		c1 := s.clusters.Cluster("edge", "c1")
		s.done(s.engine.Instantiate(t.Context(), "v1"))
		c1.SetMode(fake.ModeRefusing)
		s.fails(rsync.ReasonRefused, s.ref(s.engine.Update(t.Context(), "v1", "v2")), nil)
		c1.SetMode(fake.ModeWorks)
		diff, err := s.engine.Diff(t.Context(), rsync.Update, "v3", "v2")
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, c := range diff.Clusters {
			for _, change := range c.Changes {
				got += fmt.Sprintf("%s %s of %s; ", change.Kind, change.Name, c.AppContextID)
			}
		}
		if want := "Delete old of v2; None other of v2; None same of v3; "; got != want {
			t.Errorf("got  %s\nwant %s\n%s", got, want, diff)
		}
		s.done(s.engine.Update(t.Context(), "v2", "v3"))
		time.Sleep(time.Hour) // until the UpdateDeletes have ended
		s.shows("c1", "same=1")
	})
}

// odd is a connector with a replaced Diff.
type odd struct {
	connector.Connector

	diff func(batch connector.DiffBatch) ([]connector.Change, error)
}

func (o odd) Diff(_ context.Context, batch connector.DiffBatch) ([]connector.Change, error) {
	return o.diff(batch)
}

// TestDiffOfFaultyConnectors: Diff reports a connector that cannot compare, fails, panics, or
// returns other objects. Large answers are truncated.
func TestDiffOfFaultyConnectors(t *testing.T) {
	clusters := fake.New()
	large := strings.Repeat("x", 1<<20)
	many := func(batch connector.DiffBatch) (out []connector.Change, _ error) {
		for _, r := range batch.Apply {
			c := connector.Change{Object: r.Object, Kind: connector.ChangeKindUpdate}
			for range 40 {
				c.Fields = append(c.Fields, connector.FieldChange{Path: ".a", After: large})
			}
			out = append(out, c)
		}
		return out, nil
	}
	all := connector.Func(func(ctx context.Context, provider, name string) (connector.Connector, error) {
		conn, err := clusters.Connector(ctx, provider, name)
		switch name {
		case "plain":
			return struct{ connector.Connector }{conn}, err
		case "panics":
			return odd{conn, func(connector.DiffBatch) ([]connector.Change, error) { panic("s3cr3t") }}, err
		case "short":
			return odd{conn, func(connector.DiffBatch) ([]connector.Change, error) { return nil, nil }}, err
		case "fails":
			return nil, errors.Join(conn.Close(), errors.New("no way there"))
		}
		return odd{conn, many}, err
	})
	engine, err := rsync.New(memstore.New(memstore.Options{}), all, rsync.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := engine.Create(t.Context(),
		parse(t, "v1", "a@plain x=1; a@panics x=1; a@short x=1; a@fails x=1; a@large x=1")); err != nil {
		t.Fatal(err)
	}
	diff, err := engine.Diff(t.Context(), rsync.Instantiate, "v1", "")
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, c := range diff.Clusters {
		got += fmt.Sprintf("%s: %s %s; ", c.Cluster.Name, c.Reason, c.Message)
		for _, change := range c.Changes {
			got += fmt.Sprintf("%d fields, %d omitted; ", len(change.Fields), change.FieldsOmitted)
		}
	}
	want := "fails: RefusedForNow no way there; large:  ; 6 fields, 34 omitted; " +
		"panics: Refused the cluster refused: its connector panicked with a string; " +
		"plain: Refused the cluster refused: its connector cannot compare: it does not implement connector.Differ; " +
		"short: Refused the cluster refused: its connector returned other changes (0) than those of the 1 objects; "
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if n := clusters.Open(); n != 0 {
		t.Errorf("%d connectors are open", n)
	}
}

// TestDiffOfHeldHooks: the delete policies of a hook neither replace nor delete an object that
// another context holds. The difference and the event agree.
func TestDiffOfHeldHooks(t *testing.T) {
	const left = "    = Job default/p: left for app other of app context guest\n"
	for text, want := range map[string]string{
		"pre-install+before-hook-creation!p=2":                "    ~ Job default/p\n        .value: 1 -> 2\n",
		"pre-install+hook-succeeded!p=2":                      left,
		"pre-install+before-hook-creation+hook-succeeded!p=2": left,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, nil, rsync.Options{})
			s.create("guest", "other@c1 pre-install!p=1")
			s.create("a", "web@c1 x=1 "+text)
			s.done(s.engine.Instantiate(t.Context(), "guest"))
			diff, err := s.engine.Diff(t.Context(), rsync.Instantiate, "a", "")
			if err != nil || !strings.Contains(diff.String(), want) {
				t.Errorf("%s: %v\n%s\nwant %s", text, err, diff, want)
			}
			before := s.allObjects()
			s.done(s.engine.Instantiate(t.Context(), "a"))
			predicted, got := predict(t, before, diff), s.allObjects()
			p := appcontext.Identity{Cluster: appcontext.ClusterID{Provider: "edge", Name: "c1"}, Object: object("Job", "p")}
			if got[p] != predicted[p] {
				t.Errorf("%s: p is %q, the difference has %q", text, got[p], predicted[p])
			}
		})
	}
}

// TestDiffPredictsEvents: random events run on contexts with common objects, and some events fail.
// Before each event, Diff predicts the result on each cluster, or that the event cannot begin.
func TestDiffPredictsEvents(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(2, 4).Draw(rt, "contexts")
		texts := make([]string, n)
		for i := range texts {
			text, _ := drawText(rt)
			texts[i] = drawPolicies(rt, text)
		}
		steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
			return step{
				What: rapid.SampledFrom([]string{"instantiate", "terminate", "update", "update", "update"}).Draw(t, "what"),
				ID:   rapid.IntRange(0, n-1).Draw(t, "id"), Next: rapid.IntRange(0, n-1).Draw(t, "next"),
				Cluster: rapid.IntRange(0, 5).Draw(t, "cluster"), // the cluster that refuses; above 2: no cluster
			}
		}), 3, 15).Draw(rt, "steps")
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, nil, rsync.Options{})
			for i, text := range texts {
				s.create(fmt.Sprint("id", i), text)
			}
			for _, step := range steps {
				s.foretold(step)
			}
			if t.Failed() {
				t.Logf("contexts %q, steps %+v", texts, steps)
			}
		})
		if t.Failed() {
			rt.FailNow()
		}
	})
}

// drawPolicies adds hooks with delete policies to the apps of a text.
func drawPolicies(t *rapid.T, text string) string {
	out := ""
	for part := range strings.SplitSeq(strings.TrimSuffix(text, "; "), "; ") {
		hook := rapid.SampledFrom([]string{
			"", "", "pre-install", "post-install+hook-succeeded", "post-install+before-hook-creation",
			"pre-install+before-hook-creation+hook-succeeded", "pre-delete", "post-delete+hook-succeeded",
		}).Draw(t, "hook")
		if app, _, _ := strings.Cut(part, "@"); hook != "" && app != "" {
			part += fmt.Sprintf(" %s!hook-of-%s=%d", hook, app, rapid.IntRange(1, 2).Draw(t, "value"))
		}
		out += part + "; "
	}
	return out
}

// foretold runs a step, and compares its result with the prediction of Diff.
func (s *scene) foretold(next step) {
	id, from := fmt.Sprint("id", next.Next), ""
	var event rsync.EventType
	switch next.What {
	case "instantiate":
		event = rsync.Instantiate
	case "terminate":
		event = rsync.Terminate
	case "update":
		if event, from = rsync.Update, fmt.Sprint("id", next.ID); from == id {
			return
		}
	}
	diff, err := s.engine.Diff(s.t.Context(), event, id, from)
	if err != nil && !errors.Is(err, rsync.ErrInvalidState) {
		s.t.Fatal(err)
	}
	before := s.allObjects()
	refuses := s.clusters.Cluster("edge", fmt.Sprint("c", next.Cluster))
	refuses.SetMode(fake.ModeRefusing)
	defer refuses.SetMode(fake.ModeWorks)
	var ref rsync.EventRef
	var queued error
	switch event {
	case rsync.Instantiate:
		ref, queued = s.engine.Instantiate(s.t.Context(), id)
	case rsync.Terminate:
		ref, queued = s.engine.Terminate(s.t.Context(), id)
	default:
		ref, queued = s.engine.Update(s.t.Context(), from, id)
	}
	_, failure := s.wait(ref, queued)
	time.Sleep(time.Hour) // until the follow-up events have ended too
	var ended *rsync.EventError
	if invalid := errors.As(failure, &ended) && ended.Reason == rsync.ReasonInvalidState; invalid != (err != nil) {
		s.t.Errorf("%s of %s from %q: Diff: %v, the event: %v", event, id, from, err, failure)
	}
	if failure != nil || diff == nil || next.Cluster < 3 {
		return // a cluster refused
	}
	if err := diff.Err(); err != nil {
		s.t.Error(err)
	}
	got, want := s.allObjects(), predict(s.t, before, diff)
	for at, value := range want {
		if _, there := got[at]; there && value == "?" {
			want[at] = got[at]
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		s.t.Errorf("%s of %s from %q\nbefore %v\nafter  %v\nwant   %v\n%s", event, id, from, before, got, want, diff)
	}
}

func (s *scene) allObjects() map[appcontext.Identity]string {
	out := map[appcontext.Identity]string{}
	for c := range 3 {
		cluster := appcontext.ClusterID{Provider: "edge", Name: fmt.Sprint("c", c)}
		for o, text := range s.clusters.Cluster(cluster.Provider, cluster.Name).Objects() {
			_, value, _ := strings.Cut(text, "value: ")
			out[appcontext.Identity{Cluster: cluster, Object: o}] = strings.TrimSpace(value)
		}
	}
	return out
}

// predict returns the objects on the clusters after a difference, if values have one field.
func predict(t *testing.T, before map[appcontext.Identity]string, diff *rsync.Diff) map[appcontext.Identity]string {
	t.Helper()
	out := map[appcontext.Identity]string{}
	for at, value := range before {
		out[at] = value
	}
	hooks := map[appcontext.Identity]bool{} // all changed objects; true for hooks that are deleted in the end
	for _, c := range diff.Clusters {
		for _, change := range c.Changes {
			at := appcontext.Identity{Cluster: c.Cluster, Object: change.Object}
			deleted := strings.Contains(change.Message, "the hook is deleted when it is done")
			if before, again := hooks[at]; again && !before && !deleted { // each replaced context may run a hook
				t.Errorf("%s is there twice:\n%s", at, diff)
			}
			hooks[at] = hooks[at] || deleted
			_, exists := before[at]
			switch change.Kind {
			case connector.ChangeKindCreate:
				if exists {
					t.Errorf("%s exists", at)
				}
				out[at] = "?"
			case connector.ChangeKindUpdate:
				if f := change.Fields; !exists || len(f) != 1 || f[0].Path != ".value" || f[0].Before != before[at] {
					t.Errorf("%s has %q: %+v", at, before[at], change)
				}
				out[at] = change.Fields[0].After
			case connector.ChangeKindReplace:
				if !exists {
					t.Errorf("%s does not exist", at)
				}
				out[at] = "?"
			case connector.ChangeKindDelete:
				if !exists {
					t.Errorf("%s does not exist", at)
				}
				delete(out, at)
			}
			if deleted {
				delete(out, at)
			}
		}
	}
	return out
}

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
