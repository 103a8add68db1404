// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package cli reads the command line of watch-bench.
package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/spokewire/sdk-go/examples/watch-bench/internal/bench"
)

// Usage is what --help shows.
const Usage = `Usage: go run ./examples/watch-bench [flags]

Watches objects one by one with the dynamic watcher, and prints how long that takes, what it costs
and how soon changes are reconciled. The objects are ConfigMaps in a namespace made for it.

  --kubeconfig FILE  the cluster (default: the environment variable KUBECONFIG, the pod's cluster,
                     or ~/.kube/config)
  --objects N        how many objects are watched (default 1000)
  --watchers N       for how many watchers, by turns (default 100)
  --size BYTES       how large an object is (default 1000)
  --updates N        how many changes are made, one after the other (default 500)
  --timeout D        fail when it takes longer (default 10m)
  --json             print the result as JSON, and nothing else
  --verbose          log what the SDK does, to standard error
  --help             show this

Exit status: 0 when all went well, 1 when it did not, 2 for a wrong command line.
`

// Exit statuses beside 0.
const (
	Failed = 1
	Misuse = 2
)

// Options is what the command line asks for.
type Options struct {
	bench.Options
	Kubeconfig    string
	Timeout       time.Duration
	JSON, Verbose bool
}

// Handle reads arguments and answers what is no run: a request for help, or a mistake. Then ok is false and status is
// what to exit with.
func Handle(args []string, stdout, stderr io.Writer) (o Options, status int, ok bool) {
	o, err := Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		if _, err := io.WriteString(stdout, Usage); err != nil {
			_, _ = fmt.Fprintf(stderr, "watch-bench: %v\n", err)
			return o, Failed, false
		}
		return o, 0, false
	case err != nil:
		_, _ = fmt.Fprintf(stderr, "watch-bench: %v\nRun with --help to see what there is.\n", err)
		return o, Misuse, false
	}
	return o, 0, true
}

// Parse reads arguments, without the program's name. It returns [flag.ErrHelp] when help is asked for.
func Parse(args []string) (Options, error) {
	var o Options
	flags := flag.NewFlagSet("watch-bench", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // errors are returned, and help is Usage
	flags.StringVar(&o.Kubeconfig, "kubeconfig", "", "")
	flags.IntVar(&o.Objects, "objects", 1000, "")
	flags.IntVar(&o.Watchers, "watchers", 100, "")
	flags.IntVar(&o.Size, "size", 1000, "")
	flags.IntVar(&o.Updates, "updates", 500, "")
	flags.DurationVar(&o.Timeout, "timeout", 10*time.Minute, "")
	flags.BoolVar(&o.JSON, "json", false, "")
	flags.BoolVar(&o.Verbose, "verbose", false, "")
	if err := flags.Parse(args); err != nil {
		return Options{}, err
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	switch {
	case flags.NArg() > 0:
		return Options{}, fmt.Errorf("unknown argument %q", flags.Arg(0))
	case given["kubeconfig"] && strings.TrimSpace(o.Kubeconfig) == "":
		return Options{}, errors.New("--kubeconfig must not be empty")
	case o.Timeout < time.Second:
		return Options{}, fmt.Errorf("--timeout must be at least 1s, not %v", o.Timeout)
	}
	for _, n := range []struct {
		name            string
		value, min, max int
	}{{"objects", o.Objects, 1, 100_000}, {"watchers", o.Watchers, 1, o.Objects}, {"size", o.Size, 0, 1_000_000}, {"updates", o.Updates, 1, 1_000_000}} {
		if n.value < n.min || n.value > n.max {
			if n.name == "watchers" && !given[n.name] {
				o.Watchers = o.Objects
				continue
			}
			return Options{}, fmt.Errorf("--%s must be from %d to %d, not %d", n.name, n.min, n.max, n.value)
		}
	}
	return o, nil
}

// Config is the way to the cluster.
func (o Options) Config() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules() // which end in the pod's own
	rules.ExplicitPath = o.Kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
}
