// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package budget

import "fmt"

const (
	// MostSteps is how many steps one call of a function may take. A step is about 10 ns, or 10 bytes of memory.
	MostSteps = 1_000_000
	// stepsTogether is how many steps one evaluation may take.
	stepsTogether = 4 * MostSteps
)

// Steps bounds the time and the memory of calls that a context cannot interrupt. Callers take steps before each such call.
// Steps are for one evaluation and one goroutine. The zero value is ready to use.
type Steps struct {
	taken int
	err   error
}

// Take takes n steps for the named call. It returns an error when they are too many, and from then on.
func (s *Steps) Take(name string, n int) error {
	switch {
	case s.err != nil:
	case n > MostSteps:
		s.err = fmt.Errorf("%s would take more than %d steps", name, MostSteps)
	case s.taken+n > stepsTogether:
		s.err = fmt.Errorf("cost limit exceeded: %s would take more steps than the %d of one evaluation", name, stepsTogether)
	default:
		s.taken += n
	}
	return s.err
}

// Err returns the first error of Take.
func (s *Steps) Err() error { return s.err }
