// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package manifestwork_test

import (
	"fmt"
	"strings"
	"testing"

	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/manifestwork"
)

// TestDiff: Apply and Delete then make the changes that Diff returned, whichever works have the
// objects. Diff changes nothing.
func TestDiff(t *testing.T) {
	s := newScene(t)
	c := open(t, s.source, manifestwork.Options{})
	for _, b := range []connector.Batch{
		batch("v1", "web", [2]string{"same", "1"}, [2]string{"changed", "1"}, [2]string{"gone", "1"}),
		batch("other", "db", [2]string{"theirs", "1"}),
	} {
		if err := c.Apply(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	next := batch("v2", "web", [2]string{"same", "1"}, [2]string{"changed", "2"}, [2]string{"theirs", "2"},
		[2]string{"new", "1"})
	next.Resources = append(next.Resources, appcontext.Resource{
		Object: appcontext.Object{Kind: "Secret", Name: "broken"}, Manifest: []byte("{s3cr3t"),
	})
	old := batch("v1", "web", [2]string{"gone", "1"}, [2]string{"never", "1"})
	before := fmt.Sprint(s.held(t))
	diff := func() string {
		t.Helper()
		changes, err := c.(connector.Differ).Diff(t.Context(), connector.DiffBatch{
			AppContextID: "v2", App: "web", Cluster: cluster1, Apply: next.Resources, Delete: old.Resources,
		})
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, c := range changes {
			out = append(out, fmt.Sprint(c.Kind, " ", c.Name, " ", c.Fields, " ", c.Message))
		}
		return strings.Join(out, "\n")
	}
	got := diff()
	want := `None same [] the agent has not reported yet
Update changed [{.data.key "1" "2"}] 
Update theirs [{.data.key "1" "2"}] 
Create new [] 
Refused broken [] the manifest is neither a YAML nor a JSON object with texts for apiVersion, kind and metadata.name
Delete gone [] 
None never [] `
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if after := fmt.Sprint(s.held(t)); after != before {
		t.Errorf("the works have %s, before %s", after, before)
	}
	next.Resources = next.Resources[:4]
	if err := c.Apply(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	s.expect(t, "the event", "other/db: theirs=2", "v1/web: same=1 changed=2", "v2/web: new=1")
	connectors, err := manifestwork.New(s.source.WorkV1(), manifestwork.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{connectors.Name("v1", "web"), connectors.Name("v2", "web"),
		connectors.Name("other", "db")} {
		s.report(t, name, func(*workv1.ManifestWorkStatus) {})
	}
	eventually(t, "the difference after the event", func() string {
		got := diff()
		if want := "None same [] \nNone changed [] \nNone theirs [] \nNone new [] \nNone gone [] \nNone never [] "; got != want {
			return got
		}
		return ""
	})
}
