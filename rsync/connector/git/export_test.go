// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package git

import "io"

// ReadPack returns the bytes of the folders and commits of a pack. Each folder is decoded.
func ReadPack(r io.Reader, limit int64) (size int, err error) {
	kept, err := readPack(r, limit)
	for _, o := range kept {
		size += len(o.raw)
		_, _ = decodeTree(o.raw) // of a commit as well
	}
	return size, err
}
