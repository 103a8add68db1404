// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command interpreter-webhook shows both sides of resource interpreter webhooks. It needs no cluster.
//
//	go run ./examples/interpreter-webhook explain FILE        print the interpretation of each object of a YAML file
//	go run ./examples/interpreter-webhook serve --certs DIR   serve a webhook for the custom resource Workload
//
// Explain calls the webhook for Workloads, in the same process, with TLS on the loopback interface.
// It also explains the built-in kinds and those of package interpreter/customization/kinds. Add
// kinds or replace answers with files of customizations: in CEL (package
// interpreter/customization), or Karmada's customizations in Lua (package interpreter/lua):
//
//	go run ./examples/interpreter-webhook explain --customizations FILE OBJECTS
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/spokewire/sdk-go/examples/internal/command"
	"github.com/spokewire/sdk-go/interpreter"
)

const usage = `Usage: go run ./examples/interpreter-webhook COMMAND

  explain [--customizations PATH]... FILE
      print replicas, components, health, status and dependencies of each object of a YAML file, in
      JSON and each with the interpreter that answered; a dash means no answer. The
      customizations in PATH, a YAML file or a folder of them, are called before the webhook
  serve --certs DIR [--addr HOST:PORT]
      serve the webhook with tls.crt and tls.key of DIR (default :9443)

Exit status: 0 after success, 1 after an error, also of an interpreter, 2 for a wrong command line.
`

func main() { command.Main(run) }

// run runs the program, and returns its exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	p := command.Program[task]{Name: "interpreter-webhook", Usage: usage, Parse: parse}
	return p.Run(args, stdout, stderr, func(t task) error { return t(ctx, stdout) })
}

// task is a command with its arguments.
type task func(ctx context.Context, out io.Writer) error

func parse(args []string) (task, error) {
	if len(args) == 0 {
		return nil, errors.New("a command is required")
	}
	flags := command.NewFlags(args[0])
	switch args[0] {
	case "-h", "--help":
		return nil, flag.ErrHelp
	case "serve":
		var o interpreter.ServerOptions
		flags.StringVar(&o.CertDir, "certs", "", "")
		flags.StringVar(&o.Addr, "addr", ":9443", "")
		return func(ctx context.Context, _ io.Writer) error {
			server, err := interpreter.NewServer(o)
			if err != nil {
				return err
			}
			if err := interpreter.Register(server, "/interpret-workload", workloadHandler()); err != nil {
				return err
			}
			return server.Start(ctx)
		}, flags.Parse(args[1:])
	case "explain":
		var customized []string
		flags.Func("customizations", "", func(path string) error {
			customized = append(customized, path)
			return nil
		})
		if err := flags.ParseFlags(args[1:]); err != nil {
			return nil, err
		}
		if flags.NArg() != 1 {
			return nil, fmt.Errorf("explain needs one FILE, got %d", flags.NArg())
		}
		return func(ctx context.Context, out io.Writer) error { return explain(ctx, flags.Arg(0), customized, out) }, nil
	}
	return nil, fmt.Errorf("unknown command %q", args[0])
}
