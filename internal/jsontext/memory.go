// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package jsontext

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
)

const (
	// A decoded value may need minMemory, or memoryFactor times its text if that is more. An empty
	// container of a pod has three bytes of text, and needs hundreds.
	minMemory    = 64 << 20
	memoryFactor = 8
	// mapCost is the memory of a map entry in addition to its key and value.
	mapCost = 16
	// valueCost and objectCost are the memory of values and objects without a Go type.
	valueCost  = 40
	objectCost = 336
)

// rawType is decoded to a copy of its text.
var rawType = reflect.TypeFor[runtime.RawExtension]()

// MemoryError is returned for a value that would need too much memory.
type MemoryError struct{ limit int }

// Error returns a text with the limit.
func (e *MemoryError) Error() string {
	return fmt.Sprintf("it has so many small parts that it would take more than %d bytes of memory", e.limit)
}

// Memory returns approximately how much memory a value needs when it is decoded without a Go type.
// The error is a [*MemoryError] if that exceeds the limit for one value.
func Memory(data []byte) (int, error) {
	limit := memoryOf(data)
	size := weigh(data, limit)
	if size > limit {
		return size, &MemoryError{limit}
	}
	return size, nil
}

func memoryOf(data []byte) int { return max(minMemory, memoryFactor*len(data)) }

// Count returns the number of members and elements in a value at all levels. It stops above a
// limit.
func Count(data []byte, limit int) (n int) {
	for i := 0; i < len(data) && n <= limit; i++ {
		switch data[i] {
		case '"':
			i = skipString(data, i) - 1
		case ',':
			n++
		case '[', '{':
			if first := skipSpace(data, i+1); first < len(data) && data[first] != ']' && data[first] != '}' {
				n++
			}
		}
	}
	return n
}

// weigh is [Memory] without the error. It stops above a limit.
func weigh(data []byte, limit int) int {
	size := len(data)
	for i := 0; i < len(data) && size <= limit; i++ {
		switch data[i] {
		case '"':
			i = skipString(data, i) - 1
		case ',', '[':
			size += valueCost
		case '{':
			size += objectCost
		}
	}
	return size
}
