// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spokewire/sdk-go/examples/internal/folderwatch"
)

// MaxFile is the maximum size of a file in a folder. A document may have [MaxBytes].
const MaxFile = 64 << 20

// ReadFolder reads all documents in the files of a folder. The files have the extensions .yaml, .yml or
// .json, in any case, and names that do not begin with a dot. Subfolders are not read. A file may
// have [MaxFile]. The error is a [*Error] for an invalid document.
func ReadFolder(dir string) (*Set, error) {
	var all []*Document
	err := files(dir, func(file string, data []byte) error {
		if len(data) == 0 { // it may be incomplete
			return &Error{Where: file, Problem: "empty file: write documents, or remove the file"}
		}
		documents, err := Decode(data, file)
		all = append(all, documents...)
		return err
	})
	if err != nil {
		return nil, err
	}
	return NewSet(all...)
}

// isDocument reports whether a file with this name has documents.
func isDocument(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(name))) &&
		!strings.HasPrefix(name, ".")
}

// files reads the files with documents, in the order of their names.
func files(dir string, each func(file string, data []byte) error) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !isDocument(entry.Name()) {
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
			return &Error{Where: file, Problem: "not a regular file"}
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
	tooLarge := &Error{Where: file, Problem: fmt.Sprintf("more than %d bytes: split the file", MaxFile)}
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
	err := files(dir, func(file string, data []byte) error {
		fmt.Fprintf(sum, "%q %d\n", file, len(data))
		_, err := sum.Write(data)
		return err
	})
	if err != nil {
		return err.Error()
	}
	return string(sum.Sum(nil))
}

// WatchFolder starts to watch a folder. The changes are those since the call, so a ReadFolder after it misses
// nothing. The files are compared at the interval, which defaults to 30 s.
func WatchFolder(dir string, interval time.Duration) (*folderwatch.Watcher, error) {
	return folderwatch.New(dir, folderwatch.Options{Interval: interval, Digest: digestOf, Relevant: isDocument})
}
