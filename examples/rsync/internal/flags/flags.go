// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package flags reads the command line.
package flags

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

// Usage is the text of --help.
const Usage = `Usage: go run ./examples/rsync COMMAND [flags] [arguments]

Applies apps to many clusters, updates them and deletes them. "serve" runs the engine with its gRPC
service. All other commands are clients of it.

  serve                  serve until Ctrl-C
  create ID DIR          store a context: each folder in DIR is an app, on each --cluster
  instantiate ID         apply the context to its clusters
  update FROM TO         update from one context to another; rollback FROM TO leads back
  diff ID                show the changes that instantiate would make; with --from or --terminate,
                         those of an update or of terminate
  rollout ID             show the last rollout of the context (of an update or a rollback: TO);
                         with --watch until its end
  approve ID GROUP       let the rollout begin the group; with --after, continue after the group
  pause ID               let the rollout begin no further cluster, until resume ID
  abort ID               end the rollout
  terminate ID           delete the context's objects from its clusters
  read ID                read the states of the objects from the clusters
  stop ID                end the event in progress and reject new ones, until clear-stop ID
  detach ID CLUSTER      remove a dead cluster from the context, until attach ID CLUSTER
  detached               list objects that are deleted when their detached cluster answers again
  forget CLUSTER         leave these objects on the cluster
  status ID              show the status of the context; with --watch also each change
  list                   list all contexts
  delete ID              remove the context from the store

Annotations in manifests: helm.sh/hook, helm.sh/hook-weight and helm.sh/hook-delete-policy make a
hook, and argocd.argoproj.io/sync-wave sets the wave of another object. Apps have no dependencies.

Flags of serve:
  --listen ADDR      the address of the server (default 127.0.0.1:9031)
  --store FILE       store everything in FILE (default rsync.db in the current folder)
  --etcd URLS        store everything in etcd instead: host:port, more after commas
  --observe WHAT     follow contexts between events: status reports objects that are not ready,
                     drift also objects that other writers have changed, heal also applies these
                     again (default nothing)
  --fake N           clusters in memory: fake+cluster1 to fake+clusterN
                     (default 3 if there are no other clusters)
  --kubeconfig-dir DIR
                     clusters with API servers: kube+NAME is in DIR/NAME.kubeconfig
  --git URL          clusters git+NAME, folders of a git repository: https://, ssh:// or a local
                     folder. ?branch=NAME&path=FOLDER&create-branch=true select the branch and
                     the folder in it; user, password-file, token-file, ca-file, ssh-key-file and
                     known-hosts select the credentials
  --broker URL       clusters work+NAME with agents on an MQTT broker: mqtt://host:1883.
                     ?source=NAME&works=FILE set the source ID (rsync) and the file of the works
                     (rsync-works.db), and user, password-file, ca-file, cert-file and key-file
                     the credentials. go run ./examples/agent --source rsync
                     --cluster NAME --broker URL is an agent
  --client-ca FILE   accept only clients with a certificate of this CA; each of them may make all
                     calls

Flags of clients:
  --server ADDR      the address of the engine (default 127.0.0.1:9031)
  --ca FILE          the CA of the server (default: those of the system)
  --cluster P+C      for create: provider and cluster; once per cluster
  --app NAME         for create: the app of the manifests in DIR itself (default main)
  --override FILE    for create: change objects on some clusters. FILE has a list overrides of
                     target, clusters and patch. A target has the group, kind, namespace and name
                     of an object, and a patch is a JSON patch (RFC 6902)
  --key KEY          for events: an idempotency key; calls with the same key queue one event
  --no-wait          for events: return when the event is queued
  --rollout FILE     for instantiate, update and rollback: move from cluster to cluster. FILE is
                     YAML or JSON with groups (each with name, clusters, maxConcurrency,
                     maxFailures, approveBefore, wait, approveAfter), maxConcurrency, maxFailures,
                     until, minSuccessTime, progressDeadline and rollbackOnFailure. Clusters are
                     P+C, limits 2 or 10%, times 90s or 5m. See rsync/ROLLOUT.md
  --from FROM        for diff: the changes of an update from that context
  --terminate        for diff: the changes of terminate
  -o json            for diff: JSON instead of text
  --after            for approve: open the gate after the group instead of the gate before it
  --watch            for status: continue until Ctrl-C, or until the context is deleted
                     for rollout: continue until it ends, and exit with 1 if it failed

Flags of both:
  --cert FILE        the certificate of this program, in PEM
  --key-file FILE    the key of the certificate, in PEM
  --verbose          log the activity of the SDK to standard error
  --help             show this help

A server for other machines needs --cert, --key-file and --client-ca. On a loopback address, --cert
and --key-file alone serve TLS to every client; without all three flags there is no TLS. A client
with neither --ca nor --cert connects to a loopback address without TLS. A server that does not
answer within 5 seconds is an error; a command that already waits or watches continues. Objects on
clusters in memory end with "serve", but the store still has their statuses.

Exit status: 0 after success, 1 after a failure, 2 for a wrong command line.
`

