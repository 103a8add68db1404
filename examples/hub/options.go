// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/examples/internal/certs"
	"github.com/spokewire/sdk-go/examples/internal/command"
	"github.com/spokewire/sdk-go/examples/internal/customizations"
	"github.com/spokewire/sdk-go/examples/internal/logging"
	"github.com/spokewire/sdk-go/examples/internal/login"
	"github.com/spokewire/sdk-go/internal/httpserve"
)

// usage is the output of --help.
const usage = `Usage: go run ./examples/hub --broker URL|--grpc ADDR [flags]

Runs applications on clusters. Reads documents that place applications on clusters, sends the
applications as ManifestWorks to the clusters' agents, rolls updates out in order and back
again, and shows the state on a web page. One of --broker and --grpc is required. The commands of
hub help, as first argument, call a running hub, make certificates and install a hub: each has its
own --help.

  --grpc ADDR          serve the agents over gRPC at this address, for example :8443, without a
                       broker. A certificate is required unless it is a loopback address; without a
                       certificate, each program on this machine can act as the agent of any cluster
  --grpc-cert FILE     the certificate of the hub for --grpc, with --grpc-key
  --grpc-key FILE      the key of the certificate
  --grpc-client-ca FILE
                       the CAs of the agents' certificates: an agent acts for the cluster in the
                       common name of its certificate
  --broker URL         the MQTT broker: mqtt://, mqtts://, ws:// or wss://
  --broker-ca FILE     the CAs of the broker's certificate (default: the system's)
  --broker-cert FILE   the hub's certificate, with --broker-key
  --broker-key FILE    the key of the certificate
  --username NAME      the user at the broker
  --password-file FILE a file with the user's password
  --certs DIR          the certificates of hub certs, for the flags above that are missing, for
                       --join-listen, and for --tls-cert unless --listen is a loopback address
  --join-listen ADDR   let agents join over HTTPS at this address, for example :8444: see hub token
                       --help. Needs --certs. A broker must be Mosquitto with its dynamic security
  --join-url URL       the URL of --join-listen for agents, in the output of hub token create
                       (default: the address of --join-listen, with the name of this machine if it
                       is an address for all interfaces)
  --cert-lifetime D    the lifetime of agents' certificates, which agents renew (default 720h)
  --source ID          the source ID of the hub (default hub). It must stay the same, and differ
                       between hubs of one broker: of two hubs with the same ID and different
                       stores only the newer one writes, and both report this
  --dir DIR            read documents from the .yaml, .yml and .json files in DIR, again after each
                       change, at most 30 s later if the file system sends no events. If a file
                       becomes invalid or empty, or DIR has no documents, the previous documents
                       stay in effect. Without --dir, documents come through the HTTP API and are
                       stored. A hub does not start if its previous documents came from DIR instead
                       of the API, or the reverse, and it would remove applications
  --leave-dir          use the HTTP API for documents, with the store of a hub that had a --dir.
                       Applications stay unchanged until they have documents and placements
                       again, or until hub complete
  --listen ADDR        serve page, API, /metrics, /healthz and /readyz at this address (default
                       127.0.0.1:8080). Changes need a login as an editor. Without a login, page and
                       API can be read only if the address is a loopback address; other addresses
                       need --tls-cert and a login
  --tls-cert FILE      the certificate for --listen, with --tls-key: serve HTTPS only
  --tls-key FILE       the key of the certificate
  --token-auth-file FILE
                       a login: users with a bearer token, in the format of kube-apiserver, with
                       TOKEN,USER,ID,"GROUP,GROUP" in each line. In a browser the token is the
                       password. A hub with a folder as --store also writes a token of an editor to
                       the file admin.token there
  --user-ca FILE       a login: the CAs of users' certificates. The common name is the user, the
                       organizations are its groups. It must not be a CA of agents
  --proxy-ca FILE      a login: the CAs of the certificates of proxies that authenticate users, and
                       send the headers X-Remote-User and X-Remote-Group
  --proxy-name NAME    the common name of such a certificate; repeat the flag for more
  --editor-group GROUP the users of this group may change everything; repeat the flag for more
                       (default hub-editors)
  --viewer-group GROUP the users of this group may only read; repeat the flag for more (default
                       hub-viewers). All users with a login are in system:authenticated
  --advertise URL      with replicas: the URL at which other replicas reach this one, for example
                       https://$(POD_IP):8080 (default: the address of --listen, with the name of
                       this machine if it is an address for all interfaces)
  --allowed-host HOST  serve page and API for requests to HOST, a name or an address without
                       port; repeat the flag for more (default: localhost and the loopback
                       addresses). Required if --listen is not a loopback address: otherwise a
                       page of another site could reach the hub by its own name. With --listen
                       on a loopback address, probes and /metrics refuse other hosts too; on
                       other addresses they accept every host
  --kubeconfig FILE    the hub's own cluster: templates may read its Secrets and ConfigMaps
                       (default: templates read no objects); "auto" for the configuration of the
                       pod, of KUBECONFIG or of ~/.kube/config
  --customizations PATH
                       use the customizations in PATH, a YAML file or a folder of them, to decide
                       whether objects are healthy and ready; repeat the flag for more. They are
                       read at the start, and have priority over webhooks
  --allow-webhook TARGET
                       send objects to webhooks at TARGET; repeat the flag for more: a host or
                       host:port in URLs (*.example.com for all names below, * for any), a
                       service NAMESPACE/NAME or NAMESPACE/*, or a network such as 127.0.0.0/8,
                       which only loopback, link-local and metadata addresses need
                       (default: calls to all webhooks fail)
  --store DIR          the folder of works, documents and revisions, including the Secrets that
                       templates have read (default hub-data). A hub needs the same complete folder
                       after a restart. Lost works (works.db) are written again, and other objects
                       on clusters are deleted when all agents have applied the works. A hub without
                       --dir that starts with an empty DIR leaves unknown works unchanged, also
                       after restarts, until hub complete. Works of lost applications
                       (state.db) are shown as unclaimed and stay unchanged.
                       With postgres://USER@HOST/DATABASE the store is a database, and any number of
                       hubs with the same --store, --source and flags are replicas: one leads, the
                       others forward requests to it and take over. The password comes from
                       PGPASSWORD, PGPASSFILE or PGSERVICE
  --revisions N        keep N revisions of each application for rollbacks (default 10)
  --max-memory N       refuse documents if all documents and their objects need more than
                       N MiB of the hub's memory (default 64, for 20,000 small objects)
  --patience D         when a newer update has waited for this time, stop the current update if it
                       waits for offline clusters, or for hooks and parts that do not become ready
                       (default 30s)
  --log-format FORMAT  the form of the log on standard error, text or json (default text)
  -v N                 log details up to level N, from 0 to 10: 2 has each connection (default 0)
  --version            show the version
  --help               show this help

examples/hub/README.md describes documents, and examples/hub/samples has some. An Application with
spec.rollout is rolled out in groups: the commands approve, pause, resume and abort control it.
examples/hub/API.md describes the API.

Exit status: 0 after Ctrl-C, 1 after an error, 2 for a wrong command line.
`

