// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/examples/agent/internal/controller"
	"github.com/spokewire/sdk-go/examples/agent/internal/spoke"
	"github.com/spokewire/sdk-go/examples/internal/command"
	"github.com/spokewire/sdk-go/examples/internal/logging"
)

// usage is the output of --help.
const usage = `Usage: go run ./examples/agent --cluster NAME [flags]

Applies the ManifestWorks of a hub to a cluster and reports their status, until Ctrl-C. The
objects of works belong to AppliedWorks on the cluster. The agent installs their CRD. The commands
join and install, as first argument, get a certificate from a hub, and run the agent in the
cluster: each has its own --help.

  --cluster NAME          the name of this cluster on the hub: the namespace of its works
  --kubeconfig FILE       the kubeconfig of the cluster (default: as for kubectl, or the pod's own)
  --hub-name NAME         the name of the hub in the names of AppliedWorks; agents of several hubs
                          on one cluster need different names (default "hub")
  --hub-was ADDRESS       a previous address of the hub or its broker, for example mqtts://broker;
                          its records move to the current address; repeat the flag for more

The source of works is one of these:

  --hub HOST:PORT         a hub that serves its agents over gRPC
  --broker URL            an MQTT broker: mqtt://, mqtts://, ws:// or wss://
  --hub-kubeconfig FILE   the API server of a hub, with its kubeconfig

  --source ID             a source to serve; repeat the flag for more. Required with --hub and
                          --broker: each source acts on the cluster with the rights below
  --manifest-bundles      with --hub or --broker: the works are ManifestBundles, as those of OCM's
                          hubs over gRPC, with --source kube, and of Maestro
  --store FILE            with --hub or --broker: stores the works, so an agent that restarts while
                          the hub is unreachable still has them
  --join DIR              the folder of agent join: the certificate for --hub or --broker, which the
                          agent renews, and the default of --cluster
  --join-hub URL          join first if the folder of --join has no certificate: the hub's
                          --join-listen, https://HOST:PORT. Needs --cluster
  --join-token-file FILE  a file with the token for --join-hub
  --hub-ca FILE           the CAs of the hub's certificate (default: the system's)
  --hub-cert FILE         the agent's certificate for the hub, with --hub-key
  --hub-key FILE          the key of the certificate
  --hub-token-file FILE   a file with the agent's bearer token for the hub
  --hub-insecure          connect to --hub without TLS
  --broker-ca FILE        the CAs of the broker's certificate (default: the system's)
  --broker-cert FILE      the agent's certificate for the broker, with --broker-key
  --broker-key FILE       the key of the certificate
  --username NAME         the user at the broker
  --password-file FILE    a file with the user's password

The rights of works:

  --require-executor      refuse works without an executor, which would use the agent's own rights
  --executor NAMESPACE/NAME
                          a service account that works may have as executor; repeat the flag for
                          more; * matches any characters, as in shop/*. The agent refuses other
                          executors and works without an executor (default: every service account
                          that the agent may impersonate)
  --secret-feedback       let the rules of works read Secrets: feedback, conditions, and paths of
                          ignoreFields; the hub then receives their contents
  --adopt WHEN            whether to adopt existing objects that the work has not applied: never,
                          unowned (only objects without owners), or always (default never)
  --eviction-grace D      how long the objects of a work stay after the hub has lost the work; 0
                          means for ever (default 60m with --hub-kubeconfig, otherwise 0: a source
                          that has lost its works looks like a source without works)
  --poll D                the interval of polls: feedback of type Poll, and objects without a watch
                          (default 60s)
  --degraded-after D      how long a work may make no progress until it is degraded (default 5m)
  --max-watches N         the number of watched objects; others are polled (default 5000)

  --listen ADDR           serve /metrics, /healthz and /readyz at this address, for example :8080
                          (default: none), without authentication
  --log-format FORMAT     the form of the log on standard error, text or json (default text)
  -v N                    log details up to level N, from 0 to 10: 2 has each connection (default 0)
  --version               show the version
  --help                  show this help

Exit status: 0 after Ctrl-C, 1 after a failure, 2 for a wrong command line.
`

// options has the values of the command line.
type options struct {
	Cluster, Kubeconfig string
	Spoke               spoke.Options
	Works               controller.Options

	// One of the addresses in Hub, Broker and HubKubeconfig is set.
	Hub           grpc.Options
	Broker        mqtt.Options
	HubKubeconfig string
	Sources       []string
	Bundles       bool // the profile is ManifestBundle
	Store         string
	Join          string
	JoinHub       string
	JoinToken     string // a file

	Listen string
	Log    logging.Options
	Tracer work.Tracer // nil without an endpoint in the environment
}

var adoptions = map[string]appliedwork.Adoption{
	"always": appliedwork.AdoptionAlways, "unowned": appliedwork.AdoptionIfUnowned, "never": appliedwork.AdoptionNever,
}

