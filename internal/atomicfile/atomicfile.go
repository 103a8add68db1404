// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package atomicfile replaces files so that readers, and a restart after a crash, see the old or the
// new content.
package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Write replaces a file atomically: after a crash it has the old or the new content.
func Write(file string, content []byte, mode fs.FileMode) (err error) {
	dir := filepath.Dir(file)
	temporary, err := os.CreateTemp(dir, ".new-*") // with mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(temporary.Name()))
		}
	}()
	_, err = temporary.Write(content)
	if err == nil {
		err = temporary.Chmod(mode)
	}
	if err == nil {
		err = temporary.Sync()
	}
	if err = errors.Join(err, temporary.Close()); err != nil {
		return err
	}
	if err = os.Rename(temporary.Name(), file); err != nil {
		return err
	}
	folder, failed := os.Open(dir)
	if failed != nil {
		return nil // the file is replaced
	}
	_ = folder.Sync() // not all file systems can
	return folder.Close()
}
