// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/examples/internal/filestore"
	"github.com/spokewire/sdk-go/rsync/store"
)

// TestBackupInput checks the errors of wrong command lines and files. None of them makes a store.
func TestBackupInput(t *testing.T) {
	dir := t.TempDir()
	foreign, missing, to := filepath.Join(dir, "foreign"), filepath.Join(dir, "missing"), filepath.Join(dir, "store")
	if err := os.WriteFile(foreign, []byte("not a backup of any hub"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args, want string
		status     int
	}{
		{"backup", "hub backup: --out is required: the FILE of the backup", 2},
		{"backup --out " + missing + " --api http://127.0.0.1:1", "is a hub running with this --listen?", 1},
		{"restore", "hub restore: FILE is missing: hub restore FILE", 2},
		{"restore --store " + to + " " + missing, missing + ": no such file or directory", 1},
		{"restore --store " + to + " " + foreign, foreign + ": the file is not a backup of a hub", 1},
		{"restore --store postgres://hub:secret@h/d " + foreign, "--store: the password of a command line is visible", 2},
	} {
		var stdout, stderr strings.Builder
		status := run(t.Context(), strings.Fields(test.args), &stdout, &stderr)
		if status != test.status || !strings.Contains(stderr.String(), test.want) || stdout.Len() > 0 {
			t.Errorf("hub %s: status %d, %s%s", test.args, status, stdout.String(), stderr.String())
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestStoreWithInterruptedRestoreIsRefused(t *testing.T) {
	dir := t.TempDir()
	state, err := filestore.Open(t.Context(), filepath.Join(dir, "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := state.Txn(t.Context(), nil, []store.Op{store.Put("/restore/", nil)}); err != nil || state.Close() != nil {
		t.Fatal(err)
	}
	var stdout, stderr strings.Builder
	args := []string{"--broker", "mqtt://127.0.0.1:1", "--listen", "127.0.0.1:0", "--store", dir}
	if status := run(t.Context(), args, &stdout, &stderr); status != 1 ||
		!strings.Contains(stderr.String(), "hub: --store: a restore of this store has not finished: repeat it") {
		t.Errorf("status %d, %s", status, stderr.String())
	}
}
