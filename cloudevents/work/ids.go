// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"strconv"
	"sync/atomic"

	"github.com/google/uuid"
)

// idSequence makes CloudEvents ids: unique to the process by a random prefix, within it by a counter. That
// costs a tenth of a random UUID.
type idSequence struct {
	prefix string
	last   atomic.Uint64
}

func newIDSequence() *idSequence { return &idSequence{prefix: uuid.NewString()[:18] + "-"} }

func (s *idSequence) next() string { return s.prefix + strconv.FormatUint(s.last.Add(1), 36) }
