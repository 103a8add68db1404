// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command interpreter-webhook shows both sides of resource interpreter webhooks.
//
//	go run ./examples/interpreter-webhook explain FILE        print the interpretation of each object of a YAML file
//	go run ./examples/interpreter-webhook serve --certs DIR   serve a webhook for the custom resource Workload
//
// Explain runs the webhook in the same process, with TLS on the loopback interface, and calls it
// for Workloads. It also explains the built-in kinds and those of package
// interpreter/customization/kinds. It needs no cluster. Files with customizations, in CEL (package
// interpreter/customization) or Karmada's in Lua (package interpreter/lua), add kinds or replace
// answers:
//
//	go run ./examples/interpreter-webhook explain --customizations FILE OBJECTS
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spokewire/sdk-go/examples/internal/customizations"
	"github.com/spokewire/sdk-go/interpreter"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

const usage = `Usage: go run ./examples/interpreter-webhook COMMAND

  explain FILE         print replicas, components, health, status and dependencies of each object
                       of a YAML file, each with the interpreter that answered. A dash means that no
                       interpreter answered, and "none" is an empty list
      --customizations PATH
                       use the customizations in PATH, a YAML file or a folder of them, before the
                       webhook; repeat the flag for more
  serve --certs DIR    serve the webhook with tls.crt and tls.key of DIR, at --addr HOST:PORT
                       (default :9443)
  --help               show this help

Exit status: 0 after success, 1 after an error, also of an interpreter`

func run(ctx context.Context, args []string, out io.Writer) error {
	if slices.ContainsFunc(args, func(arg string) bool { return arg == "-h" || arg == "-help" || arg == "--help" }) {
		_, err := fmt.Fprintln(out, usage)
		return err
	}
	if len(args) == 0 {
		return fmt.Errorf("a command is required\n%s", usage)
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.Usage = func() {} // main prints the error
	switch args[0] {
	case "serve":
		certs, addr := flags.String("certs", "", "folder of tls.crt and tls.key"), flags.String("addr", ":9443",
			"where to listen")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		return serve(ctx, interpreter.ServerOptions{Addr: *addr, CertDir: *certs})
	case "explain":
		var paths []string
		flags.Func(strings.TrimPrefix(customizations.Flag, "--"), "a file or folder", func(path string) error {
			paths = append(paths, path)
			return nil
		})
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		if flags.NArg() != 1 {
			return fmt.Errorf("explain needs one FILE, got %d\n%s", flags.NArg(), usage)
		}
		return explain(ctx, flags.Arg(0), paths, out)
	}
	return fmt.Errorf("unknown command %q\n%s", args[0], usage)
}

// serve runs the webhook until ctx ends.
func serve(ctx context.Context, options interpreter.ServerOptions) error {
	server, err := interpreter.NewServer(options)
	if err != nil {
		return err
	}
	if err := interpreter.Register(server, "/interpret-workload", workloadHandler()); err != nil {
		return err
	}
	return server.Start(ctx)
}
