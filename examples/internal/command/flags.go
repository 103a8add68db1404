// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"flag"
	"fmt"
	"io"
	"strings"
)

// Flags are the flags of one program. They print nothing: errors are returned, and Usage of the
// program is the help.
type Flags struct{ *flag.FlagSet }

// NewFlags returns an empty set of flags.
func NewFlags(program string) Flags {
	f := flag.NewFlagSet(program, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	return Flags{f}
}

// Parse reads arguments, which must all be flags.
func (f Flags) Parse(args []string) error {
	if err := f.FlagSet.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", f.Arg(0))
	}
	return nil
}

// Given reports whether the arguments had a flag, with any value.
func (f Flags) Given(name string) (given bool) {
	f.Visit(func(g *flag.Flag) { given = given || g.Name == name })
	return given
}

// NotEmpty returns an error for the first of the named flags that has an empty value.
func (f Flags) NotEmpty(names ...string) error {
	for _, name := range names {
		if f.Given(name) && strings.TrimSpace(f.Lookup(name).Value.String()) == "" {
			return fmt.Errorf("--%s must not be empty", name)
		}
	}
	return nil
}

// Within returns an error if the value of a flag is not from lowest to highest.
func Within(name string, value, lowest, highest int) error {
	if value < lowest || value > highest {
		return fmt.Errorf("--%s must be from %d to %d, not %d", name, lowest, highest, value)
	}
	return nil
}
