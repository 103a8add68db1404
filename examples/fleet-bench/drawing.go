// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io/fs"
	"os"

	"github.com/spokewire/sdk-go/examples/fleet-bench/internal/report"
)

// drawing is the output file of the drawing. An existing file stays unchanged until the drawing is
// written.
type drawing struct {
	file  *os.File
	isNew bool
}

// openDrawing opens a file, or returns nil for an empty name.
func openDrawing(name string) (*drawing, error) {
	if name == "" {
		return nil, nil
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrExist) {
		file, err = os.OpenFile(name, os.O_WRONLY, 0)
		return &drawing{file: file}, err
	}
	return &drawing{file: file, isNew: true}, err
}

func (d *drawing) draw(r *report.Report) error {
	if d == nil {
		return nil
	}
	d.isNew = false
	if info, err := d.file.Stat(); err == nil && info.Mode().IsRegular() {
		if err := d.file.Truncate(0); err != nil {
			return err
		}
	}
	return report.Draw(d.file, r)
}

// close removes a new file without a drawing.
func (d *drawing) close() {
	if d == nil {
		return
	}
	_ = d.file.Close()
	if d.isNew {
		_ = os.Remove(d.file.Name())
	}
}
