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
are applied and reported, updates one, deletes one, and removes everything again.
Without flags it needs nothing: the broker is embedded and the clusters are in memory.

  --manifests DIR     manifests to send: each .yaml, .yml or .json file in DIR becomes one
                      work for each cluster (default: the ones in examples/quickstart/manifests)
  --clusters N        how many clusters to have in memory (default 2)
  --kubeconfig FILE   use a real cluster instead, by FILE's current context; once per cluster.
                      What works bring there belongs to AppliedWorks, whose CRD is installed
  --broker URL        use a broker that runs elsewhere: mqtt://, mqtts://, ws:// or wss://
  --broker-timeout D  fail when the broker is out of reach for so long (default 10s)
  --timeout D         fail when no work gets any further for so long (default 60s)
  --keep              leave everything on the real clusters in the end
  --verbose           log what the SDK does, to standard error
  --help              show this

Clusters in memory do not validate objects: they refuse unknown and mistyped fields of
built-in kinds, but a real cluster may still refuse what they accept.

Exit status: 0 when all went well, 1 when it did not, 2 for a wrong command line.
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
