// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/examples/internal/command"
	"github.com/spokewire/sdk-go/internal/httpserve"
)

// usage is the output of --help.
const usage = `Usage: go run ./examples/hub --broker URL [flags]

Runs applications on clusters: takes documents that say what runs where, sends them as
ManifestWorks to the clusters' agents over an MQTT broker, rolls updates out in order and
back again, and shows on a web page how everything is.

  --broker URL         the broker: mqtt://, mqtts://, ws:// or wss:// (required)
  --broker-ca FILE     the CAs of the broker's certificate (default: the system's)
  --broker-cert FILE   the hub's certificate, with --broker-key
  --broker-key FILE    its key
  --username NAME      the user at the broker
  --password-file FILE its password
  --source ID          who we are towards agents (default hub). It must stay the same, and
                       be another one for each hub of a broker: two with the same ID delete
                       each other's works, and say so
  --dir DIR            take documents from the .yaml, .yml and .json files in DIR, also when
                       they change, which is seen within 30 s where the file system does not
                       tell. A file that is wrong or empty later changes nothing, nor does a
                       DIR without documents. Without --dir documents come through the HTTP
                       API, and are kept in the store. A hub does not start where documents
                       come another way than before and would take something away
  --leave-dir          begin to take documents through the HTTP API with the store of a hub
                       that had a --dir. Applications stay as they are until they have
                       documents again and are placed, or until POST /api/v1/complete
                       says that all are
  --listen ADDR        serve page, API, /metrics, /healthz and /readyz (default 127.0.0.1:8080).
                       There is no login
  --allowed-host HOST  serve page and API for requests to HOST, a name or an address without
                       port, more than once for more (default: localhost and the loopback
                       addresses). Required where --listen is no loopback address: a page of
                       another site could otherwise reach the hub by a name of its own. With
                       --listen on a loopback address, probes and /metrics refuse other hosts
                       too; on other addresses they accept every host
  --kubeconfig FILE    the hub's own cluster, whose Secrets and ConfigMaps templates may read
                       (default: templates may read none); "auto" for that of the pod,
                       of KUBECONFIG or of ~/.kube/config
  --customizations PATH
                       use the customizations in PATH, a YAML file or a folder of them, to decide
                       whether objects are healthy and ready; more than once for more. They are
                       read at the start, and asked before webhooks
  --allow-webhook TARGET
                       send objects to webhooks at TARGET, more than once for more: a host or
                       host:port in URLs (*.example.com for all names below, * for any), a
                       service NAMESPACE/NAME or NAMESPACE/*, or a network such as 127.0.0.0/8,
                       which only loopback, link-local and metadata addresses need
                       (default: calls to all webhooks fail)
  --store DIR          keep works, revisions with the Secrets that they have read, and
                       documents in DIR (default hub-data). A hub needs the same one again,
                       as a whole. Works that are lost (works.db) are written anew, and what
                       clusters have beside them is deleted when the agents of all have
                       applied them. A hub without --dir that begins with an empty DIR leaves
                       works that it does not know, also after restarts, until
                       POST /api/v1/complete. Works that nobody remembers the reason of
                       (state.db) are shown as unclaimed, and stay
  --revisions N        keep N revisions of each application for rollbacks (default 10)
  --max-memory N       refuse documents when all documents and their objects need more than
                       N MiB of the hub's memory (default 64, for 20,000 small objects)
  --patience D         stop an update that waits, for clusters that are away or for hooks and
                       parts that do not become ready, when something newer has waited for
                       so long (default 30s)
  --verbose            log what the SDK does, to standard error
  --help               show this

Documents are described in examples/hub/internal/document, and there are some in
examples/hub/samples. An Application with spec.rollout is rolled out in groups: POST approve,
pause, resume or abort to /api/v1/applications/NAME/ to control it. The API is described in
examples/hub/internal/httpapi.

Exit status: 0 when it was asked to end, 1 after an error, 2 for a wrong command line.
`

// options has the values of the command line.
type options struct {
	Broker            mqtt.Options
	Source            string
	Dir, Listen       string
	LeaveDir          bool
	Kubeconfig, Store string
	Revisions         int
	MaxMemory         int // MiB
	Patience          time.Duration
	Verbose           bool
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
	flags := command.NewFlags("hub")
	for name, value := range map[string]*string{
		"broker": &o.Broker.BrokerURL, "broker-ca": &o.Broker.CAFile, "broker-cert": &o.Broker.CertFile, "broker-key": &o.Broker.KeyFile,
		"username": &o.Broker.Username, "password-file": &o.Broker.PasswordFile,
	} {
		flags.StringVar(value, name, "", "")
	}
	flags.StringVar(&o.Source, "source", "hub", "")
	flags.StringVar(&o.Dir, "dir", "", "")
	flags.BoolVar(&o.LeaveDir, "leave-dir", false, "")
	flags.StringVar(&o.Listen, "listen", "127.0.0.1:8080", "")
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
	flags.BoolVar(&o.Verbose, "verbose", false, "")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	return o, o.validate(flags)
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
	if strings.Contains(target, "/") {
		o.Services = append(o.Services, target)
	} else {
		o.Hosts = append(o.Hosts, target)
	}
	return nil
}

func (o options) validate(flags command.Flags) error {
	if err := flags.NotEmpty("broker", "broker-ca", "broker-cert", "broker-key", "username", "password-file", "source", "dir", "listen", "kubeconfig", "store"); err != nil {
		return err
	}
	if err := command.Within("revisions", o.Revisions, 2, 1000); err != nil {
		return err
	}
	if err := command.Within("max-memory", o.MaxMemory, 1, 1<<20); err != nil {
		return err
	}
	host, _, err := net.SplitHostPort(o.Listen)
	switch {
	case err != nil:
		return fmt.Errorf("--listen %q is no address: write host:port or :port", o.Listen)
	case !httpserve.Loopback(host) && len(o.AllowedHosts) == 0:
		return fmt.Errorf("--listen %s can be reached from other machines, and there is no login: "+
			"put a proxy that authenticates in front, and add --allowed-host HOST for each host in the URLs of the hub", o.Listen)
	case o.Broker.BrokerURL == "":
		return errors.New("--broker is required")
	case o.LeaveDir && o.Dir != "":
		return errors.New("--leave-dir is for a hub without --dir")
	case o.Patience <= 0:
		return errors.New("--patience must be more than 0")
	}
	return codec.ValidateName("--source", o.Source)
}
