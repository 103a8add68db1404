// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"strings"
)

// Limits is an optional interface of stores that have their own limits.
type Limits interface {
	// MaxTxnBytes limits the bytes of keys and values in a transaction. MaxTxnOps limits the number
	// of compares, and separately the number of ops.
	MaxTxnBytes() int
	MaxTxnOps() int
}

// The limits of a store without the interface Limits. They are below etcd's default limits, 1.5 MiB
// and 128.
const (
	DefaultMaxTxnBytes = 1280 << 10
	DefaultMaxTxnOps   = 120
)

// LimitsOf returns a store's limits.
func LimitsOf(s Store) (bytes, ops int) {
	if l, ok := s.(Limits); ok {
		return l.MaxTxnBytes(), l.MaxTxnOps()
	}
	return DefaultMaxTxnBytes, DefaultMaxTxnOps
}

// SizeError is an [ErrTooLarge] with the figures.
type SizeError struct {
	What        string // "bytes" or "operations"
	Key         string // the key of a value that is too large; empty otherwise
	Have, Limit int
}

// Error returns the figures.
func (e *SizeError) Error() string {
	if e.Key != "" {
		return fmt.Sprintf("the value of %s has %d bytes, the limit of a transaction is %d: %s", e.Key, e.Have, e.Limit,
			ErrTooLarge)
	}
	return fmt.Sprintf("the transaction has %d %s, the limit is %d: %s", e.Have, e.What, e.Limit, ErrTooLarge)
}

// Unwrap returns ErrTooLarge.
func (e *SizeError) Unwrap() error { return ErrTooLarge }

// CheckSize returns a *SizeError for a transaction that exceeds the limits.
func CheckSize(compares []Compare, ops []Op, maxBytes, maxOps int) error {
	if n := max(len(compares), len(ops)); n > maxOps {
		return &SizeError{What: "operations", Have: n, Limit: maxOps}
	}
	total := 0
	for _, c := range compares {
		total += len(c.Key)
	}
	for _, op := range ops {
		if len(op.Value) > maxBytes {
			return &SizeError{What: "bytes", Key: op.Key, Have: len(op.Value), Limit: maxBytes}
		}
		total += len(op.Key) + len(op.Value)
	}
	if total > maxBytes {
		return &SizeError{What: "bytes", Have: total, Limit: maxBytes}
	}
	return nil
}

// errPutTwice is returned for a transaction that etcd also rejects.
var errPutTwice = errors.New("a transaction puts a key twice, or puts and deletes it")

// CheckKeys returns an error for a transaction that puts a key twice, or puts and deletes it.
func CheckKeys(ops []Op) error {
	puts := map[string]struct{}{}
	for _, op := range ops {
		if op.Kind != OpKindPut {
			continue
		}
		if _, twice := puts[op.Key]; twice {
			return fmt.Errorf("%w: %s", errPutTwice, op.Key)
		}
		puts[op.Key] = struct{}{}
	}
	for _, op := range ops {
		switch op.Kind {
		case OpKindDelete:
			if _, put := puts[op.Key]; put {
				return fmt.Errorf("%w: %s", errPutTwice, op.Key)
			}
		case OpKindDeletePrefix:
			for key := range puts {
				if strings.HasPrefix(key, op.Key) {
					return fmt.Errorf("%w: %s", errPutTwice, key)
				}
			}
		}
	}
	return nil
}
