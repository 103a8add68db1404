// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package git

import "io"

// ReadPack returns the size of the folders and commits of a pack, in bytes, and of its files if
// files is set. It decodes each folder.
func ReadPack(r io.Reader, limit int64, files bool) (size int, err error) {
	kept, err := readPack(r, limit, files)
	for _, o := range kept {
		size += len(o.raw)
		_, _ = decodeTree(o.raw) // commits too
	}
	return size, err
}
