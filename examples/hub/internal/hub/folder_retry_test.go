// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub_test

import (
	"os"
	"path/filepath"
	"testing"
)

const head = "apiVersion: hub.spokewire.io/v1alpha1\n"

// TestFolderChangeIsRetried checks that a change of the folder is retried if it fails for another reason
// than its documents.
func TestFolderChangeIsRetried(t *testing.T) {
	f := fixtureOf(t)
	f.dir = t.TempDir()
	file := filepath.Join(f.dir, "shop.yaml")
	write := func(value string) {
		t.Helper()
		text := head + shop(value) + "---\n" + head + everywhere + "---\n" + head + "kind: Cluster\nmetadata: {name: c1}\n"
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	f.start()
	f.has("c1", "one")
	f.store.failures.Store(3)
	write("two")
	f.has("c1", "two")
	if left := f.store.failures.Load(); left > 0 {
		t.Errorf("the store was to fail %d times more", left)
	}
	if refused := f.State(t.Context()).Documents.Refused; refused != "" {
		t.Errorf("it is still refused: %s", refused)
	}
}
