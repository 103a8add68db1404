// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package git_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/spokewire/sdk-go/internal/testing/gitserver"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/git"
)

// TestCommits: after batches, the repository has the expected files, byte for byte, on each
// transport.
func TestCommits(t *testing.T) {
	for _, filter := range []string{"true", "false"} {
		t.Run("filter "+filter, func(t *testing.T) {
			eachWay(t, gitserver.Options{Config: map[string]string{"uploadpack.allowFilter": filter}}, testCommits)
		})
	}
}

func testCommits(t *testing.T, s served) {
	when := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	s.at.Path = "fleet"
	c := open(t, s.at, git.Options{Author: git.Signature{Name: "Robo", Email: "robo@example.com"},
		Clock: clocktesting.NewFakeClock(when)})
	first := batch("a=1 b=2")
	first.Resources[1].Manifest = []byte(
		"# \xc3\xbc, no line break at the end\r\n{apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: shop}}")
	if err := c.Apply(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	apply(t, c, "a=1") // nothing new
	apply(t, c, "a=3 b=2 c=4")
	if err := c.Delete(t.Context(), batch("c b nothing")); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), batch("c")); err != nil {
		t.Fatal(err)
	}
	s.server.Check()
	want := []string{"The beginning", "Apply 2 objects of ctx/app on edge+c1", "Apply 3 objects of ctx/app on edge+c1",
		"Delete 2 objects of ctx/app on edge+c1"}
	if diff := cmp.Diff(want, s.server.Subjects()); diff != "" {
		t.Error(diff)
	}
	if got := s.server.Git("cat-file", "blob", "main~2:fleet/edge+c1/shop/ConfigMap/b.yaml"); got != string(
		first.Resources[1].Manifest) {
		t.Errorf("the file has %q", got)
	}
	if got, want := s.server.Git("log", "-1", "--format=%an <%ae> %at %cn%n%b", "main"),
		"Robo <robo@example.com> 1893553445 Robo\nConfigMap shop/c\nConfigMap shop/b\n\n"; got != want {
		t.Errorf("the commit is %q, want %q", got, want)
	}
	files := map[string]string{"README": "hello\n", "fleet/edge+c1/shop/ConfigMap/a.yaml": string(manifest("a", "3"))}
	if diff := cmp.Diff(files, s.server.Files()); diff != "" {
		t.Error(diff)
	}
}

