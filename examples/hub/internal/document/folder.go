// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"errors"

	"github.com/spokewire/sdk-go/examples/internal/folderwatch"
)

// ReadFolder reads all documents in the files of a folder: see [folderwatch.Files]. The error is a
// [*Error] for an invalid file or document.
func ReadFolder(dir string) (*Set, error) {
	var all []*Document
	err := folderwatch.Files(dir, func(file string, data []byte) error {
		if len(data) == 0 { // it may be incomplete
			return &Error{Where: file, Problem: "empty file: write documents, or remove the file"}
		}
		documents, err := Decode(data, file)
		all = append(all, documents...)
		return err
	})
	if wrong, ok := errors.AsType[*folderwatch.FileError](err); ok {
		err = &Error{Where: wrong.File, Problem: wrong.Problem}
	}
	if err != nil {
		return nil, err
	}
	return NewSet(all...)
}
