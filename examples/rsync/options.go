// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/examples/internal/command"
	"github.com/spokewire/sdk-go/examples/internal/logging"
	"github.com/spokewire/sdk-go/internal/tlsfiles"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc"
)

// commands has the arguments and the flags of each command.
var commands = map[string]struct{ args, flags, help string }{
	"serve": {"", "listen client-ca store fake kubeconfig-dir git broker broker-ca broker-cert broker-key username " +
		"password-file", "run the engine until Ctrl-C"},
	"create":      {"ID DIR", "cluster server ca", "store a context: each folder in DIR is an app, on each --cluster"},
	"instantiate": {"ID", "server ca", "apply the context to its clusters"},
	"update":      {"FROM TO", "server ca", "update from one context to another, or back"},
	"terminate":   {"ID", "server ca", "delete the context's objects from its clusters"},
	"diff":        {"ID", "terminate server ca", "show the changes that instantiate or terminate would make"},
	"detach":      {"ID", "cluster server ca", "remove a dead --cluster from the context"},
	"status":      {"ID", "watch server ca", "show the status of the context"},
	"list":        {"", "server ca", "list all contexts"},
	"delete":      {"ID", "server ca", "remove the context from the store"},
}

// options are the name of a command, its arguments and its flags.
type options struct {
	name                       string
	args                       []string
	addr, ca, cert, key        string // of the server and for TLS
	store, kubeconfigDir, git  string
	broker                     mqtt.Options
	fake                       int
	clusters                   []appcontext.ClusterID
	insecure, terminate, watch bool
	log                        logging.Options
}

// flags returns the flags of all commands.
func (o *options) flags() command.Flags {
	f := command.NewFlags("rsync")
	f.StringVar(&o.addr, "listen", rsyncgrpc.DefaultAddr, "serve: the `ADDR` of the server")
	f.StringVar(&o.ca, "client-ca", "", "serve: use TLS, with the CA of the clients in `FILE`")
	f.StringVar(&o.store, "store", "rsync.db", "serve: store everything in `FILE`, etcd://host:port "+
		"or postgres://host/database")
	f.IntVar(&o.fake, "fake", 3, "serve: clusters in memory, fake+cluster1 to fake+cluster`N`")
	f.StringVar(&o.kubeconfigDir, "kubeconfig-dir", "", "serve: clusters kube+NAME with the files `DIR`/NAME.kubeconfig")
	f.StringVar(&o.git, "git", "", "serve: clusters git+NAME, folders of the git repository `URL`")
	f.StringVar(&o.broker.BrokerURL, "broker", "", "serve: clusters work+NAME with agents on the MQTT broker `URL`")
	command.BrokerFlags(f.StringVar, &o.broker)
	f.StringVar(&o.addr, "server", rsyncgrpc.DefaultAddr, "the `ADDR` of the server")
	f.StringVar(&o.ca, "ca", "", "use TLS, with the CA of the server in `FILE`")
	f.StringVar(&o.cert, "cert", "", "the certificate of this program in `FILE`")
	f.StringVar(&o.key, "key-file", "", "the key of the certificate in `FILE`")
	f.Func("cluster", "create, detach: `CLUSTER` as provider+name; repeatable", func(text string) error {
		provider, name, _ := strings.Cut(text, "+")
		if provider == "" || name == "" {
			return errors.New("must be provider+name")
		}
		o.clusters = append(o.clusters, appcontext.ClusterID{Provider: provider, Name: name})
		return nil
	})
	f.BoolVar(&o.terminate, "terminate", false, "diff: show what terminate would change")
	f.BoolVar(&o.watch, "watch", false, "status: continue with all changes, until the context is deleted")
	o.log.AddFlags(f.FlagSet)
	return f
}

// usage returns the text of --help.
func usage() string {
	var b strings.Builder
	b.WriteString("Usage: go run ./examples/rsync COMMAND [flags] [arguments]\n\n")
	for _, name := range slices.Sorted(maps.Keys(commands)) {
		fmt.Fprintf(&b, "  %-20s %s\n", name+" "+commands[name].args, commands[name].help)
	}
	b.WriteString("\nFlags:\n")
	new(options).flags().VisitAll(func(f *flag.Flag) {
		value, help := flag.UnquoteUsage(f)
		fmt.Fprintf(&b, "  %-20s %s\n", command.Dashed(f.Name)+" "+value, help)
	})
	b.WriteString("  --help               show this help\n\n")
	b.WriteString("Exit status: 0 after success, 1 after a failure, 2 for a wrong command line.\n")
	return b.String()
}

// parse reads arguments. It returns [flag.ErrHelp] for a request for help.
func parse(args []string) (*options, error) {
	if len(args) == 0 {
		return nil, errors.New("a command is required")
	}
	o, flags := &options{name: args[0]}, command.NewFlags("rsync")
	own, ok := commands[o.name]
	if !ok {
		return nil, cmp.Or(flags.ParseFlags(args[:1]), fmt.Errorf("unknown command %q", o.name))
	}
	all := o.flags()
	for _, name := range strings.Fields(own.flags + " cert key-file log-format v") {
		flags.Var(all.Lookup(name).Value, name, "")
	}
	if err := flags.ParseFlags(args[1:]); err != nil {
		return nil, err
	}
	if o.args = flags.Args(); len(o.args) != len(strings.Fields(own.args)) {
		return nil, fmt.Errorf("%s needs %s, and has %q: flags come before arguments", o.name,
			cmp.Or(own.args, "no arguments"), o.args)
	}
	o.insecure = o.ca+o.cert+o.key == ""
	host, _, err := net.SplitHostPort(o.addr)
	switch {
	case err != nil:
		return nil, fmt.Errorf("--listen or --server: %q: must be host:port", o.addr)
	case o.insecure && host != "localhost" && !net.ParseIP(host).IsLoopback():
		return nil, fmt.Errorf("%s is no loopback address: give --cert, --key-file and --client-ca or --ca", o.addr)
	case !o.insecure && slices.Contains([]string{o.ca, o.cert, o.key}, ""):
		return nil, errors.New("--cert, --key-file and --client-ca or --ca must be given together")
	case flags.Lookup("cluster") != nil && len(o.clusters) == 0:
		return nil, fmt.Errorf("%s needs --cluster, once or more", o.name)
	}
	return o, cmp.Or(command.Within("fake", o.fake, 1, 10_000),
		flags.NotEmpty("ca", "client-ca", "cert", "key-file", "store", "kubeconfig-dir", "git", "broker", "broker-ca",
			"broker-cert", "broker-key", "username", "password-file"))
}

// check checks the files and folders of the options.
func check(o *options) error {
	if !o.insecure {
		flag := map[bool]string{true: "--client-ca", false: "--ca"}[o.name == "serve"]
		if _, err := tlsfiles.Authorities(flag, o.ca); err != nil {
			return err
		}
		if _, err := tlsfiles.Pair(o.cert, o.key); err != nil {
			return tlsfiles.OptionNames{"CertFile": "--cert", "KeyFile": "--key-file"}.Error(err)
		}
	}
	if o.name == "create" {
		return command.CheckFolder("DIR", o.args[1])
	}
	if o.git != "" {
		if _, err := openGit(o.git); err != nil {
			return err
		}
	}
	if b := o.broker; b.BrokerURL+b.CAFile+b.CertFile+b.KeyFile+b.Username+b.PasswordFile != "" {
		if err := command.CheckBroker(o.broker); err != nil {
			return err
		}
	}
	return command.CheckFolder("--kubeconfig-dir", o.kubeconfigDir)
}
