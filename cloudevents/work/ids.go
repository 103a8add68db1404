// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"strconv"
	"sync/atomic"

	"github.com/google/uuid"
)

// idSequence makes CloudEvents IDs. A random prefix makes them unique to the process, and a counter
// makes them unique within it. This costs a tenth of a random UUID.
type idSequence struct {
	prefix string
	last   atomic.Uint64
}

func newIDSequence() *idSequence { return &idSequence{prefix: uuid.NewString()[:18] + "-"} }

func (s *idSequence) next() string { return s.prefix + strconv.FormatUint(s.last.Add(1), 36) }
