// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package folderwatch

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// MaxFile is the maximum size of a file.
const MaxFile = 64 << 20

// FileError is returned for a file that cannot have documents.
type FileError struct{ File, Problem string }

// Error returns the file and the problem.
func (e *FileError) Error() string { return e.File + ": " + e.Problem }

// relevant reports whether a file with this name has documents.
func relevant(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(name))) &&
		!strings.HasPrefix(name, ".")
}

// Files reads the files of a folder that have the extensions .yaml, .yml or .json, in any case, and
// names that do not begin with a dot, in the order of their names. Subfolders are not read. A file
// may have [MaxFile]. The error is a [*FileError] for other files, or the first one of each.
func Files(dir string, each func(file string, data []byte) error) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !relevant(entry.Name()) {
			continue
		}
		file := filepath.Join(dir, entry.Name())
		// An entry may be a link, for example of a mounted ConfigMap.
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		if info.IsDir() {
			continue
		}
		if !info.Mode().IsRegular() { // reading a pipe could block
			return &FileError{file, "not a regular file"}
		}
		data, err := read(file, info.Size())
		if err != nil {
			return err
		}
		if err := each(file, data); err != nil {
			return err
		}
	}
	return nil
}

// read reads a file with this size, which may be growing.
func read(file string, size int64) ([]byte, error) {
	tooLarge := &FileError{file, fmt.Sprintf("more than %d bytes: split the file", MaxFile)}
	if size > MaxFile {
		return nil, tooLarge
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err == nil && len(data) > MaxFile {
		err = tooLarge
	}
	return data, err
}

// digestOf identifies the content of a folder, or the error of reading it.
func digestOf(dir string) string {
	sum := sha256.New()
	err := Files(dir, func(file string, data []byte) error {
		fmt.Fprintf(sum, "%q %d\n", file, len(data))
		_, err := sum.Write(data)
		return err
	})
	if err != nil {
		return err.Error()
	}
	return string(sum.Sum(nil))
}
