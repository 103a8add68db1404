// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"context"
	"errors"
)

// Change is the Change of package work.
type Change = struct {
	Key   string
	Value []byte
}

// Loader is the part of a Store that a new process reads.
type Loader interface {
	Load(ctx context.Context, f func(key string, value []byte) error) error
}

// Store is the Store of package work, which documents its duties.
type Store interface {
	Loader
	Apply(ctx context.Context, changes []Change) error
}

// SharedStore is the SharedStore of package work.
type SharedStore interface {
	Store
	ApplyIf(ctx context.Context, condition Change, changes []Change) error
	Follow(ctx context.Context, position string, keys []string, f func(Batch) error) error
}

// Batch is the Batch of package work.
type Batch = struct {
	Changes  []Change
	Position string
}

// ErrCondition is the ErrCondition of package work.
var ErrCondition = errors.New("the record of the condition has another value")

// ErrBehind is the ErrBehind of package work.
var ErrBehind = errors.New("the store does not have all changes since the position")
