// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package cli reads the command line.
package cli

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/spokewire/sdk-go/examples/internal/command"
	"github.com/spokewire/sdk-go/examples/rsync/internal/clusters"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// Usage is what --help shows.
const Usage = `Usage: go run ./examples/rsync COMMAND [flags] [arguments]

Applies apps to many clusters and takes them away again. "serve" is the engine with its gRPC
service; all other commands are its client.

  serve                  serve until Ctrl-C
  create ID DIR          store a context: each folder in DIR is an app, on each --cluster
  instantiate ID         apply it
  update FROM TO         lead from one context to another, and rollback FROM TO back
  diff ID                what instantiate would change; with --from or --terminate, what an update
                         or terminate would
  rollout ID             how far its last rollout is; with --watch until its end
  approve ID GROUP       let that begin with a group; with --after, go on after it
  pause ID               keep it from further clusters, until resume ID
  abort ID               end it
  terminate ID           delete it from its clusters
  read ID                ask the clusters what is there
  stop ID                end what is under way, until clear-stop ID
  detach ID CLUSTER      remove a dead cluster from it, until attach ID CLUSTER
  detached               objects to delete on detached clusters when they answer
  forget CLUSTER         leave these objects on the cluster
  status ID              what is known of it; with --watch also what changes
  list                   all contexts
  delete ID              remove it from the store

Flags of serve:
  --listen ADDR      where to serve (default 127.0.0.1:9031)
  --store FILE       keep everything in FILE (default rsync.db in the current folder)
  --etcd URLS        keep everything in etcd instead: host:port, more after commas
  --observe WHAT     follow contexts between events: status reports objects that are not ready,
                     drift also objects that others have changed, heal applies these again
                     (default nothing)
  --fake N           have clusters in memory: fake+cluster1 to fake+clusterN
                     (default 3 where no other clusters are asked for)
  --kubeconfig-dir DIR
                     have clusters with API servers: kube+NAME is in DIR/NAME.kubeconfig
  --git URL          have clusters git+NAME, folders of a git repository: https://, ssh:// or a
                     folder here, where ?branch=NAME&path=FOLDER&create-branch=true say where in
                     it, and user, password-file, token-file, ca-file, ssh-key-file and
                     known-hosts say who is who
  --broker URL       have clusters work+NAME with agents on an MQTT broker: mqtt://host:1883,
                     where ?source=NAME&works=FILE say who we are (rsync) and where works are
                     kept (rsync-works.db), and user, password-file, ca-file, cert-file and
                     key-file who is who. go run ./examples/agent --source rsync
                     --cluster NAME --broker URL is such an agent
  --client-ca FILE   accept only clients with a certificate of this CA; each of them may do
                     everything

Flags of clients:
  --server ADDR      where the engine is (default 127.0.0.1:9031)
  --ca FILE          the CA of the server (default: those of the system)
  --cluster P+C      for create: provider and cluster; once per cluster
  --app NAME         for create: the app of what is in DIR itself (default main)
  --override FILE    for create: change objects on some clusters. FILE has a list overrides of
                     target, clusters and patch. A target has the group, kind, namespace and name
                     of an object, and a patch is a JSON patch (RFC 6902)
  --key KEY          for events: queue one only once, however often it is asked for
  --no-wait          for events: do not wait until they are done
  --rollout FILE     for instantiate, update and rollback: move from cluster to cluster as FILE
                     says: groups (each with name, clusters, maxConcurrency, maxFailures,
                     approveBefore, wait, approveAfter), maxConcurrency, maxFailures, until,
                     minSuccessTime, progressDeadline and rollbackOnFailure
  --from FROM        for diff: of an update from that context
  --terminate        for diff: of terminate
  -o json            for diff: as data
  --after            for approve: what waits is not the group, but what comes after it
  --watch            for status: go on until Ctrl-C, or until the context is deleted
                     for rollout: go on until it ends, and exit with 1 when it failed

Flags of both:
  --cert FILE        the own certificate, and
  --key-file FILE    its key, in PEM
  --verbose          log what the SDK does, to standard error
  --help             show this

To serve other machines it needs --cert, --key-file and --client-ca. On a loopback address, --cert
and --key-file alone serve TLS to every client; without the three there is no TLS. Clients with
neither --ca nor --cert call without TLS. A server that does
not answer within 5 seconds is an error; what waits or watches already goes on. Objects on
clusters in memory end with "serve"; what the store says of them stays.

Exit status: 0 when all went well, 1 when it did not, 2 for a wrong command line.
`

