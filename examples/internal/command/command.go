// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package command is what the command lines of the examples have in common: help on standard output, mistakes in one
// line on standard error, exit statuses, and an end by Ctrl-C.
//
//	func main() { command.Main(run) }
//
//	func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
//		p := command.Program[cli.Options]{Name: "watch-bench", Usage: cli.Usage, Parse: cli.Parse}
//		return p.Run(args, stdout, stderr, func(o cli.Options) error { return watchBench(ctx, o, stdout) })
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
)

// Exit statuses beside 0.
const (
	Failed = 1
	Misuse = 2
)

// Main runs a program as the process that it is in, and ends that with the status that run returns. The context ends
// with an interrupt or SIGTERM; a second one ends the process at once.
func Main(run func(ctx context.Context, args []string, stdout, stderr io.Writer) int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // and the next signal is the system's again
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// Program is one whose command line asks for an O.
type Program[O any] struct {
	// Name is what messages begin with.
	Name string
	// Usage is what --help shows.
	Usage string
	// Parse reads arguments, without the program's name. It returns [flag.ErrHelp] when help is asked for.
	Parse func(args []string) (O, error)
	// Check looks at what the command line names, as files, once before the start. Its error is a mistake in the command
	// line as well. Nil checks nothing.
	Check func(O) error
}

// Run reads the arguments, and answers a request for help or a mistake itself; otherwise it runs do. It returns the
// exit status: 0, [Failed] where there was an error of do or of the output, or [Misuse].
func (p Program[O]) Run(args []string, stdout, stderr io.Writer, do func(O) error) int {
	o, err := p.Parse(args)
	if err == nil && p.Check != nil {
		err = p.Check(o)
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		_, err = io.WriteString(stdout, p.Usage)
	case err != nil:
		_, _ = fmt.Fprintf(stderr, "%s: %v\nRun with --help to see what there is.\n", p.Name, err)
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
