// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net"

	"github.com/spokewire/sdk-go/examples/internal/command"
)

// usage is the text of --help.
const usage = `Usage: go run ./examples/policy-watcher [flags]

Renders the templates of policies, and renders them again when a Secret or ConfigMap that a template
refers to is created, changed or deleted. Installs the CRD of policies.

  --kubeconfig FILE  the kubeconfig of the cluster (default: the environment variable KUBECONFIG,
                     the pod's configuration, or ~/.kube/config)
  --metrics ADDRESS  serve /metrics at this address; 0 turns it off (default :8080)
  --help             show this help

Exit status: 0 after an interrupt, 1 after a failure, 2 for a wrong command line.
`

// options are the options of the command line.
type options struct{ Kubeconfig, Metrics string }

// parse reads arguments, without the program's name. It returns [flag.ErrHelp] for a request for
// help.
func parse(args []string) (options, error) {
	var o options
	flags := command.NewFlags("policy-watcher")
	flags.StringVar(&o.Kubeconfig, "kubeconfig", "", "")
	flags.StringVar(&o.Metrics, "metrics", ":8080", "")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	if err := flags.NotEmpty("kubeconfig"); err != nil {
		return options{}, err
	}
	if _, _, err := net.SplitHostPort(o.Metrics); err != nil && o.Metrics != "0" {
		return options{}, fmt.Errorf("--metrics must be a host:port, or 0: %w", err)
	}
	return o, nil
}
