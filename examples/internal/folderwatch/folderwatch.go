// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package folderwatch reads the documents in the files of a folder, and watches them for changes, also
// those of a mounted ConfigMap, of git-sync, and of file systems without events.
package folderwatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Editors and kubelets write in several steps.
const (
	quiet   = 100 * time.Millisecond // time without events before a change is reported
	longest = 2 * time.Second        // longest delay of a change
)

// Watcher reports changes of a folder.
type Watcher struct {
	dir      string
	interval time.Duration
	files    *fsnotify.Watcher
	seen     string // the digest at the last comparison
}

// New starts to watch a folder. Start reports changes from now on, so a read after New misses nothing.
// The files are compared at the interval, which defaults to 30 s: events are missing on network file
// systems, and when a link above the folder changes.
func New(dir string, interval time.Duration) (*Watcher, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	files, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", dir, err)
	}
	w := &Watcher{dir: dir, interval: cmp.Or(interval, 30*time.Second), files: files}
	for _, path := range w.paths() {
		if err := files.Add(path); err != nil {
			return nil, errors.Join(fmt.Errorf("watch %s: %w", path, err), files.Close())
		}
	}
	w.seen = digestOf(dir)
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
				_ = w.files.Add(w.dir) // the digest reports a missing folder
			}
			if event.Name == w.dir || filepath.Dir(event.Name) == w.dir {
				pending.add(relevant(filepath.Base(event.Name)))
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
	now := digestOf(w.dir)
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
	written bool      // whether a relevant file was written, not only links or other files
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

// end removes the events, and reports whether a relevant file was written.
func (p *pending) end() (written bool) {
	written = p.written
	p.first, p.written = time.Time{}, false
	return written
}
