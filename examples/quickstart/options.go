// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/examples/internal/command"
)

// usage is the text of --help.
const usage = `Usage: go run ./examples/quickstart [flags]

Sends Kubernetes manifests from a hub to clusters over a broker, shows how they are
applied and reported, updates one work, deletes one, and removes everything again.
By default the broker and the clusters are in memory. Such clusters only store objects.

  --manifests DIR     the folder of manifests: each .yaml, .yml or .json file becomes one work
                      for each cluster (default: those in examples/quickstart/manifests)
  --clusters N        the number of clusters in memory (default 2)
  --kubeconfig FILE   use a real cluster: the current context of FILE; repeat the flag for more
  --broker URL        use an MQTT broker: mqtt://, mqtts://, ws:// or wss://
  --timeout D         fail after this time without a connection or progress (default 30s)
  --verbose           log the activity of the SDK to standard error
  --help              show this help

Exit status: 0 after success, 1 after a failure, 2 for a wrong command line.
`

// options are the options of the command line.
type options struct {
	Manifests, Broker string
	// Kubeconfigs are files, one for each real cluster. Without them, Clusters is the number of
	// clusters in memory.
	Kubeconfigs []string
	Clusters    int
	Timeout     time.Duration
	Verbose     bool
}

// check checks the URL of the broker, without a connection.
func check(o options) error {
	if o.Broker == "" {
		return nil
	}
	return command.CheckBroker(mqtt.Options{BrokerURL: o.Broker})
}

func parse(args []string) (options, error) {
	var o options
	flags := command.NewFlags("quickstart")
	flags.StringVar(&o.Manifests, "manifests", "", "")
	flags.StringVar(&o.Broker, "broker", "", "")
	flags.IntVar(&o.Clusters, "clusters", 2, "")
	flags.DurationVar(&o.Timeout, "timeout", 30*time.Second, "")
	flags.BoolVar(&o.Verbose, "verbose", false, "")
	flags.Func("kubeconfig", "", func(file string) error {
		if file == "" {
			return errors.New("a file is required")
		}
		o.Kubeconfigs = append(o.Kubeconfigs, file)
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	if flags.Given("clusters") && len(o.Kubeconfigs) > 0 {
		return options{}, errors.New("--clusters is for clusters in memory: remove it or --kubeconfig")
	}
	if o.Timeout <= 0 {
		return options{}, fmt.Errorf("--timeout must be more than 0, not %v", o.Timeout)
	}
	return o, errors.Join(flags.NotEmpty("manifests", "broker"), command.Within("clusters", o.Clusters, 1, 1000))
}
