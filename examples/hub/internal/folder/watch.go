// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package folder

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Editors and kubelets write in several steps.
const (
	quiet   = 100 * time.Millisecond // how long nothing must happen before a change is told
	longest = 2 * time.Second        // how long a change may wait for that
)

// Options configures a [Watcher]; the zero value is useful.
type Options struct {
	// Interval is how often to look whether the files have changed without any event, as with a network's file system, and where a link above the folder
	// leads elsewhere. Defaults to 30 s.
	Interval time.Duration
}

// Watcher tells when a folder has changed.
type Watcher struct {
	dir      string
	interval time.Duration
	files    *fsnotify.Watcher
	seen     string // the digest when a change was told, or at first
}

// Watch begins to watch: what changes from now on is told when Start runs, so that nothing is missed between a Read after it and Start.
func Watch(dir string, o Options) (*Watcher, error) {
	if o.Interval == 0 {
		o.Interval = 30 * time.Second
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	files, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", dir, err)
	}
	w := &Watcher{dir: dir, interval: o.Interval, files: files}
	for _, path := range w.paths() {
		if err := files.Add(path); err != nil {
			return nil, errors.Join(fmt.Errorf("watch %s: %w", path, err), files.Close())
		}
	}
	w.seen = digest(dir)
	return w, nil
}

// paths are those that are watched. The folder that it is in tells when it is replaced by another one.
func (w *Watcher) paths() []string { return []string{filepath.Dir(w.dir), w.dir} }

// Close ends the watch, for one that is not started.
func (w *Watcher) Close() error { return w.files.Close() }

// Start calls changed, one call at a time, after the files have changed or were written anew, until ctx ends.
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
				w.watchAgain() // who was watched may not be who is there
				changed()
			}
		case event, ok := <-w.files.Events:
			if !ok {
				return fmt.Errorf("the watch of %s has ended", w.dir)
			}
			if event.Name == w.dir && event.Has(fsnotify.Create) {
				_ = w.files.Add(w.dir) // it may be gone again, which its Read tells
			}
			if event.Name == w.dir || filepath.Dir(event.Name) == w.dir {
				pending.add(isDocument(filepath.Base(event.Name)))
			}
		case _, ok := <-w.files.Errors: // events were lost: look
			if !ok {
				return fmt.Errorf("the watch of %s has ended", w.dir)
			}
			pending.add(true)
		}
	}
}

// differs reports whether the files are others than when it was asked last.
func (w *Watcher) differs() bool {
	now := digest(w.dir)
	differs := now != w.seen
	w.seen = now
	return differs
}

func (w *Watcher) watchAgain() {
	for _, path := range w.paths() {
		_ = w.files.Remove(path)
		_ = w.files.Add(path) // what is not there now may come, and the next look tells
	}
}

// pending are events that are not told yet.
type pending struct {
	timer   *time.Timer
	first   time.Time // zero where there are none
	written bool      // whether one was of a file with documents, and not only of a link or of another file
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

// end forgets them, and reports whether one was of a file with documents.
func (p *pending) end() (written bool) {
	written = p.written
	p.first, p.written = time.Time{}, false
	return written
}
