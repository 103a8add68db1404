// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/examples/agent/internal/spoke"
	"github.com/spokewire/sdk-go/examples/internal/command"
)

// usage is the output of --help.
const usage = `Usage: go run ./examples/agent --cluster NAME [flags]

Applies the ManifestWorks of a hub to a cluster and reports their status, until Ctrl-C. What
works bring belongs to AppliedWorks on the cluster, whose CRD is installed.

  --cluster NAME          what the hub calls this cluster: the namespace of its works
  --kubeconfig FILE       how to reach the cluster (default: as for kubectl, or the pod's own)
  --hub NAME              what this cluster calls the hub, in the names of AppliedWorks; agents of
                          several hubs on one cluster need different ones (default "hub")
  --hub-was ADDRESS       a previous address of the hub, of its API server or broker; the records
                          for it move to the current address; once for each

Where works come from:

  --transport mqtt|kube   over a broker, or from the hub's API server (default mqtt)
  --broker URL            mqtt: the broker: mqtt://, mqtts://, ws:// or wss://
  --source ID             mqtt: a source to serve, once for each; required, because a source acts
                          on the cluster with the rights below
  --store FILE            mqtt: keeps the works, so that an agent that restarts while the broker
                          is away still has them
  --broker-ca FILE        mqtt: the CAs of the broker's certificate (default: the system's)
  --broker-cert FILE      mqtt: the agent's certificate, with --broker-key
  --broker-key FILE       mqtt: its key
  --username NAME         mqtt: the user at the broker
  --password-file FILE    mqtt: its password
  --hub-kubeconfig FILE   kube: how to reach the hub

How works are served:

  --require-executor      refuse works without an executor: they act with the agent's own rights
  --executor NAMESPACE/NAME
                          a service account that works may have as executor, once for each; * stands
                          for any characters, as in shop/*. The agent refuses other executors and
                          works without an executor (default: any that it may impersonate)
  --secret-feedback       let the rules of works read Secrets: feedback, conditions, and paths of
                          ignoreFields; their contents then go to the hub
  --adopt WHEN            what to do with objects that exist and that the work has not applied:
                          never adopt them, unowned ones only, or always (default never)
  --eviction-grace D      how long objects stay of works that the hub does not have any more; 0
                          means for ever (default 60m with kube, 0 with mqtt, where a source that
                          is away looks as one that has nothing)
  --poll D                how often to look at what a work wants polled (default 60s)
  --degraded-after D      for how long something is not as desired until the work is degraded
                          (default 5m)
  --max-watches N         how many objects to watch; the others are polled (default 5000)

  --listen ADDR           serve /metrics, /healthz and /readyz, such as :8080 (default: not). There
                          is no login
  --verbose               log what the SDK does, to standard error
  --help                  show this

Exit status: 0 after Ctrl-C, 1 when something failed, 2 for a wrong command line.
`

// Transports.
const (
	transportMQTT = "mqtt"
	transportKube = "kube"
)

// options has the values of the command line.
type options struct {
	Cluster, Kubeconfig, Hub string
	HubWas                   []string

	Transport     string
	Broker        mqtt.Options
	Sources       []string
	Store         string
	HubKubeconfig string

	Executors      []string
	SecretFeedback bool

	Adoption      appliedwork.Adoption
	EvictionGrace time.Duration
	Poll          time.Duration
	DegradedAfter time.Duration
	MaxWatches    int

	Listen  string
	Verbose bool
}

var adoptions = map[string]appliedwork.Adoption{
	"always": appliedwork.AdoptAlways, "unowned": appliedwork.AdoptIfUnowned, "never": appliedwork.AdoptNever,
}

