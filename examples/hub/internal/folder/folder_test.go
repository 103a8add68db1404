// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package folder_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spokewire/sdk-go/examples/hub/internal/document"
	"github.com/spokewire/sdk-go/examples/hub/internal/folder"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func cluster(name string) string {
	return fmt.Sprintf("apiVersion: hub.spokewire.io/v1alpha1\nkind: Cluster\nmetadata: {name: %s}\n", name)
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func names(t *testing.T, dir string) string {
	t.Helper()
	set, err := folder.Read(dir)
	if err != nil {
		return err.Error()
	}
	var out []string
	for _, d := range set.Documents(document.ClusterKind) {
		out = append(out, d.Name)
	}
	return strings.Join(out, " ")
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "b.yaml"), cluster("b1")+"---\n"+cluster("b2"))
	write(t, filepath.Join(dir, "a.yml"), cluster("a"))
	write(t, filepath.Join(dir, "c.json"), `{"apiVersion": "hub.spokewire.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "c"}}`)
	write(t, filepath.Join(dir, "README.md"), "no document")
	write(t, filepath.Join(dir, ".d.yaml"), "no document")
	write(t, filepath.Join(dir, "more.yaml", "e.yaml"), "no document")
	if got := names(t, dir); got != "a b1 b2 c" {
		t.Errorf("%s", got)
	}
	write(t, filepath.Join(dir, "z.yaml"), cluster("z")+"---\n"+cluster("a"))
	if got := names(t, dir); got != filepath.Join(dir, "z.yaml")+", document 2: metadata.name: there is another Cluster a in "+filepath.Join(dir, "a.yml")+", document 1" {
		t.Errorf("%s", got)
	}
	write(t, filepath.Join(dir, "z.yaml"), "")
	if got := names(t, dir); !strings.Contains(got, "z.yaml: it is empty") {
		t.Errorf("%s", got)
	}
	if err := os.Remove(filepath.Join(dir, "z.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "z.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); !strings.Contains(got, "z.yaml: it is no regular file") {
		t.Errorf("%s", got)
	}
	if got := names(t, filepath.Join(dir, "nowhere")); !strings.Contains(got, "nowhere") {
		t.Errorf("%s", got)
	}
}

// TestWatch: whatever way the content of the folder is replaced is told.
func TestWatch(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "docs")
	// As kubelets mount a ConfigMap: files are links to a link that is replaced.
	write(t, filepath.Join(dir, "..1", "a.yaml"), cluster("one"))
	write(t, filepath.Join(dir, "..2", "a.yaml"), cluster("two"))
	link := func(to, from string) {
		t.Helper()
		if err := os.Symlink(to, from); err != nil {
			t.Fatal(err)
		}
	}
	link("..1", filepath.Join(dir, "..data"))
	link(filepath.Join("..data", "a.yaml"), filepath.Join(dir, "a.yaml"))
	w, err := folder.Watch(dir)
	if err != nil {
		t.Fatal(err)
	}
	changed := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- w.Start(ctx, func() {
			select {
			case changed <- struct{}{}:
			default:
			}
		})
	}()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	await := func(want string) {
		t.Helper()
		for end := time.After(30 * time.Second); ; {
			select {
			case <-changed:
				if names(t, dir) == want {
					return
				}
			case <-end:
				t.Fatalf("%s, want %s", names(t, dir), want)
			}
		}
	}
	link("..2", filepath.Join(dir, "..new"))
	if err := os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	await("two")
	write(t, filepath.Join(dir, "b.yaml"), cluster("three"))
	await("three two")
	if err := os.Remove(filepath.Join(dir, "b.yaml")); err != nil {
		t.Fatal(err)
	}
	await("two")
	// The folder as a whole.
	write(t, filepath.Join(parent, "other", "a.yaml"), cluster("four"))
	if err := os.Rename(dir, filepath.Join(parent, "old")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(parent, "other"), dir); err != nil {
		t.Fatal(err)
	}
	await("four")
	write(t, filepath.Join(dir, "a.yaml"), cluster("five"))
	await("five")
}

func TestWatchRefuses(t *testing.T) {
	if _, err := folder.Watch(filepath.Join(t.TempDir(), "nowhere")); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("%v", err)
	}
}