// DefaultAddr is where a server and its clients meet.
const DefaultAddr = "127.0.0.1:9031"

// Options is what the command line asks for.
type Options struct {
	// Command is one of those in Usage, and Args its arguments.
	Command string
	Args    []string

	Listen, Store string
	Etcd          []string
	// Clusters has the values of the flags that ask for a kind of clusters.
	Clusters map[string]string
	Observe  rsync.Observe

	Server string
	On     []appcontext.ClusterID
	App    string
	// Override is a file.
	Override string
	Key      string
	NoWait   bool
	Watch    bool
	// Rollout is a file.
	Rollout string
	After   bool
	// From, Terminate and Output are those of diff.
	From      string
	Terminate bool
	Output    string

	ClientCA, CA, Cert, KeyFile string
	Verbose                     bool
}

// commands have arguments, and flags of their own.
var commands = map[string]struct{ arguments, flags string }{
	"serve":       {"", "listen store etcd observe client-ca"},
	"create":      {"ID DIR", "cluster app override"},
	"instantiate": {"ID", "key no-wait rollout"},
	"update":      {"FROM TO", "key no-wait rollout"},
	"rollback":    {"FROM TO", "key no-wait rollout"},
	"diff":        {"ID", "from terminate o"},
	"rollout":     {"ID", "watch"},
	"approve":     {"ID GROUP", "after"},
	"pause":       {"ID", ""},
	"resume":      {"ID", ""},
	"abort":       {"ID", ""},
	"terminate":   {"ID", "key no-wait"},
	"read":        {"ID", "key no-wait"},
	"stop":        {"ID", ""},
	"clear-stop":  {"ID", ""},
	"detach":      {"ID CLUSTER", ""},
	"attach":      {"ID CLUSTER", ""},
	"detached":    {"", ""},
	"forget":      {"CLUSTER", ""},
	"status":      {"ID", "watch"},
	"list":        {"", ""},
	"delete":      {"ID", ""},
}

// Parse reads arguments, without the program's name. It returns [flag.ErrHelp] when help is asked for.
func Parse(args []string) (Options, error) {
	o := Options{Clusters: map[string]string{}}
	if len(args) == 0 {
		return o, errors.New("which command?")
	}
	flags := command.NewFlags("rsync")
	if strings.HasPrefix(args[0], "-") {
		return o, errors.Join(flags.FlagSet.Parse(args[:1]), errors.New("the command comes first"))
	}
	o.Command = args[0]
	c, ok := commands[o.Command]
	if !ok {
		return o, fmt.Errorf("unknown command %q", o.Command)
	}
	o.define(flags.FlagSet, c.flags)
	if err := flags.FlagSet.Parse(args[1:]); err != nil {
		return o, err
	}
	o.Args = flags.Args()
	if want := strings.Fields(c.arguments); len(o.Args) != len(want) {
		return o, fmt.Errorf("%s needs %d arguments, %s, and got %d; flags come before them", o.Command, len(want), cmp.Or(c.arguments, "none"), len(o.Args))
	}
	if n := len(o.Args); strings.HasSuffix(c.arguments, "CLUSTER") {
		if err := o.cluster(o.Args[n-1]); err != nil {
			return o, fmt.Errorf("CLUSTER: %q: %w", o.Args[n-1], err)
		}
	}
	err := o.check(flags)
	return o, err
}