// options has the values of the command line.
type options struct {
	Broker            mqtt.Options
	GRPC              string // the address of Server
	Server            grpc.ServerOptions
	Certs             certs.Dir
	JoinListen        string
	JoinURL           string
	CertLifetime      time.Duration
	Source            string
	Dir, Listen       string
	Login             login.Options
	Advertise         string
	LeaveDir          bool
	Kubeconfig, Store string
	Revisions         int
	MaxMemory         int // MiB
	Patience          time.Duration
	Log               logging.Options
	Tracer            work.Tracer // nil without an endpoint in the environment
	// Customizations are the values of --customizations: files and folders.
	Customizations []string
	// AllowedHosts are the values of --allowed-host.
	AllowedHosts []string

	// Hosts, Services and Networks are the values of --allow-webhook.
	Hosts, Services []string
	Networks        []netip.Prefix
}

// parse reads arguments, without the program's name. It returns [flag.ErrHelp] for --help.
func parse(args []string) (options, error) {
	o := options{Services: []string{}} // nil would allow all
	o.Login.Editors, o.Login.Viewers = []string{"hub-editors"}, []string{"hub-viewers"}
	flags := command.NewFlags("hub")
	flags.StringVar(&o.Broker.BrokerURL, "broker", "", "")
	command.BrokerFlags(flags.StringVar, &o.Broker)
	flags.StringVar(&o.GRPC, "grpc", "", "")
	command.ServerFlags(flags, &o.Server)
	flags.StringVar((*string)(&o.Certs), "certs", "", "")
	flags.StringVar(&o.JoinListen, "join-listen", "", "")
	flags.StringVar(&o.JoinURL, "join-url", "", "")
	flags.DurationVar(&o.CertLifetime, "cert-lifetime", 30*24*time.Hour, "")
	flags.StringVar(&o.Source, "source", "hub", "")
	flags.StringVar(&o.Dir, "dir", "", "")
	flags.BoolVar(&o.LeaveDir, "leave-dir", false, "")
	flags.StringVar(&o.Listen, "listen", "127.0.0.1:8080", "")
	o.Login.AddFlags(flags)
	flags.StringVar(&o.Advertise, "advertise", "", "")
	flags.Func("allowed-host", "", o.allowHost)
	flags.StringVar(&o.Kubeconfig, "kubeconfig", "", "")
	flags.Func("customizations", "", func(path string) error {
		o.Customizations = append(o.Customizations, path)
		return nil
	})
	flags.Func("allow-webhook", "", o.allowWebhook)
	flags.StringVar(&o.Store, "store", "hub-data", "")
	flags.IntVar(&o.Revisions, "revisions", 10, "")
	flags.IntVar(&o.MaxMemory, "max-memory", 64, "")
	flags.DurationVar(&o.Patience, "patience", 30*time.Second, "")
	o.Log.AddFlags(flags.FlagSet)
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	o.useCerts(flags)
	return o, o.validate(flags)
}

