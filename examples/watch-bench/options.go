// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"

	"github.com/spokewire/sdk-go/examples/internal/command"
	"github.com/spokewire/sdk-go/examples/watch-bench/internal/bench"
)

// usage is the text of --help.
const usage = `Usage: go run ./examples/watch-bench [flags]

Watches single objects with the dynamic watcher, and prints the duration, the cost, and the latency
from changes to reconciles. The objects are ConfigMaps in a new namespace.

  --kubeconfig FILE  the kubeconfig of the cluster (default: the environment variable KUBECONFIG,
                     the pod's configuration, or ~/.kube/config)
  --objects N        the number of watched objects (default 1000)
  --watchers N       the number of watchers, which share the objects in turn (default 100)
  --size BYTES       the size of each object (default 1000)
  --updates N        the number of changes, one after the other (default 500)
  --consolidate      let one watch on the namespace replace the watches on single objects
  --timeout D        fail after this time (default 10m)
  --json             print only the result, as JSON
  --verbose          log the activity of the SDK to standard error
  --help             show this help

Exit status: 0 after success, 1 after a failure, 2 for a wrong command line.
`

// options are the options of the command line.
type options struct {
	bench.Options
	Kubeconfig    string
	Timeout       time.Duration
	JSON, Verbose bool
}

// parse reads arguments, without the program's name. It returns [flag.ErrHelp] for a request for
// help.
func parse(args []string) (options, error) {
	var o options
	flags := command.NewFlags("watch-bench")
	flags.StringVar(&o.Kubeconfig, "kubeconfig", "", "")
	flags.IntVar(&o.Objects, "objects", 1000, "")
	flags.IntVar(&o.Watchers, "watchers", 100, "")
	flags.IntVar(&o.Size, "size", 1000, "")
	flags.IntVar(&o.Updates, "updates", 500, "")
	flags.BoolVar(&o.Consolidate, "consolidate", false, "")
	flags.DurationVar(&o.Timeout, "timeout", 10*time.Minute, "")
	flags.BoolVar(&o.JSON, "json", false, "")
	flags.BoolVar(&o.Verbose, "verbose", false, "")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	if err := flags.NotEmpty("kubeconfig"); err != nil {
		return options{}, err
	}
	if o.Timeout < time.Second {
		return options{}, fmt.Errorf("--timeout must be at least 1s, not %v", o.Timeout)
	}
	if !flags.Given("watchers") {
		o.Watchers = min(o.Watchers, max(o.Objects, 1))
	}
	for _, n := range []struct {
		name            string
		value, min, max int
	}{{"objects", o.Objects, 1, 100_000}, {"watchers", o.Watchers, 1, o.Objects}, {"size", o.Size, 0,
		1_000_000}, {"updates", o.Updates, 1, 1_000_000}} {
		if err := command.Within(n.name, n.value, n.min, n.max); err != nil {
			return options{}, err
		}
	}
	return o, nil
}
