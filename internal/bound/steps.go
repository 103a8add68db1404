// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package bound limits the time and the memory of untrusted expressions.
package bound

import (
	"errors"
	"fmt"
)

const (
	// Most is the maximum number of steps of one call of a function. A step is about 10 ns, or 10
	// bytes of memory.
	Most = 1_000_000
	// Together is the maximum number of steps of one evaluation.
	Together = 4 * Most
	// TooMany is the text of the error for an evaluation with more steps.
	TooMany = "the expression takes more than 4,000,000 steps: make it simpler"
)

// Steps limits the time and the memory of calls that a context cannot interrupt. Callers reserve
// steps before each such call. Steps are for one evaluation and one goroutine. The zero value is
// ready to use.
type Steps struct {
	taken int
	err   error
}

// Take reserves n steps for the named call. It returns an error if a limit is exceeded, and then in
// all later calls.
func (s *Steps) Take(name string, n int) error {
	switch {
	case s.err != nil:
	case n > Most:
		s.err = fmt.Errorf("%s would take more than 1,000,000 steps: make it simpler", name)
	case s.taken+n > Together:
		s.err = errors.New(TooMany)
	default:
		s.taken += n
	}
	return s.err
}

// Err returns the first error of Take.
func (s *Steps) Err() error { return s.err }
