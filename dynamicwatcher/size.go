// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher

import (
	"math/bits"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// These sizes are in bytes, for Go 1.26 on a 64-bit processor.
const (
	sizeOfPointer = 8
	sizeOfString  = 16 // its header
	sizeOfSlice   = 24 // its header
	sizeOfAny     = 16
	sizeOfMap     = 48
	sizeOfTable   = 40  // of a map with more than 8 entries
	sizeOfGroup   = 264 // of 8 entries of a map[string]any
	sizeOfEntry   = 450 // of the object cache: its identifier in the map, the list's element and the entry
)

func entrySize(id ObjectIdentifier, objects []unstructured.Unstructured) int64 {
	n := sizeOfEntry + allocated(len(objects)*sizeOfPointer)
	for _, s := range []string{id.Group, id.Version, id.Kind, id.Namespace, id.Name, id.Selector} {
		n += allocated(len(s))
	}
	for i := range objects {
		n += sizeOf(objects[i].Object)
	}
	return int64(n)
}

// sizeOf returns the approximate size of a value of a decoded JSON document, without its interface.
func sizeOf(value any) int {
	switch v := value.(type) {
	case string:
		return sizeOfString + allocated(len(v))
	case int64, float64:
		return 16 // the runtime packs two into a block, which stays while one of them does
	case []any:
		n := sizeOfSlice + allocated(cap(v)*sizeOfAny)
		for _, element := range v {
			n += sizeOf(element)
		}
		return n
	case map[string]any:
		n := sizeOfMap + allocated(sizeOfGroup)
		if len(v) > 8 { // a power of two of groups, which are filled to seven eighths
			groups := 1 << bits.Len(uint((len(v)*8+6)/7-1)>>3)
			n = sizeOfMap + sizeOfTable + allocated(groups*sizeOfGroup)
		}
		for key, element := range v {
			n += allocated(len(key)) + sizeOf(element)
		}
		return n
	}
	return 0
}

// allocated returns the approximate size of the Go runtime's block for n bytes.
func allocated(n int) int {
	switch {
	case n == 0:
		return 0
	case n <= 32:
		return (n + 7) &^ 7
	case n <= 256:
		return (n + 15) &^ 15
	}
	return n + n/16
}
