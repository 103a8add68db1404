// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package document_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spokewire/sdk-go/examples/hub/internal/document"
	"github.com/spokewire/sdk-go/examples/internal/folderwatch"
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
	set, err := document.ReadFolder(dir)
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
	write(t, filepath.Join(dir, "a.YML"), cluster("a"))
	write(t, filepath.Join(dir, "c.json"),
		`{"apiVersion": "hub.spokewire.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "c"}}`)
	write(t, filepath.Join(dir, "README.md"), "no document")
	write(t, filepath.Join(dir, ".d.yaml"), "no document")
	write(t, filepath.Join(dir, "more.yaml", "e.yaml"), "no document")
	if got := names(t, dir); got != "a b1 b2 c" {
		t.Errorf("%s", got)
	}
	write(t, filepath.Join(dir, "z.yaml"), cluster("z")+"---\n"+cluster("a"))
	if got := names(t, dir); got != filepath.Join(dir, "z.yaml")+", document 2: metadata.name: another Cluster a is in "+
		filepath.Join(dir, "a.YML")+", document 1" {
		t.Errorf("%s", got)
	}
	write(t, filepath.Join(dir, "z.yaml"), "")
	if got := names(t, dir); !strings.Contains(got, "z.yaml: empty file") {
		t.Errorf("%s", got)
	}
	if err := os.Remove(filepath.Join(dir, "z.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "z.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); !strings.Contains(got, "z.yaml: not a regular file") {
		t.Errorf("%s", got)
	}
	if got := names(t, filepath.Join(dir, "nowhere")); !strings.Contains(got, "nowhere") {
		t.Errorf("%s", got)
	}
}

// TestLargeFile checks that a very large file is refused before it is read, also by the watch.
func TestLargeFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "big.yaml")
	write(t, file, cluster("a"))
	if err := os.Truncate(file, 1500<<20); err != nil { // a sparse file
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if got := names(t, dir); got != file+": more than 67108864 bytes: split the file" {
		t.Errorf("%s", got)
	}
	f := watch(t, dir, time.Hour)
	if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > folderwatch.MaxFile {
		t.Errorf("%d bytes are allocated", after.TotalAlloc-before.TotalAlloc)
	}
	write(t, file, cluster("b"))
	f.await("b")
}
