// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package folder reads the documents of a folder, and tells when they may have changed.
package folder

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/spokewire/sdk-go/examples/hub/internal/document"
)

// quiet is how long nothing must happen before a change is told: editors and kubelets write in several steps.
const quiet = 100 * time.Millisecond

// Read reads all documents in the files of a folder whose names end with .yaml, .yml or .json, and that do not begin with a dot. It looks
// into no folders in it. Its error is a [*document.Error] for what is wrong with a document.
func Read(dir string) (*document.Set, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []*document.Document
	for _, entry := range entries {
		name := entry.Name()
		if !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) || strings.HasPrefix(name, ".") {
			continue
		}
		file := filepath.Join(dir, name)
		// An entry may be a link, as where a ConfigMap is mounted.
		info, err := os.Stat(file)
		if err != nil {
			return nil, err
		}
		if info.IsDir() {
			continue
		}
		if !info.Mode().IsRegular() { // reading a pipe would wait for who writes to it
			return nil, &document.Error{Where: file, Problem: "it is no regular file"}
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if len(data) == 0 { // as when somebody has begun to write it
			return nil, &document.Error{Where: file, Problem: "it is empty: write its documents, or remove it"}
		}
		documents, err := document.Decode(data, file)
		if err != nil {
			return nil, err
		}
		all = append(all, documents...)
	}
	return document.NewSet(all...)
}

// Watcher tells when a folder has changed.
type Watcher struct {
	dir   string
	files *fsnotify.Watcher
}

// Watch begins to watch: what changes from now on is told when Start runs, so that nothing is missed between a Read after it and Start.
func Watch(dir string) (*Watcher, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	files, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", dir, err)
	}
	// The folder that it is in tells when it is replaced by another one.
	for _, path := range []string{filepath.Dir(dir), dir} {
		if err := files.Add(path); err != nil {
			return nil, errors.Join(fmt.Errorf("watch %s: %w", path, err), files.Close())
		}
	}
	return &Watcher{dir, files}, nil
}

// Close ends the watch, for one that is not started.
func (w *Watcher) Close() error { return w.files.Close() }

// Start calls changed, one call at a time, after the folder has changed, until ctx ends.
func (w *Watcher) Start(ctx context.Context, changed func()) error {
	defer func() { _ = w.files.Close() }()
	timer := time.NewTimer(quiet)
	timer.Stop()
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
			changed()
		case event, ok := <-w.files.Events:
			if !ok {
				return fmt.Errorf("the watch of %s has ended", w.dir)
			}
			if event.Name == w.dir && event.Has(fsnotify.Create) {
				_ = w.files.Add(w.dir) // it may be gone again, which its Read tells
			}
			if event.Name == w.dir || filepath.Dir(event.Name) == w.dir {
				timer.Reset(quiet)
			}
		case _, ok := <-w.files.Errors: // events were lost: look
			if !ok {
				return fmt.Errorf("the watch of %s has ended", w.dir)
			}
			timer.Reset(quiet)
		}
	}
}
