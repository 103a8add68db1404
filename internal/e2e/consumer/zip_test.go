// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package consumer_test

import (
	"archive/zip"
	"io"
	"path"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"
)

// Limits of a download of the module, in bytes. Lower them when the module gets smaller. Raise them
// only on purpose.
const (
	maxZip      = 3584 << 10  // of the download
	maxUnpacked = 10688 << 10 // in a module cache
	maxTestdata = 160 << 10   // one file of test data
	maxFile     = 160 << 10   // any other file
)

// nested lists the modules in the tree that are not released.
var nested = []string{
	"internal/e2e", "internal/kube", "internal/maestro", "internal/ocm", "internal/peers", "internal/tools",
}

// TestZip checks the zip that users download.
func TestZip(t *testing.T) {
	p := publish(t)
	checked, err := modzip.CheckZip(module.Version{Path: sdkPath, Version: p.version}, p.zip)
	if err != nil {
		t.Fatalf("the go command would refuse it: %v", err)
	}
	if len(checked.Invalid)+len(checked.Omitted) > 0 {
		t.Errorf("in the zip and not of the module: %v %v", checked.Invalid, checked.Omitted)
	}
	reader, err := zip.OpenReader(p.zip)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	var names []string
	packed, unpacked := uint64(0), uint64(0)
	for _, file := range reader.File {
		name := strings.TrimPrefix(file.Name, sdkPath+"@"+p.version+"/")
		names = append(names, name)
		packed += file.CompressedSize64
		unpacked += file.UncompressedSize64
		inspect(t, name, file)
	}
	t.Logf("%d files, %d KiB, unpacked %d KiB", len(names), packed>>10, unpacked>>10)
	if packed > maxZip || unpacked > maxUnpacked {
		t.Errorf("has %d bytes, and %d unpacked: at most %d and %d", packed, unpacked, maxZip, maxUnpacked)
	}
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md", "go.mod", "go.sum", "doc.go"} {
		if !slices.Contains(names, name) {
			t.Errorf("%s is missing", name)
		}
	}
}

// inspect checks one file: its place, its size, and that it is text.
func inspect(t *testing.T, name string, file *zip.File) {
	t.Helper()
	for _, folder := range nested {
		if strings.HasPrefix(name, folder+"/") {
			t.Errorf("%s is of a module of its own", name)
		}
	}
	limit := uint64(maxFile)
	if strings.Contains("/"+name, "/testdata/") {
		limit = maxTestdata
	}
	if file.UncompressedSize64 > limit {
		t.Errorf("%s has %d bytes: at most %d", name, file.UncompressedSize64, limit)
	}
	if slices.Contains([]string{".test", ".prof", ".out", ".exe", ".so", ".o", ".db", ".log", ".orig", ".rej", ".swp"},
		path.Ext(name)) {
		t.Errorf("%s is what a tool left behind", name)
	}
	content, err := file.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	text, err := io.ReadAll(content)
	if err != nil {
		t.Fatal(err)
	}
	if !utf8.Valid(text) {
		t.Errorf("%s is no text", name)
	}
}

// TestZipLeavesOut: the zip leaves out only the other modules of the tree.
func TestZipLeavesOut(t *testing.T) {
	checked, err := modzip.CheckFiles(treeFiles(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range checked.Invalid {
		t.Errorf("%s: %v", file.Path, file.Err)
	}
	for _, file := range checked.Omitted {
		if !slices.ContainsFunc(nested, func(folder string) bool { return strings.HasPrefix(file.Path, folder+"/") }) {
			t.Errorf("%s is left out: %v", file.Path, file.Err)
		}
	}
	if len(checked.Omitted) == 0 {
		t.Error("nothing is left out, not even the tests in modules of their own")
	}
}