// parse reads arguments, without the program's name. It returns [flag.ErrHelp] for --help.
//
// [flag.ErrHelp]: https://pkg.go.dev/flag#ErrHelp
func parse(args []string) (options, error) {
	o := options{Spoke: spoke.Options{Adoption: appliedwork.AdoptionNever}}
	flags := command.NewFlags("agent")
	for name, value := range map[string]*string{
		"cluster": &o.Cluster, "kubeconfig": &o.Kubeconfig, "broker": &o.Broker.BrokerURL, "store": &o.Store,
		"hub-kubeconfig": &o.HubKubeconfig, "join": &o.Join, "join-hub": &o.JoinHub,
		"join-token-file": &o.JoinToken, "listen": &o.Listen,
	} {
		flags.StringVar(value, name, "", "")
	}
	command.BrokerFlags(flags.StringVar, &o.Broker)
	command.HubFlags(flags, &o.Hub)
	flags.StringVar(&o.Spoke.Hub, "hub-name", "hub", "")
	flags.BoolVar(&o.Bundles, "manifest-bundles", false, "")
	flags.DurationVar(&o.Spoke.EvictionGrace, "eviction-grace", 0, "")
	flags.DurationVar(&o.Works.PollInterval, "poll", time.Minute, "")
	flags.DurationVar(&o.Works.DegradedAfter, "degraded-after", 5*time.Minute, "")
	flags.IntVar(&o.Works.MaxWatches, "max-watches", 5000, "")
	o.Log.AddFlags(flags.FlagSet)
	flags.BoolVar(&o.Spoke.SecretFeedback, "secret-feedback", false, "")
	required := flags.Bool("require-executor", false, "")
	flags.Func("executor", "", func(pattern string) error {
		o.Spoke.Executors = append(o.Spoke.Executors, pattern)
		return spoke.CheckExecutors(o.Spoke.Executors)
	})
	flags.Func("source", "", func(id string) error {
		o.Sources = append(o.Sources, id)
		return nil
	})
	flags.Func("hub-was", "", func(address string) error {
		if strings.TrimSpace(address) == "" {
			return errors.New("must be an address, for example https://hub:6443, mqtts://broker or grpc://hub:8443")
		}
		o.Spoke.FormerAddresses = append(o.Spoke.FormerAddresses, addressOf(address))
		return nil
	})
	flags.Func("adopt", "", func(when string) error {
		var ok bool
		if o.Spoke.Adoption, ok = adoptions[when]; !ok {
			return errors.New("must be always, unowned or never")
		}
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	if *required && len(o.Spoke.Executors) == 0 {
		o.Spoke.Executors = []string{spoke.AnyExecutor}
	}
	if o.HubKubeconfig != "" && !flags.Given("eviction-grace") {
		o.Spoke.EvictionGrace = time.Hour
	}
	if err := errors.Join(flags.NotEmpty("join", "join-hub", "join-token-file"), o.useJoin(flags)); err != nil {
		return options{}, err
	}
	err := o.check(flags)
	return o, err
}

// hubs are the flags that name a hub, with the flags that need each. One of them is required.
var hubs = []struct {
	flag  string
	needy []string
}{
	{"hub", []string{
		"source", "manifest-bundles", "store", "join", "hub-ca", "hub-cert", "hub-key", "hub-token-file", "hub-insecure",
	}},
	{"broker", []string{
		"source", "manifest-bundles", "store", "join", "broker-ca", "broker-cert", "broker-key", "username", "password-file",
	}},
	{"hub-kubeconfig", nil},
}

func (o *options) check(flags command.Flags) error {
	if o.Cluster == "" {
		return errors.New("--cluster is required: the name of this cluster on the hub")
	}
	if err := flags.NotEmpty("kubeconfig", "hub", "hub-name", "hub-ca", "hub-cert", "hub-key", "hub-token-file", "broker",
		"store", "broker-ca", "broker-cert", "broker-key", "username", "password-file", "hub-kubeconfig", "listen",
	); err != nil {
		return err
	}
	var given string
	var allowed []string
	for _, h := range hubs {
		switch {
		case !flags.Given(h.flag):
		case given != "":
			return fmt.Errorf("--%s and --%s are both set: remove one of them", given, h.flag)
		default:
			given, allowed = h.flag, h.needy
		}
	}
	if given == "" {
		return errors.New("--hub, --broker or --hub-kubeconfig is required: where the works come from")
	}
	for _, h := range hubs {
		for _, name := range h.needy {
			if flags.Given(name) && !slices.Contains(allowed, name) {
				return fmt.Errorf("--%s needs --%s, not --%s", name, h.flag, given)
			}
		}
	}
	if given != "hub-kubeconfig" && len(o.Sources) == 0 {
		return errors.New("--source is required: the source to serve, as --source hub; repeat the flag for other sources")
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
		return fmt.Errorf("--cluster: %q: %s", o.Cluster, wrong)
	}
	for name, d := range map[string]time.Duration{"poll": o.Works.PollInterval, "degraded-after": o.Works.DegradedAfter} {
		if d < time.Second {
			return fmt.Errorf("--%s must be 1s or more, not %s", name, d)
		}
	}
	if o.Spoke.EvictionGrace < 0 {
		return errors.New("--eviction-grace must not be negative; 0 means never")
	}
	if o.Listen != "" {
		if _, _, err := net.SplitHostPort(o.Listen); err != nil {
			return fmt.Errorf("--listen: %q: must be host:port or :port", o.Listen)
		}
	}
	return command.Within("max-watches", o.Works.MaxWatches, 0, 100_000)
}
