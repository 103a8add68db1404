// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package document_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/examples/internal/folderwatch"
)

// watched is a folder with a channel of its changes.
type watched struct {
	t       *testing.T
	dir     string
	changed chan struct{}
}

// watch watches a folder until the end of the test.
func watch(t *testing.T, dir string, o time.Duration) *watched {
	t.Helper()
	w, err := folderwatch.New(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	f := &watched{t, dir, make(chan struct{}, 1000)}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- w.Start(ctx, func() { f.changed <- struct{}{} }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return f
}

// await waits for a change after which the folder has the clusters.
func (f *watched) await(want string) {
	f.t.Helper()
	for end := time.After(30 * time.Second); ; {
		select {
		case <-f.changed:
			if names(f.t, f.dir) == want {
				return
			}
		case <-end:
			f.t.Fatalf("there is no report of %s; there is %s", want, names(f.t, f.dir))
		}
	}
}

func link(t *testing.T, to, from string) {
	t.Helper()
	if err := os.Symlink(to, from+".new"); err != nil {
		t.Fatal(err)
	}
	rename(t, from+".new", from)
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// TestWatch checks that each way to replace the content of the folder is reported.
func TestWatch(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "docs")
	// Like a ConfigMap volume of a kubelet: the files link to a link that is replaced.
	write(t, filepath.Join(dir, "..1", "a.yaml"), cluster("one"))
	write(t, filepath.Join(dir, "..2", "a.yaml"), cluster("two"))
	link(t, "..1", filepath.Join(dir, "..data"))
	link(t, filepath.Join("..data", "a.yaml"), filepath.Join(dir, "a.yaml"))
	f := watch(t, dir, time.Hour)
	link(t, "..2", filepath.Join(dir, "..data"))
	f.await("two")
	write(t, filepath.Join(dir, "b.yaml"), cluster("three"))
	f.await("three two")
	if err := os.Remove(filepath.Join(dir, "b.yaml")); err != nil {
		t.Fatal(err)
	}
	f.await("two")
	// The whole folder is replaced.
	write(t, filepath.Join(parent, "other", "a.yaml"), cluster("four"))
	rename(t, dir, filepath.Join(parent, "old"))
	rename(t, filepath.Join(parent, "other"), dir)
	f.await("four")
	write(t, filepath.Join(dir, "a.yaml"), cluster("five"))
	f.await("five")
	// A write of the same content is reported too: it may be meant as a retry.
	write(t, filepath.Join(dir, "a.yaml"), cluster("five"))
	f.await("five")
}

// TestChangeWithoutEvent checks that a change without an event is found.
func TestChangeWithoutEvent(t *testing.T) {
	// Like git-sync: a link above the folder is replaced.
	root := t.TempDir()
	write(t, filepath.Join(root, "1", "apps", "docs", "a.yaml"), cluster("one"))
	write(t, filepath.Join(root, "2", "apps", "docs", "a.yaml"), cluster("two"))
	link(t, "1", filepath.Join(root, "now"))
	f := watch(t, filepath.Join(root, "now", "apps", "docs"), 50*time.Millisecond)
	link(t, "2", filepath.Join(root, "now"))
	f.await("two")
	write(t, filepath.Join(root, "2", "apps", "docs", "b.yaml"), cluster("three"))
	f.await("three two")
}

func TestWatchRefuses(t *testing.T) {
	if _, err := folderwatch.New(filepath.Join(t.TempDir(), "nowhere"), 0); err == nil ||
		!strings.Contains(err.Error(), "nowhere") {
		t.Errorf("%v", err)
	}
}
