// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package jsonpatch

import jsonpatch "gopkg.in/evanphx/json-patch.v4"

// maxMergeCost is the maximum number of bytes that a merge reads, which takes about two seconds.
// The merge reads a value once for each object or list around it.
const maxMergeCost = 1 << 27

// alwaysCheap is a size below which no nesting reaches maxMergeCost.
const alwaysCheap = 8 << 10

// Merge applies a JSON merge patch to a document and returns the result. It fails with
// [ErrTooExpensive] for large values that are nested deeply.
func Merge(doc, patch []byte) ([]byte, error) {
	if len(doc)+len(patch) > alwaysCheap {
		cost, depth := mergeCost(patch, maxDepth)
		inDoc, _ := mergeCost(doc, depth)
		if cost+inDoc > maxMergeCost {
			return nil, ErrTooExpensive
		}
	}
	return jsonpatch.MergePatch(doc, patch)
}

// mergeCost returns the sum of the bytes' depths, each at most limit, and the greatest depth.
func mergeCost(data []byte, limit int) (cost, deepest int) {
	depth, quoted := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
		cost += min(depth, limit)
	}
	return cost, deepest
}
