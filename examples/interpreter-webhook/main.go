// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command interpreter-webhook shows both sides of resource interpreter webhooks.
//
//	go run ./examples/interpreter-webhook explain FILE        what is known of each object of a YAML file
//	go run ./examples/interpreter-webhook serve --certs DIR   a webhook for the custom resource Workload
//
// Explain runs the webhook in its own process, behind TLS on the loopback, and asks it about Workloads; built-in kinds it
// knows itself. It needs no cluster.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spokewire/sdk-go/examples/interpreter-webhook/internal/explain"
	"github.com/spokewire/sdk-go/examples/interpreter-webhook/internal/workload"
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

  explain FILE         say what a control plane learns of each object of a YAML file
  serve --certs DIR    serve the webhook with tls.crt and tls.key of DIR, at --addr HOST:PORT (default :9443)
  --help               show this`

func run(ctx context.Context, args []string, out io.Writer) error {
	if slices.ContainsFunc(args, func(arg string) bool { return arg == "-h" || arg == "-help" || arg == "--help" }) {
		_, err := fmt.Fprintln(out, usage)
		return err
	}
	if len(args) == 0 {
		return fmt.Errorf("%s", usage)
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.Usage = func() {} // what is wrong is said once, by main
	switch args[0] {
	case "serve":
		certs, addr := flags.String("certs", "", "folder of tls.crt and tls.key"), flags.String("addr", ":9443", "where to listen")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		return serve(ctx, interpreter.ServerOptions{Addr: *addr, CertDir: *certs})
	case "explain":
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		if flags.NArg() != 1 {
			return fmt.Errorf("%s", usage)
		}
		return explain.File(ctx, flags.Arg(0), out)
	}
	return fmt.Errorf("there is no %q\n%s", args[0], usage)
}

// serve is all that a webhook is.
func serve(ctx context.Context, options interpreter.ServerOptions) error {
	server, err := interpreter.NewServer(options)
	if err != nil {
		return err
	}
	if err := interpreter.Register(server, "/interpret-workload", workload.Handler()); err != nil {
		return err
	}
	return server.Start(ctx)
}
