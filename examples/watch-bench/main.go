// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Watch-bench measures the dynamic watcher against the cluster of a kubeconfig: how long it takes to watch a number of
// objects for a number of watchers, in how many requests and connections, with how much memory and how many goroutines,
// what an event costs on the wire, and how long it takes from a write to the reconcile.
//
//	go run ./examples/watch-bench --kubeconfig ~/.kube/config
//	go run ./examples/watch-bench --objects 10000 --watchers 100 --size 500000
//
// It creates a namespace of its own with the objects, which are ConfigMaps, and deletes it at the end. What is measured
// is in internal/bench.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/spokewire/sdk-go/examples/watch-bench/internal/bench"
	"github.com/spokewire/sdk-go/examples/watch-bench/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program without its process. It returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, status, ok := cli.Handle(args, stdout, stderr)
	if !ok {
		return status
	}
	var logger klog.Logger // discards
	if o.Verbose {
		logger = textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(stderr)))
	}
	klog.SetLoggerWithOptions(logger, klog.ContextualLogger(true))
	if err := watchBench(ctx, o, stdout); err != nil {
		_, _ = fmt.Fprintf(stderr, "watch-bench: %v\n", err)
		return cli.Failed
	}
	return 0
}

func watchBench(ctx context.Context, o cli.Options, stdout io.Writer) error {
	config, err := o.Config()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.Timeout, fmt.Errorf("not done after %v", o.Timeout))
	defer cancel()
	result, err := bench.Run(ctx, config, o.Options)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return err
	}
	text := result.Text()
	if o.JSON {
		out, _ := json.MarshalIndent(result, "", "  ") // numbers only
		text = string(out) + "\n"
	}
	_, err = io.WriteString(stdout, text)
	return err
}
