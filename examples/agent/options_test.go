// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/examples/agent/internal/controller"
	"github.com/spokewire/sdk-go/examples/agent/internal/spoke"
	"github.com/spokewire/sdk-go/examples/internal/command/commandtest"
	"github.com/spokewire/sdk-go/examples/internal/logging"
)

func TestUsage(t *testing.T) {
	commandtest.Usage(t, usage, "cluster", "kubeconfig", "hub", "hub-name", "hub-ca", "hub-cert", "hub-key",
		"hub-token-file", "hub-insecure", "hub-was", "broker", "source", "manifest-bundles", "store",
		"broker-ca", "broker-cert", "broker-key",
		"username", "password-file", "hub-kubeconfig", "require-executor", "executor", "secret-feedback", "adopt",
		"eviction-grace", "poll", "degraded-after", "max-watches", "listen", "log-format")
}

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		line string
		want options
	}{
		{"--cluster c --broker mqtt://b --source a", options{
			Cluster: "c", Broker: mqtt.Options{BrokerURL: "mqtt://b"}, Sources: []string{"a"},
			Spoke: spoke.Options{Hub: "hub", Adoption: appliedwork.AdoptionNever},
			Works: controller.Options{PollInterval: time.Minute, DegradedAfter: 5 * time.Minute, MaxWatches: 5000},
		}},
		{"--cluster c --kubeconfig k --hub-name h --broker mqtts://b --source a --source b --store s --broker-ca ca " +
			"--broker-cert cert --broker-key key --username u --password-file p " +
			"--require-executor --executor shop/deployer --executor team-*/* --secret-feedback --adopt unowned " +
			"--eviction-grace 1h --poll 5s --degraded-after 1s --max-watches 0 --listen :0 -v 2 --log-format json", options{
			Cluster: "c", Kubeconfig: "k", Sources: []string{"a", "b"}, Store: "s",
			Broker: mqtt.Options{BrokerURL: "mqtts://b", CAFile: "ca", CertFile: "cert", KeyFile: "key", Username: "u",
				PasswordFile: "p"},
			Spoke: spoke.Options{Hub: "h", Executors: []string{"shop/deployer", "team-*/*"}, SecretFeedback: true,
				Adoption: appliedwork.AdoptionIfUnowned, EvictionGrace: time.Hour},
			Works:  controller.Options{PollInterval: 5 * time.Second, DegradedAfter: time.Second},
			Listen: ":0", Log: logging.Options{JSON: true, Verbosity: 2},
		}},
		{"--cluster c --hub h:8443 --source a --hub-ca ca --hub-cert cert --hub-key key --hub-token-file t " +
			"--manifest-bundles", options{
			Cluster: "c", Sources: []string{"a"}, Bundles: true,
			Hub:   grpc.Options{Address: "h:8443", CAFile: "ca", CertFile: "cert", KeyFile: "key", TokenFile: "t"},
			Spoke: spoke.Options{Hub: "hub", Adoption: appliedwork.AdoptionNever},
			Works: controller.Options{PollInterval: time.Minute, DegradedAfter: 5 * time.Minute, MaxWatches: 5000},
		}},
		{"--cluster c --hub-kubeconfig k --adopt always --require-executor --hub-was https://a --hub-was " +
			"https://b:443/", options{
			Cluster: "c", HubKubeconfig: "k",
			Spoke: spoke.Options{Hub: "hub", FormerAddresses: []string{"https://a", "https://b"}, Executors: []string{"*/*"},
				Adoption: appliedwork.AdoptionAlways, EvictionGrace: time.Hour},
			Works: controller.Options{PollInterval: time.Minute, DegradedAfter: 5 * time.Minute, MaxWatches: 5000},
		}},
	} {
		got, err := parse(strings.Split(tt.line, " "))
		if err != nil {
			t.Errorf("%s: %v", tt.line, err)
		}
		got.Hub.OptionNames, got.Broker.OptionNames = nil, nil // errors have them, see TestMisuse
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", tt.line, diff)
		}
	}
}

func TestRefuses(t *testing.T) {
	const mqtt, kube = "--cluster c --broker mqtt://b --source s ", "--cluster c --hub-kubeconfig k "
	const grpc = "--cluster c --hub h:1 --source s "
	commandtest.Refuses(t, parse, map[string]string{
		"--broker mqtt://b":                          "--cluster is required",
		"--cluster c":                                "--hub, --broker or --hub-kubeconfig is required",
		"--cluster c --broker mqtt://b":              "--source is required: the source to serve, as --source hub",
		"--cluster c --hub h:1":                      "--source is required: the source to serve, as --source hub",
		mqtt + "--hub-kubeconfig k":                  "--broker and --hub-kubeconfig are both set: remove one of them",
		mqtt + "--hub h:1":                           "--hub and --broker are both set: remove one of them",
		mqtt + "--hub-ca ca":                         "--hub-ca needs --hub, not --broker",
		mqtt + "--hub-insecure":                      "--hub-insecure needs --hub, not --broker",
		grpc + "--username u":                        "--username needs --broker, not --hub",
		kube + "--source s":                          "--source needs --hub, not --hub-kubeconfig",
		kube + "--manifest-bundles":                  "--manifest-bundles needs --hub, not --hub-kubeconfig",
		kube + "--store s":                           "--store needs --hub, not --hub-kubeconfig",
		mqtt + "--source ":                           "--source must not be empty: name the source to serve",
		mqtt + "--source a/b":                        "--source: must not contain '/'",
		"--cluster a/b --broker mqtt://b --source s": `--cluster: "a/b": a lowercase RFC 1123 label`,
		"--cluster A_B --broker mqtt://b --source s": `--cluster: "A_B": `,
		"--cluster a.b --broker mqtt://b --source s": `--cluster: "a.b": `,
		mqtt + "--store ":                            "--store must not be empty",
		mqtt + "--executor deployer":                 `"deployer": must be namespace/name of a service account, where * matches any characters`,
		mqtt + "--executor a/b/c":                    `"a/b/c": must be namespace/name of a service account`,
		mqtt + "--executor a/[":                      `"a/[": must be namespace/name of a service account`,
		mqtt + "--adopt sometimes":                   "must be always, unowned or never",
		mqtt + "--poll 0s":                           "--poll must be 1s or more, not 0s",
		mqtt + "--degraded-after 10ms":               "--degraded-after must be 1s or more",
		mqtt + "--eviction-grace -1s":                "--eviction-grace must not be negative",
		mqtt + "--max-watches -1":                    "--max-watches must be from 0 to 100000",
		mqtt + "--listen 8080":                       `--listen: "8080": must be host:port or :port`,
		mqtt + "--hub-name ":                         "--hub-name must not be empty",
		mqtt + "--hub-was ":                          "must be an address",
		mqtt + "another":                             `unknown argument "another"`,
		mqtt + "--eviction-grace soon":               "eviction-grace",
		"--cluster c --broker mqtt://b --now":        "-now",
	})
}