// check checks the files of the options.
func check(o options) error {
	_, err := customizations.Open(o.Customizations...)
	err = cmp.Or(command.CheckFolder("--dir", o.Dir), err, o.Login.CheckFiles())
	if o.Kubeconfig != autoKubeconfig {
		err = cmp.Or(err, command.CheckKubeconfig("--kubeconfig", o.Kubeconfig))
	}
	if o.GRPC != "" {
		return cmp.Or(err, o.checkJoin(), command.CheckServer(o.server()))
	}
	return cmp.Or(err, o.checkJoin(), command.CheckBroker(o.Broker))
}

// server returns the options of the server at --grpc.
func (o options) server() grpc.ServerOptions {
	s := o.Server
	if s.CertFile == "" && s.KeyFile == "" && s.ClientCAFile == "" { // only on a loopback address
		s.Insecure = true
		s.Authorizer = grpc.AuthorizerFunc(func(context.Context, grpc.Access) error { return nil })
	}
	return s
}

func (o *options) allowHost(host string) error {
	o.AllowedHosts = append(o.AllowedHosts, host)
	return httpserve.CheckHost(host)
}

func (o *options) allowWebhook(target string) error {
	if network, err := netip.ParsePrefix(target); err == nil {
		o.Networks = append(o.Networks, network)
		return nil
	}
	switch namespace, name, isService := strings.Cut(target, "/"); {
	case isService && (strings.ContainsAny(namespace, ":.*") || strings.Contains(name, "/")):
		return errors.New("must be a host, host:port, NAMESPACE/NAME of a service, or a network")
	case isService:
		o.Services = append(o.Services, target)
	default:
		o.Hosts = append(o.Hosts, target)
	}
	return nil
}