// DefaultAddr is the default address of a server and of its clients.
const DefaultAddr = "127.0.0.1:9031"

// Options are the options of the command line.
type Options struct {
	// Command is one of the commands in Usage, and Args are its arguments.
	Command string
	Args    []string

	Listen, Store string
	Etcd          []string
	// Clusters has the values of the flags that select providers.
	Clusters map[string]string
	Observe  rsync.Observe

	Server string
	On     []appcontext.ClusterID
	App    string
	// Override is the name of a file.
	Override string
	Key      string
	NoWait   bool
	Watch    bool
	// Rollout is the name of a file.
	Rollout string
	After   bool
	// From, Terminate and Output are the flags of diff.
	From      string
	Terminate bool
	Output    string

	ClientCA, CA, Cert, KeyFile string
	Verbose                     bool
}

// commands has the arguments and the flags of each command.
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

// Parse reads arguments, without the program's name. It returns [flag.ErrHelp] for a request for
// help.
func Parse(args []string) (Options, error) {
	o := Options{Clusters: map[string]string{}}
	if len(args) == 0 {
		return o, errors.New("a command is required")
	}
	flags := command.NewFlags("rsync")
	if strings.HasPrefix(args[0], "-") {
		return o, errors.Join(flags.ParseFlags(args[:1]), errors.New("the command comes first"))
	}
	o.Command = args[0]
	c, ok := commands[o.Command]
	if !ok {
		return o, fmt.Errorf("unknown command %q", o.Command)
	}
	o.define(flags.FlagSet, c.flags)
	if err := flags.ParseFlags(args[1:]); err != nil {
		return o, err
	}
	o.Args = flags.Args()
	if want := strings.Fields(c.arguments); len(o.Args) != len(want) {
		return o, fmt.Errorf("%s needs %s, and has %q: flags come before arguments", o.Command,
			cmp.Or(c.arguments, "no arguments"), o.Args)
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
		return errors.New("must be provider+name")
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
		return fmt.Errorf("--%s: %q: must be host:port", name, addr)
	case (o.Cert == "") != (o.KeyFile == ""):
		return errors.New("--cert and --key-file must be given together")
	case o.ClientCA != "" && o.Cert == "":
		return errors.New("--client-ca needs --cert and --key-file")
	case o.Command == "serve" && o.ClientCA == "" && !loopback(host):
		return fmt.Errorf("--listen %s can be reached from other machines: give --cert, --key-file and --client-ca",
			addr)
	case o.Command == "create" && len(o.On) == 0:
		return errors.New("create needs --cluster, once or more")
	case o.From != "" && o.Terminate:
		return errors.New("--from and --terminate select different events: use one of them")
	case o.Command == "diff" && o.Output != "text" && o.Output != "json":
		return fmt.Errorf("-o: %q: must be json or text", o.Output)
	case flags.Given("store") && flags.Given("etcd"):
		return errors.New("--store and --etcd are two stores for the same data: use one of them")
	}
	return flags.NotEmpty("cert", "key-file", "ca", "store", "client-ca", "app", "override", "key", "rollout", "from")
}

// Insecure reports whether a client connects to its server without TLS: both are on this machine,
// and no certificate is configured.
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
