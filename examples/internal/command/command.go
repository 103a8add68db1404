// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package command has the common parts of the command lines of the examples: help on standard
// output, mistakes in one line on standard error, exit statuses, an end by Ctrl-C, and the flags for
// brokers and clusters.
//
//	func main() { command.Main(run) }
//
//	func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
//		p := command.Program[options]{Name: "policy-watcher", Usage: usage, Parse: parse}
//		return p.Run(args, stdout, stderr, func(o options) error { return policyWatcher(ctx, o, stdout) })
//	}
package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sync/errgroup"
)

// Exit statuses other than 0.
const (
	Failed = 1
	Misuse = 2
)

// Main runs a program, and ends the process with the status that run returns. The context ends with
// an interrupt or SIGTERM. A second signal ends the process at once.
func Main(run func(ctx context.Context, args []string, stdout, stderr io.Writer) int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the next signal ends the process
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// Program is a program with options of type O.
type Program[O any] struct {
	// Name is the prefix of messages.
	Name string
	// Usage is the text of --help.
	Usage string
	// Parse reads arguments, without the program's name. It returns [flag.ErrHelp] for a request
	// for help.
	Parse func(args []string) (O, error)
	// Check checks the values of the command line, such as files, once before the start. Its error
	// is also a mistake in the command line. Nil checks nothing.
	Check func(O) error
}

// Run reads the arguments. It handles --help, --version and a mistake itself, and otherwise calls
// do. It returns the exit status: 0, [Failed] after an error of do or of the output, or [Misuse].
func (p Program[O]) Run(args []string, stdout, stderr io.Writer, do func(O) error) int {
	if isVersion(args) {
		p.Usage, args = version(p.Name), []string{"--help"}
	}
	o, err := p.Parse(args)
	if err == nil && p.Check != nil {
		err = p.Check(o)
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		_, err = io.WriteString(stdout, p.Usage)
	case err != nil:
		_, _ = fmt.Fprintf(stderr, "%s: %v\nRun with --help for the usage.\n", p.Name, err)
		return Misuse
	default:
		err = do(o)
	}
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "%s: %v\n", p.Name, err)
		return Failed
	}
	return 0
}

// Together runs all parts of a program until ctx ends or one of them fails, which stops the others.
// It returns the first error.
func Together(ctx context.Context, parts ...func(context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, part := range parts {
		group.Go(func() error { return part(ctx) })
	}
	return group.Wait()
}
