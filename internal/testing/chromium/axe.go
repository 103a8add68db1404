// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package chromium

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/internal/atomicfile"
	"github.com/spokewire/sdk-go/internal/testing/daemon"
)

// The npm package of axe, which checks pages for accessibility, and the checksum of its archive.
const (
	axePackage  = "axe-core@4.10.3"
	axeArchive  = "axe-core-4.10.3.tgz"
	axeChecksum = "0f2b4d7dcdf7d1219df8d1959ad68e565f51d14c3f0d88bb71cd59abeb956292"
)

// Violations returns the rules of axe that the page violates, with the elements. npm downloads axe
// once. Without npm, the test is skipped, or fails if the environment variable CI is "true".
func (tab *Tab) Violations() []string {
	tab.t.Helper()
	tab.Eval(axe(tab.t)+"\n;true", nil)
	var found []struct {
		ID, Help string
		Nodes    []struct{ HTML, FailureSummary string }
	}
	tab.Eval(`axe.run(document, {resultTypes: ["violations"]}).then(({violations}) => violations)`, &found)
	var out []string
	for _, v := range found {
		for _, node := range v.Nodes {
			out = append(out, fmt.Sprintf("%s: %s: %.300s: %s", v.ID, v.Help, node.HTML, node.FailureSummary))
		}
	}
	return out
}

// axe returns the script.
func axe(t testing.TB) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(cache, "spokewire", "npm")
	archive, err := os.ReadFile(filepath.Join(folder, axeArchive))
	if errors.Is(err, os.ErrNotExist) {
		archive, err = download(t, folder)
	}
	if err != nil {
		t.Fatal(err)
	}
	if sum := fmt.Sprintf("%x", sha256.Sum256(archive)); sum != axeChecksum {
		t.Fatalf("%s has the checksum %s, want %s: remove it from %s", axeArchive, sum, axeChecksum, folder)
	}
	script, err := fileIn(archive, "package/axe.min.js")
	if err != nil {
		t.Fatal(err)
	}
	return script
}

// download downloads the archive. Another process may do the same.
func download(t testing.TB, folder string) ([]byte, error) {
	t.Helper()
	npm := daemon.Require(t, "npm", "npm")
	temporary := t.TempDir()
	if out, err := exec.Command(npm, "pack", "--pack-destination", temporary, axePackage).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("npm pack %s: %w: %s", axePackage, err, out)
	}
	archive, err := os.ReadFile(filepath.Join(temporary, axeArchive))
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	return archive, atomicfile.Write(filepath.Join(folder, axeArchive), archive, 0o600)
}

// fileIn returns a file of a compressed archive.
func fileIn(archive []byte, name string) (string, error) {
	z, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return "", err
	}
	for files := tar.NewReader(z); ; {
		header, err := files.Next()
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		if header.Name == name {
			var out strings.Builder
			_, err := io.Copy(&out, files)
			return out.String(), err
		}
	}
}
