// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package folder reads the documents of a folder, and watches them for changes.
package folder

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/spokewire/sdk-go/examples/hub/internal/document"
)

// MaxBytes is the maximum size of a file. A document may have [document.MaxBytes].
const MaxBytes = 64 << 20

// Read reads all documents in the files of a folder. The files have the extensions .yaml, .yml or
// .json, in any case, and names that do not begin with a dot. Subfolders are not read. A file may
// have [MaxBytes]. The error is a [*document.Error] for an invalid document.
func Read(dir string) (*document.Set, error) {
	var all []*document.Document
	err := files(dir, func(file string, data []byte) error {
		if len(data) == 0 { // it may be incomplete
			return &document.Error{Where: file, Problem: "empty file: write documents, or remove the file"}
		}
		documents, err := document.Decode(data, file)
		all = append(all, documents...)
		return err
	})
	if err != nil {
		return nil, err
	}
	return document.NewSet(all...)
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
			return &document.Error{Where: file, Problem: "not a regular file"}
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
	tooLarge := &document.Error{Where: file, Problem: fmt.Sprintf("more than %d bytes: split the file", MaxBytes)}
	if size > MaxBytes {
		return nil, tooLarge
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	if err == nil && len(data) > MaxBytes {
		err = tooLarge
	}
	return data, err
}

// digest identifies the content of a folder, or the error of reading it.
func digest(dir string) string {
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

// Editors and kubelets write in several steps.
const (
	quiet   = 100 * time.Millisecond // time without events before a change is reported
	longest = 2 * time.Second        // longest delay of a change
)

// Options configures a [Watcher]; the zero value is useful.
type Options struct {
	// Interval is the interval at which the files are compared without an event. Events are missing
	// on network file systems, and when a link above the folder changes. Defaults to 30 s.
	Interval time.Duration
}

// Watcher reports changes of a folder.
type Watcher struct {
	dir      string
	interval time.Duration
	files    *fsnotify.Watcher
	seen     string // the digest at the last comparison
}

// Watch starts to watch a folder. Start reports changes from now on, so a Read after Watch misses
// nothing.
func Watch(dir string, o Options) (*Watcher, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	files, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", dir, err)
	}
	w := &Watcher{dir: dir, interval: cmp.Or(o.Interval, 30*time.Second), files: files}
	for _, path := range w.paths() {
		if err := files.Add(path); err != nil {
			return nil, errors.Join(fmt.Errorf("watch %s: %w", path, err), files.Close())
		}
	}
	w.seen = digest(dir)
	return w, nil
}

// paths returns the watched folders. The parent folder reports a replacement of the folder.
func (w *Watcher) paths() []string { return []string{filepath.Dir(w.dir), w.dir} }

// Close ends a watch that was not started.
func (w *Watcher) Close() error { return w.files.Close() }

// Start calls changed after the files have changed or were written again, until ctx ends. Calls are
// not concurrent.
func (w *Watcher) Start(ctx context.Context, changed func()) error {
	defer func() { _ = w.files.Close() }()
	pending := newPending()
	defer pending.timer.Stop()
	look := time.NewTicker(w.interval)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-pending.timer.C:
			if written := pending.end(); w.differs() || written {
				changed()
			}
		case <-look.C:
			if w.differs() {
				w.watchAgain() // the folder may have been replaced
				changed()
			}
		case event, ok := <-w.files.Events:
			if !ok {
				return fmt.Errorf("the watch of %s has ended", w.dir)
			}
			if event.Name == w.dir && event.Has(fsnotify.Create) {
				_ = w.files.Add(w.dir) // Read reports a missing folder
			}
			if event.Name == w.dir || filepath.Dir(event.Name) == w.dir {
				pending.add(isDocument(filepath.Base(event.Name)))
			}
		case _, ok := <-w.files.Errors: // events were lost
			if !ok {
				return fmt.Errorf("the watch of %s has ended", w.dir)
			}
			pending.add(true)
		}
	}
}

// differs reports whether the files differ from those at the last call.
func (w *Watcher) differs() bool {
	now := digest(w.dir)
	differs := now != w.seen
	w.seen = now
	return differs
}

func (w *Watcher) watchAgain() {
	for _, path := range w.paths() {
		_ = w.files.Remove(path)
		_ = w.files.Add(path) // the next comparison finds a folder that is missing now
	}
}

// pending has the events that are not reported yet.
type pending struct {
	timer   *time.Timer
	first   time.Time // zero without events
	written bool      // whether a file with documents was written, not only links or other files
}

func newPending() *pending {
	p := &pending{timer: time.NewTimer(quiet)}
	p.timer.Stop()
	return p
}

func (p *pending) add(written bool) {
	if p.first.IsZero() {
		p.first = time.Now()
	}
	p.written = p.written || written
	p.timer.Reset(max(0, min(quiet, longest-time.Since(p.first))))
}

// end removes the events, and reports whether a file with documents was written.
func (p *pending) end() (written bool) {
	written = p.written
	p.first, p.written = time.Time{}, false
	return written
}
