// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package cli reads the command line of policy-watcher.
package cli

import (
	"fmt"
	"net"

	"github.com/spokewire/sdk-go/examples/internal/command"
)

// Usage is the text of --help.
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

// Options are the options of the command line.
type Options struct {
	Kubeconfig, Metrics string
	Verbosity           int
}

// Parse reads arguments, without the program's name. It returns [flag.ErrHelp] for a request for
// help.
func Parse(args []string) (Options, error) {
	var o Options
	flags := command.NewFlags("policy-watcher")
	flags.StringVar(&o.Kubeconfig, "kubeconfig", "", "")
	flags.StringVar(&o.Metrics, "metrics", ":8080", "")
	flags.IntVar(&o.Verbosity, "v", 0, "")
	if err := flags.Parse(args); err != nil {
		return Options{}, err
	}
	if err := flags.NotEmpty("kubeconfig"); err != nil {
		return Options{}, err
	}
	if _, _, err := net.SplitHostPort(o.Metrics); err != nil && o.Metrics != "0" {
		return Options{}, fmt.Errorf("--metrics must be a host:port, or 0: %w", err)
	}
	return o, command.Within("v", o.Verbosity, 0, 10)
}