// TestFolderStaysWithoutObjects: the folder of a cluster stays after its last object. Without the
// folder, agents would report an error and not prune.
func TestFolderStaysWithoutObjects(t *testing.T) {
	s := ways["file"](t, gitserver.Options{Empty: true})
	s.at.CreateBranch = true
	c := open(t, s.at, git.Options{})
	apply(t, c, "a=1")
	for range 2 {
		if err := c.Delete(t.Context(), batch("a")); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(map[string]string{"edge+c1/.gitkeep": ""}, s.server.Files()); diff != "" {
		t.Error(diff)
	}
	apply(t, c, "b=1")
	if got := slices.Sorted(maps.Keys(s.server.Files())); !slices.Equal(got,
		[]string{"edge+c1/.gitkeep", "edge+c1/shop/ConfigMap/b.yaml"}) {
		t.Errorf("files are %v", got)
	}
	s.server.Check()
	if got := len(s.server.Subjects()); got != 3 {
		t.Errorf("%d commits, want 3", got)
	}
}

// TestFilesOfOtherWriters: files of other writers do not change: programs, links, and submodules.
func TestFilesOfOtherWriters(t *testing.T) {
	s := ways["http"](t, gitserver.Options{})
	s.server.Commit("others", map[string]string{"edge+c1/shop/notes.txt": "mine", "edge+c1-b/x": "y", "edge+c0": "z"})
	s.server.Special(map[string]string{"run.sh": "100755", "link": "120000", "module": "160000"})
	before := s.server.Git("ls-tree", "-r", "main")
	c := open(t, s.at, git.Options{})
	apply(t, c, "a=1")
	if err := c.Delete(t.Context(), batch("a")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, s.server.Git("ls-tree", "-r", "main")); diff != "" {
		t.Error(diff)
	}
	s.server.Check()
}

// TestNameIsTaken: a batch with a name that is taken is refused, and the other batches are
// committed.
func TestNameIsTaken(t *testing.T) {
	s := ways["file"](t, gitserver.Options{})
	s.server.Commit("others", map[string]string{"edge+c1/shop/configmap/a.yaml": "x", "edge+c2/shop": "a file",
		"edge+c3/shop/ConfigMap/a.yaml/b": "a folder"})
	connectors := newConnectors(t, s.at, git.Options{})
	for _, cluster := range []string{"c1", "c2", "c3"} {
		c := openCluster(t, connectors, appcontext.ClusterID{Provider: "edge", Name: cluster})
		err := c.Apply(t.Context(), batch("a=1"))
		var failed *connector.Error
		if !errors.As(err, &failed) || !errors.Is(failed.Class, connector.ErrTerminal) || failed.Object != configMap("a") ||
			!strings.Contains(err.Error(), "conflicts with edge+"+cluster) {
			t.Errorf("Apply on %s: %v, want a terminal error about the object", cluster, err)
		}
		if states, err := c.Get(t.Context(), batch("a")); err != nil || states[0].Exists {
			t.Errorf("Get on %s: %+v, %v", cluster, states, err)
		}
		if err := c.Delete(t.Context(), batch("a")); err != nil {
			t.Errorf("Delete on %s: %v", cluster, err)
		}
	}
	if got := len(s.server.Subjects()); got != 2 {
		t.Errorf("%d commits, want 2", got)
	}
}

// TestFileModesOfOtherWriters: a file that an agent can read as an object counts as the object,
// even if another writer made it executable or a link. Delete removes it, because Terminated means
// that the object is gone. A submodule cannot be read, so it blocks the object.
func TestFileModesOfOtherWriters(t *testing.T) {
	const file = "edge+c1/shop/ConfigMap/a.yaml"
	for _, mode := range []string{"100755", "120000"} {
		t.Run(mode, func(t *testing.T) {
			s := ways["file"](t, gitserver.Options{})
			c := open(t, s.at, git.Options{})
			special := func() {
				t.Helper()
				s.server.Special(map[string]string{file: mode})
				if states, err := c.Get(t.Context(), batch("a")); err != nil || !states[0].Exists {
					t.Errorf("Get: %+v, %v", states, err)
				}
			}
			special()
			apply(t, c, "a=1")
			if got := s.server.Git("ls-tree", "-r", "main", file); !strings.HasPrefix(got, "100644") {
				t.Errorf("after Apply: %s", got)
			}
			special()
			if err := c.Delete(t.Context(), batch("a")); err != nil {
				t.Error(err)
			}
			if got := s.server.Git("ls-tree", "-r", "main", file); got != "" {
				t.Errorf("after Delete: %s", got)
			}
			s.server.Check()
		})
	}
	s := ways["file"](t, gitserver.Options{})
	s.server.Special(map[string]string{file: "160000"})
	before := s.server.Tip()
	c := open(t, s.at, git.Options{})
	err := c.Apply(t.Context(), batch("a=1"))
	if class(t, err, connector.ErrTerminal); !strings.Contains(fmt.Sprint(err), "conflicts with "+file) ||
		s.server.Tip() != before {
		t.Errorf("where a submodule is: %v", err)
	}
	if err := c.Delete(t.Context(), batch("a")); err != nil || s.server.Tip() != before {
		t.Errorf("Delete where a submodule is: %v", err)
	}
}

// TestBadManifests: bad manifests are refused. A single bad manifest would stop an agent from
// reading all other manifests of the cluster.
func TestBadManifests(t *testing.T) {
	s := ways["file"](t, gitserver.Options{})
	c := open(t, s.at, git.Options{MaxManifestBytes: 1000})
	for name, text := range map[string]string{
		"broken":    "apiVersion: v1\nkind: [ConfigMap",
		"another":   string(manifest("b", "1")),
		"two":       string(manifest("a", "1")) + "---\n" + string(manifest("a", "1")),
		"twice":     "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: shop}, data: {a: 1}, data: {a: 2}}",
		"in JSON":   `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "shop"}, "data": {"a": 1, "a": 2}}`,
		"too large": string(manifest("a", strings.Repeat("x", 1000))),
	} {
		b := batch("ok=1 a=1")
		b.Resources[1].Manifest = []byte(text)
		err := c.Apply(t.Context(), b)
		var failed *connector.Error
		if !errors.As(err, &failed) || !errors.Is(failed.Class, connector.ErrTerminal) || failed.Object != configMap("a") ||
			strings.Contains(err.Error(), "key") {
			t.Errorf("%s: %v, want a terminal error about the object, without content", name, err)
		}
	}
	if got := len(s.server.Subjects()); got != 1 {
		t.Errorf("%d commits, want 1: a batch is committed as a whole", got)
	}
	for _, text := range []string{
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop}\nx: &x {a: b}\ndata: {<<: *x, a: c}\n",
		"{\n\t\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"metadata\": {\"name\": \"a\", \"namespace\": \"shop\"}}",
	} {
		b := batch("a=1")
		b.Resources[0].Manifest = []byte(text)
		if err := c.Apply(t.Context(), b); err != nil {
			t.Errorf("%v, and it is as good as any other: %s", err, text)
		}
	}
}

