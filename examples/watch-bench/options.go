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

Watches objects one by one with the dynamic watcher, and prints how long that takes, what it costs
and how soon changes are reconciled. The objects are ConfigMaps in a namespace made for it.

  --kubeconfig FILE  the cluster (default: the environment variable KUBECONFIG, the pod's cluster,
                     or ~/.kube/config)
  --objects N        how many objects are watched (default 1000)
  --watchers N       for how many watchers, by turns (default 100)
  --size BYTES       how large an object is (default 1000)
  --updates N        how many changes are made, one after the other (default 500)
  --consolidate      let one watch on the namespace take over from those on single objects
  --timeout D        fail when it takes longer (default 10m)
  --json             print the result as JSON, and nothing else
  --verbose          log what the SDK does, to standard error
  --help             show this

Exit status: 0 when all went well, 1 when it did not, 2 for a wrong command line.
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
	}{{"objects", o.Objects, 1, 100_000}, {"watchers", o.Watchers, 1, o.Objects}, {"size", o.Size, 0, 1_000_000}, {"updates", o.Updates, 1, 1_000_000}} {
		if err := command.Within(n.name, n.value, n.min, n.max); err != nil {
			return options{}, err
		}
	}
	return o, nil
}
