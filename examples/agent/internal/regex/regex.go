// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package regex matches regular expressions from outside. A match cannot be interrupted, so it takes its steps before: the
// size of the compiled expression times the length of the text.
package regex

import (
	"fmt"
	"regexp"
	"regexp/syntax"

	"github.com/spokewire/sdk-go/examples/agent/internal/budget"
)

const (
	// longest bounds an expression, in bytes.
	longest = 2 << 10
	// mostInstructions bounds a compiled expression. Counted repeats multiply: (a{10}){10} has 100 and more.
	mostInstructions = 4096
)

// Match reports whether text has a match of pattern. It takes steps for compiling and for matching.
func Match(steps *budget.Steps, pattern, text string) (bool, error) {
	if len(pattern) > longest {
		return false, fmt.Errorf("the regular expression has %d bytes, more than %d", len(pattern), longest)
	}
	if err := steps.Take("parsing a regular expression", 8*len(pattern)); err != nil {
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
	// 8 instructions for a character are about as fast as a step, and compiling one takes as long as 16 steps.
	if err := steps.Take("a regular expression", 16*n+n*len(text)/8); err != nil {
		return false, err
	}
	compiled, err := regexp.Compile(pattern)
	if err != nil {
		return false, err
	}
	return compiled.MatchString(text), nil
}

// instructions returns an upper bound of the size of a compiled expression, or a number above the limit.
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
