// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"errors"
	"time"

	"github.com/spokewire/sdk-go/examples/internal/command"
)

// Usage is the text of --help.
const Usage = `Usage: go run ./examples/quickstart [flags]

Sends Kubernetes manifests from a hub to clusters over an MQTT broker, shows how they
are applied and reported, updates one work, deletes one, and removes everything again.
No other program is needed: by default the broker is embedded and the clusters are in
memory.

  --manifests DIR     the folder of manifests: each .yaml, .yml or .json file becomes one work
                      for each cluster (default: those in examples/quickstart/manifests)
  --clusters N        the number of clusters in memory (default 2)
  --kubeconfig FILE   use a real cluster: the current context of FILE; repeat the flag for
                      more. The objects belong to AppliedWorks, and their CRD is installed
  --broker URL        use another broker: mqtt://, mqtts://, ws:// or wss://
  --broker-timeout D  fail when the broker is unreachable for this time (default 10s)
  --timeout D         fail after this time without progress of a work (default 60s)
  --keep              leave all objects on the real clusters at the end
  --verbose           log the activity of the SDK to standard error
  --help              show this help

Clusters in memory do not validate objects completely: they refuse unknown and mistyped
fields of built-in kinds, but a real cluster may refuse objects that they accept.

Exit status: 0 after success, 1 after a failure, 2 for a wrong command line.
`

// MaxClusters is the limit of --clusters: one process is not suitable for more.
const MaxClusters = 1000

// Options are the options of the command line.
type Options struct {
	// Manifests is the folder to read; "" means the default manifests.
	Manifests string
	// Kubeconfigs are files, one for each real cluster. If empty, Clusters is the number of
	// clusters in memory.
	Kubeconfigs []string
	Clusters    int
	// Broker is the URL of another broker; "" means an embedded one.
	Broker string
	// BrokerTimeout limits how long the broker may be unreachable, at the start or later. Timeout
	// limits the time without progress of all works.
	BrokerTimeout, Timeout time.Duration

	Keep    bool
	Verbose bool
}

// Parse reads arguments, without the program's name. It returns [flag.ErrHelp] for a request for
// help.
func Parse(args []string) (Options, error) {
	var o Options
	flags := command.NewFlags("quickstart")
	flags.StringVar(&o.Manifests, "manifests", "", "")
	flags.IntVar(&o.Clusters, "clusters", 2, "")
	flags.StringVar(&o.Broker, "broker", "", "")
	flags.DurationVar(&o.BrokerTimeout, "broker-timeout", 10*time.Second, "")
	flags.DurationVar(&o.Timeout, "timeout", time.Minute, "")
	flags.BoolVar(&o.Keep, "keep", false, "")
	flags.BoolVar(&o.Verbose, "verbose", false, "")
	flags.Func("kubeconfig", "", func(file string) error {
		if file == "" {
			return errors.New("a file is required")
		}
		o.Kubeconfigs = append(o.Kubeconfigs, file)
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return Options{}, err
	}
	return o, o.validate(flags)
}

func (o Options) validate(flags command.Flags) error {
	if err := flags.NotEmpty("manifests", "broker"); err != nil {
		return err
	}
	if err := command.Within("clusters", o.Clusters, 1, MaxClusters); err != nil {
		return err
	}
	switch {
	case flags.Given("clusters") && len(o.Kubeconfigs) > 0:
		return errors.New("--clusters is for clusters in memory; give --kubeconfig once for each real one")
	case o.Keep && len(o.Kubeconfigs) == 0:
		return errors.New("--keep needs --kubeconfig: clusters in memory end with the program")
	case o.Timeout <= 0 || o.BrokerTimeout <= 0:
		return errors.New("--timeout and --broker-timeout must be more than 0")
	}
	return nil
}
