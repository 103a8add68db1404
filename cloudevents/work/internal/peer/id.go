// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"strconv"
	"sync/atomic"

	"github.com/google/uuid"
)

// IDSequence makes CloudEvents IDs. A random prefix makes them unique to the process, and a counter
// makes them unique within it. This costs a tenth of a random UUID.
type IDSequence struct {
	prefix string
	last   atomic.Uint64
}

// NewIDSequence returns a sequence with a new prefix.
func NewIDSequence() *IDSequence { return &IDSequence{prefix: uuid.NewString()[:18] + "-"} }

// Next returns the next ID.
func (s *IDSequence) Next() string { return s.prefix + strconv.FormatUint(s.last.Add(1), 36) }
