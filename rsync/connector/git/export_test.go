// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package git

import "io"

// ReadPack returns the bytes of the folders and commits of a pack, and of its files if files is set. Each folder is decoded.
func ReadPack(r io.Reader, limit int64, files bool) (size int, err error) {
	kept, err := readPack(r, limit, files)
	for _, o := range kept {
		size += len(o.raw)
		_, _ = decodeTree(o.raw) // of a commit as well
	}
	return size, err
}