// parse reads arguments, without the program's name. It returns [flag.ErrHelp] for --help.
//
// [flag.ErrHelp]: https://pkg.go.dev/flag#ErrHelp
func parse(args []string) (options, error) {
	o := options{Adoption: appliedwork.AdoptNever}
	flags := command.NewFlags("agent")
	for name, value := range map[string]*string{
		"cluster": &o.Cluster, "kubeconfig": &o.Kubeconfig, "broker": &o.Broker.BrokerURL, "store": &o.Store,
		"broker-ca": &o.Broker.CAFile, "broker-cert": &o.Broker.CertFile, "broker-key": &o.Broker.KeyFile,
		"username": &o.Broker.Username, "password-file": &o.Broker.PasswordFile, "hub-kubeconfig": &o.HubKubeconfig, "listen": &o.Listen,
	} {
		flags.StringVar(value, name, "", "")
	}
	flags.StringVar(&o.Hub, "hub", "hub", "")
	flags.StringVar(&o.Transport, "transport", transportMQTT, "")
	flags.DurationVar(&o.EvictionGrace, "eviction-grace", 0, "")
	flags.DurationVar(&o.Poll, "poll", time.Minute, "")
	flags.DurationVar(&o.DegradedAfter, "degraded-after", 5*time.Minute, "")
	flags.IntVar(&o.MaxWatches, "max-watches", 5000, "")
	flags.BoolVar(&o.Verbose, "verbose", false, "")
	flags.BoolVar(&o.SecretFeedback, "secret-feedback", false, "")
	required := flags.Bool("require-executor", false, "")
	flags.Func("executor", "", func(pattern string) error {
		o.Executors = append(o.Executors, pattern)
		return spoke.CheckExecutors(o.Executors)
	})
	flags.Func("source", "", func(id string) error {
		o.Sources = append(o.Sources, id)
		return nil
	})
	flags.Func("hub-was", "", func(address string) error {
		if strings.TrimSpace(address) == "" {
			return errors.New("write an address, as https://hub:6443 or mqtts://broker")
		}
		o.HubWas = append(o.HubWas, address)
		return nil
	})
	flags.Func("adopt", "", func(when string) error {
		var ok bool
		if o.Adoption, ok = adoptions[when]; !ok {
			return errors.New("write always, unowned or never")
		}
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	if *required && len(o.Executors) == 0 {
		o.Executors = []string{spoke.AnyExecutor}
	}
	if o.Transport == transportKube && !flags.Given("eviction-grace") {
		o.EvictionGrace = time.Hour
	}
	err := o.check(flags)
	return o, err
}

// The flags that belong to one transport only.
var (
	mqttOnly = []string{"broker", "source", "store", "broker-ca", "broker-cert", "broker-key", "username", "password-file"}
	kubeOnly = []string{"hub-kubeconfig"}
)

func (o *options) check(flags command.Flags) error {
	if o.Cluster == "" {
		return errors.New("--cluster is missing: say what the hub calls this cluster")
	}
	if err := flags.NotEmpty("kubeconfig", "hub", "broker", "store", "broker-ca", "broker-cert", "broker-key", "username", "password-file", "hub-kubeconfig", "listen"); err != nil {
		return err
	}
	foreign, other := kubeOnly, transportKube
	switch o.Transport {
	case transportMQTT:
		if o.Broker.BrokerURL == "" {
			return errors.New("--broker is missing: give the broker's URL, or --transport kube")
		}
		if len(o.Sources) == 0 {
			return errors.New("--source is missing: name the source to serve, " +
				"as --source hub; repeat the flag for others")
		}
	case transportKube:
		foreign, other = mqttOnly, transportMQTT
		if o.HubKubeconfig == "" {
			return errors.New("--hub-kubeconfig is missing: say how to reach the hub, or give --transport mqtt")
		}
	default:
		return fmt.Errorf("--transport is mqtt or kube, not %q", o.Transport)
	}
	for _, name := range foreign {
		if flags.Given(name) {
			return fmt.Errorf("--%s is for --transport %s: leave one of the two out", name, other)
		}
	}
	return o.checkValues()
}

func (o *options) checkValues() error {
	for _, source := range o.Sources {
		if strings.TrimSpace(source) == "" {
			return errors.New("--source must not be empty: name the source to serve")
		}
		if err := codec.ValidateName("--source", source); err != nil {
			return err
		}
	}
	for _, wrong := range validation.IsDNS1123Label(o.Cluster) { // it is a namespace on the hub
		return fmt.Errorf("--cluster %q is no name of a cluster: %s", o.Cluster, wrong)
	}
	for name, d := range map[string]time.Duration{"poll": o.Poll, "degraded-after": o.DegradedAfter} {
		if d < time.Second {
			return fmt.Errorf("--%s must be 1s or more, not %s", name, d)
		}
	}
	if o.EvictionGrace < 0 {
		return errors.New("--eviction-grace must not be negative; 0 is for ever")
	}
	if o.Listen != "" {
		if _, _, err := net.SplitHostPort(o.Listen); err != nil {
			return fmt.Errorf("--listen %q is no address: write host:port or :port", o.Listen)
		}
	}
	return command.Within("max-watches", o.MaxWatches, 0, 100_000)
}
