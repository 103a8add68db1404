// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package git_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/internal/testing/gitserver"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/git"
)

// diffOf returns the changes of a call, one for each line.
func diffOf(t *testing.T, c connector.Connector, apply, remove connector.Batch) string {
	t.Helper()
	changes, err := c.(connector.Differ).Diff(t.Context(), connector.DiffBatch{
		AppContextID: "ctx", App: "app", Cluster: edge1, Apply: apply.Resources, Delete: remove.Resources,
	})
	if err != nil {
		t.Fatal(err)
	}
	out := ""
	for _, c := range changes {
		out += strings.TrimSpace(fmt.Sprint(c.Kind, " ", c.Name, " ", c.Fields, " ", c.Message)) + "\n"
	}
	return out
}

// TestDiff: Apply and Delete then make the changes that Diff returned. The test uses each
// transport, with servers that send single files and servers that do not. Diff commits nothing.
func TestDiff(t *testing.T) {
	for _, byHash := range []string{"true", "false"} {
		t.Run("by hash "+byHash, func(t *testing.T) {
			eachWay(t, gitserver.Options{Config: map[string]string{
				"uploadpack.allowAnySHA1InWant": byHash, "uploadpack.allowFilter": byHash,
			}}, testDiff)
		})
	}
}

func testDiff(t *testing.T, s served) {
	c := open(t, s.at, git.Options{})
	var names string
	for i := range 40 { // these become deltas of each other
		names += fmt.Sprintf("n%d=%d ", i, i)
	}
	apply(t, c, "same=1 changed=1 gone=1 "+names)
	s.server.Git("repack", "-adfq", "--depth=50", "--window=50")
	s.server.Commit("Somebody writes other spaces, and something else", map[string]string{
		"edge+c1/shop/ConfigMap/spaces.yaml": "# A remark\n" + string(manifest("spaces", "1")),
		"edge+c1/shop/ConfigMap/taken.yaml":  "not ours",
	})
	next, gone := batch("same=1 changed=2 new=1 n7=x spaces=1 taken=1"), batch("gone never")
	next.Resources = append(next.Resources, appcontext.Resource{
		Object: appcontext.Object{Kind: "Secret", Name: "broken"}, Manifest: []byte("{s3cr3t"),
	})
	want := `None same []
Update changed [{.data.key "1" "2"}]
Create new []
Update n7 [{.data.key "7" "x"}]
Update spaces [] only the text of the file changes
Update taken [{.apiVersion  "v1"} {.data  {"key":"1"}} {.kind  "ConfigMap"} {.metadata  {"name":"taken","namespace":"shop"}}]
Refused broken [] the manifest is neither a YAML nor a JSON object with texts for apiVersion, kind and metadata.name
Delete gone []
None never []
`
	before := s.server.Subjects()
	if got := diffOf(t, c, next, gone); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if after := s.server.Subjects(); len(after) != len(before) {
		t.Errorf("Diff has committed: %v", after)
	}
	next.Resources = next.Resources[:6]
	if err := c.Apply(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	files := s.server.Git("log", "--name-status", "--format=", "-2", "main")
	for _, want := range []string{"M\tedge+c1/shop/ConfigMap/changed", "A\tedge+c1/shop/ConfigMap/new",
		"M\tedge+c1/shop/ConfigMap/n7",
		"M\tedge+c1/shop/ConfigMap/spaces", "M\tedge+c1/shop/ConfigMap/taken", "D\tedge+c1/shop/ConfigMap/gone"} {
		if !strings.Contains(files, want) {
			t.Errorf("the commits lack %q:\n%s", want, files)
		}
	}
	if n := strings.Count(files, "\n"); n != 6 {
		t.Errorf("%d files have changed, want 6:\n%s", n, files)
	}
	want = strings.Repeat("None x []\n", 8)
	got := diffOf(t, c, next, gone)
	for _, name := range []string{"same", "changed", "new", "n7", "spaces", "taken", "gone", "never"} {
		got = strings.Replace(got, " "+name+" ", " x ", 1)
	}
	if got != want {
		t.Errorf("after the event: %s", got)
	}
}

// TestDiffWithinLimit: files that do not fit into MaxFetchBytes differ without fields.
func TestDiffWithinLimit(t *testing.T) {
	s := gitserver.New(t, gitserver.Options{Config: map[string]string{"uploadpack.allowFilter": "true"}})
	large := map[string]string{"edge+c1/shop/ConfigMap/a.yaml": string(manifest("a", "1"))}
	for i := range 100 {
		large[fmt.Sprint("large", i)] = strings.Repeat(fmt.Sprint(i), 20_000)
	}
	s.Commit("Large files", large)
	c := open(t, git.Repository{URL: "file://" + s.Path()}, git.Options{MaxFetchBytes: 1 << 20})
	if got := diffOf(t, c, batch("a=2 b=1"),
		connector.Batch{}); got != "Update a [] the fields are not known: Options.MaxFetchBytes does not allow to fetch "+
		"the file\nCreate b []\n" {
		t.Error(got)
	}
}
