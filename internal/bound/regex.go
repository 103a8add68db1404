// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package bound

import (
	"fmt"
	"regexp"
	"regexp/syntax"
)

const (
	// longestPattern is the maximum length of an expression, in bytes.
	longestPattern = 2 << 10
	// mostInstructions is the maximum size of a compiled expression. Counted repeats multiply:
	// (a{10}){10} has 100 and more.
	mostInstructions = 4096
)

// Match reports whether text has a match of a regular expression. Since that cannot be interrupted,
// it first reserves the steps to compile the expression, and the size of the compiled expression
// times the length of the text.
func (s *Steps) Match(pattern, text string) (bool, error) {
	if len(pattern) > longestPattern {
		return false, fmt.Errorf("the regular expression has %d bytes, more than %d", len(pattern), longestPattern)
	}
	if err := s.Take("parsing a regular expression", 8*len(pattern)); err != nil {
		return false, err
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return false, err
	}
	n := instructions(parsed)
	if n > mostInstructions {
		return false, fmt.Errorf("the regular expression has more than %d instructions: repeat less", mostInstructions)
	}
	// Running 8 instructions for a character takes about as long as a step. Compiling an
	// instruction takes as long as 16 steps.
	if err := s.Take("a regular expression", 16*n+n*len(text)/8); err != nil {
		return false, err
	}
	compiled, err := regexp.Compile(pattern)
	if err != nil {
		return false, err
	}
	return compiled.MatchString(text), nil
}

// instructions returns an upper limit of the size of a compiled expression. If that exceeds
// mostInstructions, it returns mostInstructions+1.
func instructions(re *syntax.Regexp) int {
	n := 1
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		n = min(n+1+instructions(sub), mostInstructions+1)
	}
	switch re.Op {
	case syntax.OpCapture:
		n++
	case syntax.OpRepeat:
		times := re.Max
		if times < 0 {
			times = re.Min + 1
		}
		n *= 1 + times
	}
	return min(n, mostInstructions+1)
}
