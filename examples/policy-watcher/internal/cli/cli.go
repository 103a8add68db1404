// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package cli reads the command line of policy-watcher.
package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Usage is what --help shows.
const Usage = `Usage: go run ./examples/policy-watcher [flags]

Renders the templates of policies, and renders them anew when a Secret or ConfigMap that a template
names is created, changed or deleted. Installs the CRD of policies.

  --kubeconfig FILE  the cluster (default: the environment variable KUBECONFIG, the pod's cluster,
                     or ~/.kube/config)
  --metrics ADDRESS  where /metrics is served, or 0 for nowhere (default :8080)
  --v N              how much is logged, to standard error (default 0)
  --help             show this

Exit status: 0 after an interrupt, 1 when it failed, 2 for a wrong command line.
`

// Exit statuses beside 0.
const (
	Failed = 1
	Misuse = 2
)

// Options is what the command line asks for.
type Options struct {
	Kubeconfig, Metrics string
	Verbosity           int
}

// Handle reads arguments and answers what is no run: a request for help, or a mistake. Then ok is false and status is
// what to exit with.
func Handle(args []string, stdout, stderr io.Writer) (o Options, status int, ok bool) {
	o, err := Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		if _, err := io.WriteString(stdout, Usage); err != nil {
			_, _ = fmt.Fprintf(stderr, "policy-watcher: %v\n", err)
			return o, Failed, false
		}
		return o, 0, false
	case err != nil:
		_, _ = fmt.Fprintf(stderr, "policy-watcher: %v\nRun with --help to see what there is.\n", err)
		return o, Misuse, false
	}
	return o, 0, true
}

// Parse reads arguments, without the program's name. It returns [flag.ErrHelp] when help is asked for.
func Parse(args []string) (Options, error) {
	var o Options
	flags := flag.NewFlagSet("policy-watcher", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // errors are returned, and help is Usage
	flags.StringVar(&o.Kubeconfig, "kubeconfig", "", "")
	flags.StringVar(&o.Metrics, "metrics", ":8080", "")
	flags.IntVar(&o.Verbosity, "v", 0, "")
	if err := flags.Parse(args); err != nil {
		return Options{}, err
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	_, _, err := net.SplitHostPort(o.Metrics)
	switch {
	case flags.NArg() > 0:
		return Options{}, fmt.Errorf("unknown argument %q", flags.Arg(0))
	case given["kubeconfig"] && strings.TrimSpace(o.Kubeconfig) == "":
		return Options{}, errors.New("--kubeconfig must not be empty")
	case o.Metrics != "0" && err != nil:
		return Options{}, fmt.Errorf("--metrics must be a host:port, or 0: %w", err)
	case o.Verbosity < 0 || o.Verbosity > 10:
		return Options{}, fmt.Errorf("--v must be from 0 to 10, not %d", o.Verbosity)
	}
	return o, nil
}

// Config is the way to the cluster.
func (o Options) Config() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules() // which end in the pod's own
	rules.ExplicitPath = o.Kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
}