// TestMessage: commit messages of long batches, messages of a user function, and characters that
// would break a commit.
func TestMessage(t *testing.T) {
	c := git.Commit{Verb: git.VerbApply, AppContextID: "ctx", App: "app", Cluster: edge1,
		Changed: []appcontext.Object{{Kind: "ConfigMap", Name: "a\nb"}}}
	if got, want := git.Message(c), "Apply 1 object of ctx/app on edge+c1\n\nConfigMap a?b\n"; got != want {
		t.Errorf("the message is %q, want %q", got, want)
	}
	c.Changed = make([]appcontext.Object, 60)
	if got := git.Message(c); strings.Count(got, "\n") != 53 || !strings.HasSuffix(got, "and 10 more\n") {
		t.Errorf("the message is %q", got)
	}
	s := ways["file"](t, gitserver.Options{})
	texts := map[string]string{"a": "fix: \x00 NUL\xff\n\nbody", "b": " \n"}
	conn := open(t, s.at, git.Options{Message: func(c git.Commit) string { return texts[c.Changed[0].Name] }})
	apply(t, conn, "a=1")
	apply(t, conn, "b=1")
	if got := s.server.Git("log", "-2", "--format=%B", "main"); got != "rsync\n\nfix:  NUL?\n\nbody\n\n" {
		t.Errorf("the messages are %q", got)
	}
	s.server.Check()
}

// TestStatus: Options.Status can add state that git does not have.
func TestStatus(t *testing.T) {
	s := ways["file"](t, gitserver.Options{})
	broken := errors.New("the agent is away")
	var fail error
	c := open(t, s.at, git.Options{Status: func(_ context.Context, b connector.Batch, states []connector.State) error {
		if len(b.Resources) != len(states) {
			t.Errorf("%d resources and %d states", len(b.Resources), len(states))
		}
		states[0].Ready, states[0].Message = false, "not synchronized"
		return fail
	}})
	apply(t, c, "a=1")
	states, err := c.Get(t.Context(), batch("a"))
	want := []connector.State{{Object: configMap("a"), Exists: true, Message: "not synchronized"}}
	if diff := cmp.Diff(want, states); diff != "" || err != nil {
		t.Error(diff, err)
	}
	fail = broken
	if _, err := c.Get(t.Context(), batch("a")); !errors.Is(err, broken) {
		t.Errorf("Get: %v, want the hook's error", err)
	}
}

// TestRewrittenHistory: another writer forces the branch to another history, and the old history is
// garbage collected.
func TestRewrittenHistory(t *testing.T) {
	eachWay(t, gitserver.Options{}, func(t *testing.T, s served) {
		first := strings.TrimSpace(s.server.Git("rev-parse", "main"))
		c := open(t, s.at, git.Options{})
		apply(t, c, "a=1")
		second := strings.TrimSpace(s.server.Git("rev-parse", "main"))
		for i, commit := range []string{first, second, first} {
			s.server.Git("update-ref", "refs/heads/main", commit)
			if i == 2 {
				s.server.Git("gc", "-q", "--prune=now")
			}
			states, err := c.Get(t.Context(), batch("a"))
			if want := commit == second; err != nil || states[0].Exists != want {
				t.Errorf("after step %d: %+v, %v, want exists = %v", i, states, err, want)
			}
		}
		apply(t, c, "b=1")
		if got := slices.Sorted(maps.Keys(s.server.Files())); !slices.Equal(got,
			[]string{"README", "edge+c1/shop/ConfigMap/b.yaml"}) {
			t.Errorf("files are %v", got)
		}
		s.server.Check()
	})
}

// TestManyKinds tests names that git orders differently from strings.
func TestManyKinds(t *testing.T) {
	s := ways["file"](t, gitserver.Options{})
	s.server.Commit("files beside folders", map[string]string{"edge+c1.txt": "", "edge+c1-": "", "edge+c10": ""})
	c := open(t, s.at, git.Options{})
	var b connector.Batch
	for i, name := range []string{"a", "a.b", "a-b", "a0", "a.b.c", "ab"} {
		for _, namespace := range []string{"shop", "shop-1", "shop.x", "shop0"} {
			text := fmt.Appendf(nil, "{apiVersion: v%d/v1, kind: K%d, metadata: {name: %s, namespace: %s}}", i, i, name,
				namespace)
			o, err := appcontext.ParseObject(text)
			if err != nil {
				t.Fatal(err)
			}
			b.Resources = append(b.Resources, appcontext.Resource{Object: o, Manifest: text})
		}
	}
	for range 2 {
		if err := c.Apply(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	s.server.Check()
	files := s.server.Files()
	for _, r := range b.Resources {
		if got := files[s.at.File(edge1, r.Object)]; !bytes.Equal([]byte(got), r.Manifest) {
			t.Errorf("%s has %q", r.Object, got)
		}
	}
	if len(files) != 4+len(b.Resources) || len(s.server.Subjects()) != 3 {
		t.Errorf("%d files, %d commits", len(files), len(s.server.Subjects()))
	}
}
