// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/pflag"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work/apiserver"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/examples/internal/command"
	"github.com/spokewire/sdk-go/examples/internal/logging"
)

// usage is the first part of the output of --help.
const usage = `Usage: go run ./examples/work-apiserver --broker URL [flags]

Serves ManifestWorks as an aggregated API of a Kubernetes cluster, and sends them to the agents of
other clusters over an MQTT broker.

  --broker URL         the broker: mqtt://, mqtts://, ws:// or wss:// (required)
  --broker-ca FILE     the CAs of the broker's certificate (default: the system's)
  --broker-cert FILE   the server's certificate for the broker, with --broker-key
  --broker-key FILE    the key of the certificate
  --username NAME      the user at the broker
  --password-file FILE a file with the user's password
  --source ID          the source ID (default hub). It must stay the same, and differ between
                       sources of one broker
  --store DIR|URL      the folder of the works (default work-data), or a PostgreSQL database,
                       postgres://USER@HOST/DATABASE, that several replicas can share. The server
                       needs the same works after a restart. The password comes from PGPASSWORD,
                       or a file: PGPASSFILE or ?passfile=FILE
  --inventory-complete declare that the store has all works of the source: unknown works on clusters
                       are deleted from then on. The store records it. A server with an empty store
                       and this flag deletes all works
  --forget CLUSTER     end the deletions of works on a cluster whose agent will never return; repeat
                       the flag for more. Its namespace can then be deleted
  --version            show the version
  --help               show this help

README.md in the folder describes the installation in a cluster and the rights of users.

Exit status: 0 after Ctrl-C, 1 after an error, 2 for a wrong command line.

The flags of the API server:

`

// options has the values of the command line.
type options struct {
	broker        mqtt.Options
	source, store string
	complete      bool
	forget        []string
	server        *apiserver.Options
	log           logging.Options
}

// newFlags returns the flags of the API server, and the options that all flags set.
func newFlags() (*pflag.FlagSet, *options) {
	o, flags := &options{server: apiserver.NewOptions()}, pflag.NewFlagSet("work-apiserver", pflag.ContinueOnError)
	flags.Usage = func() {}
	o.server.AddFlags(flags)
	var log flag.FlagSet
	o.log.AddFlags(&log)
	flags.AddGoFlagSet(&log)
	return flags, o
}

// help returns the output of --help.
func help() string {
	flags, _ := newFlags()
	return usage + flags.FlagUsagesWrapped(100)
}

// parse reads arguments, without the program's name. It returns [flag.ErrHelp] for --help.
func parse(args []string) (*options, error) {
	flags, o := newFlags()
	flags.StringVar(&o.broker.BrokerURL, "broker", "", "")
	command.BrokerFlags(flags.StringVar, &o.broker)
	flags.StringVar(&o.source, "source", "hub", "")
	flags.StringVar(&o.store, "store", "work-data", "")
	flags.BoolVar(&o.complete, "inventory-complete", false, "")
	flags.StringArrayVar(&o.forget, "forget", nil, "")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return nil, flag.ErrHelp
	case err != nil:
		return nil, err
	case flags.NArg() > 0:
		return nil, fmt.Errorf("unknown argument %q", flags.Arg(0))
	case o.broker.BrokerURL == "":
		return nil, errors.New("--broker is required")
	case o.store == "":
		return nil, errors.New("--store must not be empty")
	case strings.Contains(o.store, "://") && !o.shared():
		return nil, errors.New("--store: the URL of a database must start with postgres://")
	}
	if o.shared() {
		err = checkDatabase(o.store)
	}
	for _, cluster := range o.forget {
		err = errors.Join(err, codec.ValidateName("--forget", cluster))
	}
	return o, errors.Join(err, codec.ValidateName("--source", o.source), o.server.Validate())
}

// shared reports whether the store is a database that replicas share.
func (o *options) shared() bool {
	return strings.HasPrefix(o.store, "postgres://") || strings.HasPrefix(o.store, "postgresql://")
}

// checkDatabase refuses a password, which all users of the machine could read. Its errors do not
// contain the URL.
func checkDatabase(store string) error {
	u, err := url.Parse(store)
	if err != nil {
		return errors.New("--store: invalid URL of a database")
	}
	_, has := u.User.Password()
	if query := u.Query(); has || query.Has("password") || query.Has("sslpassword") {
		return errors.New("--store: the URL must not have a password; use PGPASSWORD, PGPASSFILE or PGSERVICE")
	}
	return nil
}

// check checks the files of the options.
func check(o *options) error {
	r := o.server.Recommended
	return cmp.Or(
		command.CheckKubeconfig("--kubeconfig", r.CoreAPI.CoreAPIKubeconfigPath),
		command.CheckKubeconfig("--authentication-kubeconfig", r.Authentication.RemoteKubeConfigFile),
		command.CheckKubeconfig("--authorization-kubeconfig", r.Authorization.RemoteKubeConfigFile),
		command.CheckBroker(o.broker),
	)
}
