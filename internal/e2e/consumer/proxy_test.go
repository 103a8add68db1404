// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package consumer_test

import (
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	modzip "golang.org/x/mod/zip"
)

const (
	sdkPath = "github.com/spokewire/sdk-go"
	// release is the version of the published tree, followed by a checksum of the tree. The module
	// cache never updates the content of a version, and the build cache identifies packages by
	// their folder in the module cache.
	release = "v0.1.0-test."
)

// root is the top of the tree: go test runs in the folder of the package.
var root = filepath.Join("..", "..", "..")

// proxy is a folder that GOPROXY can name, with one version of the SDK.
type proxy struct {
	version string
	zip     string // path of the module's zip
	url     string
}

// treeFile is a file of the tree under its path in the module.
type treeFile struct{ path string }

func (f treeFile) Path() string                 { return filepath.ToSlash(f.path) }
func (f treeFile) Lstat() (fs.FileInfo, error)  { return os.Lstat(filepath.Join(root, f.path)) }
func (f treeFile) Open() (io.ReadCloser, error) { return os.Open(filepath.Join(root, f.path)) }

// treeFiles returns the files that git has or would add. A tag contains the same files, without the
// output of tools.
func treeFiles(t *testing.T) []modzip.File {
	t.Helper()
	out, err := exec.Command("git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	var files []modzip.File
	for path := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		if _, err := os.Lstat(filepath.Join(root, path)); err == nil { // skips files that were just removed
			files = append(files, treeFile{path})
		}
	}
	return files
}

// publish makes the proxy.
func publish(t *testing.T) proxy {
	t.Helper()
	dir := t.TempDir()
	content := &bytes.Buffer{}
	files := treeFiles(t)
	// The zip contains the version, so the checksum must be computed first.
	sum := checksum(t, files)
	p := proxy{version: release + sum, url: "file://" + filepath.ToSlash(dir)}
	v := module.Version{Path: sdkPath, Version: p.version}
	if err := modzip.Create(content, v, files); err != nil {
		t.Fatalf("the module's zip: %v", err)
	}
	info, err := json.Marshal(map[string]any{"Version": p.version, "Time": time.Now().UTC()})
	if err != nil {
		t.Fatal(err)
	}
	gomod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(dir, filepath.FromSlash(sdkPath), "@v")
	p.zip = filepath.Join(at, p.version+".zip")
	write(t, filepath.Join(at, "list"), []byte(p.version+"\n"))
	write(t, filepath.Join(at, p.version+".info"), info)
	write(t, filepath.Join(at, p.version+".mod"), gomod)
	write(t, p.zip, content.Bytes())
	return p
}

// checksum returns a checksum of the files' names and contents that fits into a version.
func checksum(t *testing.T, files []modzip.File) string {
	t.Helper()
	checked, err := modzip.CheckFiles(files)
	if err != nil {
		t.Fatalf("the module's files: %v", err)
	}
	sum, err := dirhash.Hash1(checked.Valid, func(path string) (io.ReadCloser, error) {
		return os.Open(filepath.Join(root, filepath.FromSlash(path)))
	})
	if err != nil {
		t.Fatal(err)
	}
	var short strings.Builder
	for _, r := range strings.TrimPrefix(sum, "h1:") {
		if short.Len() < 12 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9') {
			short.WriteRune(r)
		}
	}
	return "h" + strings.ToLower(short.String())
}

// lease locks the test's version in the module cache until the test ends, and then removes it from
// there.
func lease(t *testing.T, p proxy) {
	t.Helper()
	lock := lockFile(t, filepath.Join(os.TempDir(), "spokewire-consumer-"+p.version+".lock"))
	cache := goEnv(t, "GOMODCACHE")
	t.Cleanup(func() {
		forget(t, filepath.Join(cache, filepath.FromSlash(sdkPath)+"@"+p.version))
		left, err := filepath.Glob(filepath.Join(cache, "cache", "download", filepath.FromSlash(sdkPath), "@v",
			p.version+".*"))
		if err != nil {
			t.Error(err)
		}
		for _, path := range left {
			forget(t, path)
		}
		_ = os.Remove(lock.Name())
		_ = lock.Close()
	})
}

// lockFile holds the lock of a file until the file is closed. The previous holder may have removed
// the file after it was opened here. Then other processes lock a new file of that name, so lockFile
// tries again.
func lockFile(t *testing.T, path string) *os.File {
	t.Helper()
	for {
		lock, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
			t.Fatal(err)
		}
		locked, err := lock.Stat()
		if err != nil {
			t.Fatal(err)
		}
		if now, err := os.Stat(path); err == nil && os.SameFile(locked, now) {
			return lock
		}
		_ = lock.Close()
	}
}

// TestLockFile: many goroutines hold the lock in turn, and each removes the file at the end.
func TestLockFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	var holders atomic.Int32
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			for range 50 {
				lock := lockFile(t, path)
				if holders.Add(1) != 1 {
					t.Error("two hold the lock")
				}
				runtime.Gosched()
				holders.Add(-1)
				_ = os.Remove(path)
				_ = lock.Close()
			}
		})
	}
	group.Wait()
}

// forget removes a path that the go command made read-only.
func forget(t *testing.T, path string) {
	t.Helper()
	_ = filepath.WalkDir(path, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			return os.Chmod(path, 0o755)
		}
		return err
	})
	if err := os.RemoveAll(path); err != nil {
		t.Errorf("remove it yourself: %v", err)
	}
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatalf("go env %s: %v", name, err)
	}
	return strings.TrimSpace(string(out))
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
}
