// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/spokewire/sdk-go/examples/internal/command"

// usage is the text of --help.
const usage = `Usage: go run ./examples/applied-work [flags]

Applies two versions of manifests to a cluster, as a work with an AppliedWork, and prunes. Then
it deletes the AppliedWork, and waits until all objects are deleted.

  --manifests DIR     a folder of manifests in YAML or JSON; it is applied again after each
                      change, until Ctrl-C (default: two included versions)
  --kubeconfig FILE   the kubeconfig of the cluster (default: as for kubectl)
  --help              show this help
`

// options are the options of the command line.
type options struct{ Manifests, Kubeconfig string }

// parse reads arguments, without the program's name. It returns [flag.ErrHelp] for a request for
// help.
func parse(args []string) (options, error) {
	var o options
	flags := command.NewFlags("applied-work")
	flags.StringVar(&o.Manifests, "manifests", "", "")
	flags.StringVar(&o.Kubeconfig, "kubeconfig", "", "")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	return o, flags.NotEmpty("manifests", "kubeconfig")
}