// define adds the flags of a command.
func (o *Options) define(flags *flag.FlagSet, own string) {
	flags.StringVar(&o.Cert, "cert", "", "")
	flags.StringVar(&o.KeyFile, "key-file", "", "")
	flags.BoolVar(&o.Verbose, "verbose", false, "")
	if o.Command == "serve" {
		for _, p := range clusters.Providers {
			flags.Func(p.Flag, "", func(value string) error { o.Clusters[p.Flag] = value; return nil })
		}
	} else {
		flags.StringVar(&o.Server, "server", DefaultAddr, "")
		flags.StringVar(&o.CA, "ca", "", "")
	}
	for _, name := range strings.Fields(own) {
		switch name {
		case "listen":
			flags.StringVar(&o.Listen, name, DefaultAddr, "")
		case "store":
			flags.StringVar(&o.Store, name, "rsync.db", "")
		case "etcd":
			flags.Func(name, "", o.etcd)
		case "observe":
			flags.Func(name, "", o.observe)
		case "client-ca":
			flags.StringVar(&o.ClientCA, name, "", "")
		case "cluster":
			flags.Func(name, "", o.cluster)
		case "app":
			flags.StringVar(&o.App, name, "main", "")
		case "override":
			flags.StringVar(&o.Override, name, "", "")
		case "key":
			flags.StringVar(&o.Key, name, "", "")
		case "no-wait":
			flags.BoolVar(&o.NoWait, name, false, "")
		case "watch":
			flags.BoolVar(&o.Watch, name, false, "")
		case "rollout":
			flags.StringVar(&o.Rollout, name, "", "")
		case "after":
			flags.BoolVar(&o.After, name, false, "")
		case "from":
			flags.StringVar(&o.From, name, "", "")
		case "terminate":
			flags.BoolVar(&o.Terminate, name, false, "")
		case "o":
			flags.StringVar(&o.Output, name, "text", "")
		}
	}
}

func (o *Options) observe(value string) error {
	names := []string{"nothing", "status", "drift", "heal"} // in the order of the constants
	at := slices.Index(names, value)
	if at < 0 {
		return fmt.Errorf("must be one of %s", strings.Join(names, ", "))
	}
	o.Observe = rsync.ObserveNothing + rsync.Observe(at)
	return nil
}

func (o *Options) etcd(value string) error {
	for addr := range strings.SplitSeq(value, ",") {
		if addr == "" {
			return errors.New("an address is empty")
		}
		o.Etcd = append(o.Etcd, addr)
	}
	return nil
}

func (o *Options) cluster(value string) error {
	provider, name, found := strings.Cut(value, "+")
	if !found || provider == "" || name == "" {
		return errors.New("a cluster is provider+name")
	}
	o.On = append(o.On, appcontext.ClusterID{Provider: provider, Name: name})
	return nil
}

func (o *Options) check(flags command.Flags) error {
	addr, name := o.Server, "server"
	if o.Command == "serve" {
		addr, name = o.Listen, "listen"
		if len(o.Clusters) == 0 {
			o.Clusters["fake"] = "3"
		}
	}
	host, _, err := net.SplitHostPort(addr)
	switch {
	case err != nil:
		return fmt.Errorf("--%s %q is not host:port", name, addr)
	case (o.Cert == "") != (o.KeyFile == ""):
		return errors.New("--cert and --key-file go together")
	case o.ClientCA != "" && o.Cert == "":
		return errors.New("--client-ca needs --cert and --key-file")
	case o.Command == "serve" && o.ClientCA == "" && !loopback(host):
		return fmt.Errorf("--listen %s can be reached from elsewhere: give --cert, --key-file and --client-ca", addr)
	case o.Command == "create" && len(o.On) == 0:
		return errors.New("create needs --cluster, once or more")
	case o.From != "" && o.Terminate:
		return errors.New("--from and --terminate are of two events")
	case o.Command == "diff" && o.Output != "text" && o.Output != "json":
		return fmt.Errorf("-o: %q: must be json or text", o.Output)
	case flags.Given("store") && flags.Given("etcd"):
		return errors.New("--store and --etcd are two places for the same")
	}
	return flags.NotEmpty("cert", "key-file", "ca", "store", "client-ca", "app", "override", "key", "rollout", "from")
}

// Insecure reports whether there is no TLS between a client and its server: both are on this machine, and nobody gave
// certificates.
func (o *Options) Insecure() bool {
	if o.Command == "serve" {
		return o.Cert == ""
	}
	host, _, _ := net.SplitHostPort(o.Server)
	return o.CA == "" && o.Cert == "" && loopback(host)
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
