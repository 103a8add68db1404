// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package atomicfile_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spokewire/sdk-go/internal/atomicfile"
)

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	for _, content := range []string{"old", "new"} {
		if err := atomicfile.Write(file, []byte(content), 0o640); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(file)
		info, failed := os.Stat(file)
		if err != nil || failed != nil || string(got) != content || info.Mode() != 0o640 {
			t.Errorf("%q with mode %v: %v, %v", got, info.Mode(), err, failed)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []string{filepath.Join(dir, "folder"), filepath.Join(dir, "missing", "file")} {
		if err := atomicfile.Write(wrong, nil, 0o600); err == nil {
			t.Errorf("wrote %s", wrong)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("files after errors: %v, %v", entries, err)
	}
}