func (o options) validate(flags command.Flags) error {
	if err := flags.NotEmpty("broker", "broker-ca", "broker-cert", "broker-key", "username", "password-file", "source",
		"grpc", "grpc-cert", "grpc-key", "grpc-client-ca", "certs", "join-listen", "join-url", "dir", "listen", "advertise",
		"kubeconfig", "store"); err != nil {
		return err
	}
	if err := command.Within("revisions", o.Revisions, 2, 1000); err != nil {
		return err
	}
	if err := command.Within("max-memory", o.MaxMemory, 1, 1<<20); err != nil {
		return err
	}
	if err := o.validateListen(flags); err != nil {
		return err
	}
	switch {
	case o.Advertise != "" && !o.shared():
		return errors.New("--advertise needs a --store that replicas can share: postgres://…")
	case o.CertLifetime < time.Second:
		return fmt.Errorf("--cert-lifetime must be 1s or more, not %s", o.CertLifetime)
	case o.LeaveDir && o.Dir != "":
		return errors.New("--leave-dir needs a hub without --dir")
	case o.Patience <= 0:
		return errors.New("--patience must be more than 0")
	}
	return errors.Join(o.validateAgents(flags), o.validateJoin(flags), codec.ValidateName("--source", o.Source),
		o.validateURLs())
}

func (o options) validateListen(flags command.Flags) error {
	host, _, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return fmt.Errorf("--listen: %q: must be host:port or :port", o.Listen)
	}
	if err := o.Login.Validate(flags, o.Listen, host); err != nil {
		return err
	}
	if !httpserve.Loopback(host) && len(o.AllowedHosts) == 0 {
		return fmt.Errorf("--listen %s can be reached from other machines: add --allowed-host HOST for each host in the "+
			"URLs of the hub", o.Listen)
	}
	return nil
}

// validateAgents checks the flags of the connection to the agents.
func (o options) validateAgents(flags command.Flags) error {
	host, _, err := net.SplitHostPort(o.GRPC)
	switch {
	case o.Broker.BrokerURL == "" && o.GRPC == "":
		return errors.New("--broker or --grpc is required: how the agents receive their works")
	case o.Broker.BrokerURL != "" && o.GRPC != "":
		return errors.New("--broker and --grpc are both set: remove one of them")
	case o.GRPC != "" && err != nil:
		return fmt.Errorf("--grpc: %q: must be host:port or :port", o.GRPC)
	case o.GRPC != "" && !httpserve.Loopback(host) && (o.Server.CertFile == "" || o.Server.ClientCAFile == ""):
		return fmt.Errorf("--grpc %s can be reached from other machines: add --grpc-cert, --grpc-key and --grpc-client-ca, "+
			"or use a loopback address", o.GRPC)
	}
	needed := map[string][]string{
		"grpc":   {"grpc-cert", "grpc-key", "grpc-client-ca"},
		"broker": {"broker-ca", "broker-cert", "broker-key", "username", "password-file"},
	}
	for _, flag := range []string{"grpc", "broker"} {
		for _, name := range needed[flag] {
			if flags.Given(name) && !flags.Given(flag) {
				return fmt.Errorf("--%s needs --%s", name, flag)
			}
		}
	}
	return nil
}

// shared reports whether the store is a database that replicas share.
func (o options) shared() bool {
	return strings.HasPrefix(o.Store, "postgres://") || strings.HasPrefix(o.Store, "postgresql://")
}

func (o options) validateURLs() error {
	if o.Advertise != "" {
		u, err := url.Parse(o.Advertise)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" ||
			*u != (url.URL{Scheme: u.Scheme, Host: u.Host}) {
			return fmt.Errorf("--advertise: %q: must be http://HOST:PORT", o.Advertise)
		}
	}
	if !o.shared() {
		return nil
	}
	u, err := url.Parse(o.Store)
	if err != nil {
		return errors.New("--store: must be a URL such as postgres://USER@HOST/DATABASE") // err may have a password
	}
	if _, has := u.User.Password(); has || u.Query().Has("password") {
		return errors.New("--store: the password of a command line is visible to other users: use PGPASSWORD, " +
			"PGPASSFILE or PGSERVICE")
	}
	return nil
}
