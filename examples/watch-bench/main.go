// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Watch-bench measures the dynamic watcher with the cluster of a kubeconfig. It measures the time
// to watch a number of objects for a number of watchers, with the requests, connections, memory and
// goroutines. It also measures the bytes of an event, and the time from a write to the reconcile.
//
//	go run ./examples/watch-bench --kubeconfig ~/.kube/config
//	go run ./examples/watch-bench --objects 10000 --watchers 100 --size 500000
//
// It creates its own namespace with the objects, which are ConfigMaps, and deletes it at the end.
// The measurements are in internal/bench.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spokewire/sdk-go/examples/internal/command"
	"github.com/spokewire/sdk-go/examples/internal/logging"
	"github.com/spokewire/sdk-go/examples/watch-bench/internal/bench"
)

func main() { command.Main(run) }

// run runs the program, and returns its exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	p := command.Program[options]{Name: "watch-bench", Usage: usage, Parse: parse}
	return p.Run(args, stdout, stderr, func(o options) error {
		ctx, restore := logging.Route(ctx, stderr, o.Verbose)
		defer restore()
		return watchBench(ctx, o, stdout)
	})
}

func watchBench(ctx context.Context, o options, stdout io.Writer) error {
	config, err := command.LoadKubeconfig("--kubeconfig", o.Kubeconfig)
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
