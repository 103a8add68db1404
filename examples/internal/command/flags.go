// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
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

// invalidValue is the form of package flag's error for a value.
var invalidValue = regexp.MustCompile(`(?s)^invalid (?:boolean )?value (".*") for (?:flag )?-([^:]*): (.*)$`)

// ParseFlags reads arguments that begin with flags. Errors have the form of all errors of the examples:
// the flag with two dashes, its value, and the problem.
func (f Flags) ParseFlags(args []string) error {
	err := f.FlagSet.Parse(args)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return err
	}
	if name, ok := strings.CutPrefix(err.Error(), "flag provided but not defined: -"); ok {
		return fmt.Errorf("unknown flag %s", Dashed(name))
	}
	if name, ok := strings.CutPrefix(err.Error(), "flag needs an argument: -"); ok {
		return fmt.Errorf("%s needs a value", Dashed(name))
	}
	found := invalidValue.FindStringSubmatch(err.Error())
	if found == nil {
		return err
	}
	value, name, problem := found[1], found[2], strings.TrimPrefix(found[3], found[1]+": ")
	if problem == "parse error" {
		problem = "must be " + f.typeOf(name)
	}
	return fmt.Errorf("%s: %s: %s", Dashed(name), value, problem)
}

// typeOf describes the values of a flag.
func (f Flags) typeOf(name string) string {
	value, _ := f.Lookup(name).Value.(flag.Getter)
	switch value.Get().(type) {
	case bool:
		return "true or false"
	case time.Duration:
		return "a duration such as 30s or 5m"
	default:
		return "a whole number"
	}
}

// Dashed returns the name of a flag with its dashes.
func Dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// Parse reads arguments, which must all be flags.
func (f Flags) Parse(args []string) error {
	if err := f.ParseFlags(args); err != nil {
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
