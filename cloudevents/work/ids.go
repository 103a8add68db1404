// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"sync/atomic"

	"github.com/google/uuid"
)

// SourceID makes the source ID that the enhancement describes for a consumer on a hub cluster: a hash of the
// hub's URL (the first 8 bytes of its SHA-256, in hex), a dash and the consumer's name.
func SourceID(hubURL, consumer string) string {
	sum := sha256.Sum256([]byte(hubURL))
	return hex.EncodeToString(sum[:8]) + "-" + consumer
}

// idSequence makes CloudEvents ids: unique to the process by a random prefix, within it by a counter. That
// costs a tenth of a random UUID.
type idSequence struct {
	prefix string
	last   atomic.Uint64
}

func newIDSequence() *idSequence { return &idSequence{prefix: uuid.NewString()[:18] + "-"} }

func (s *idSequence) next() string { return s.prefix + strconv.FormatUint(s.last.Add(1), 36) }
