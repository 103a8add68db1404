// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package input_test

import (
	"path/filepath"
	"testing"

	"k8s.io/client-go/dynamic"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/reconciler"
	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/boltstore"
	"github.com/spokewire/sdk-go/dynamicwatcher"
	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/caller"
	"github.com/spokewire/sdk-go/interpreter/customization"
	"github.com/spokewire/sdk-go/interpreter/lua"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/connector/kube"
	"github.com/spokewire/sdk-go/rsync/connector/manifestwork"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

func failed[T any](_ T, err error) error { return err }

// TestConstructors compares the errors of constructors with their exact texts.
func TestConstructors(t *testing.T) {
	bus := memory.New()
	source := func(o work.SourceOptions) error { return failed(work.NewSource(bus.Transport(), o)) }
	agent := func(o work.AgentOptions) error { return failed(work.NewAgent(bus.Transport(), o)) }
	engine := func(o rsync.Options) error {
		return failed(rsync.New(memstore.New(memstore.Options{}), fake.New(), o))
	}
	missing := filepath.Join(t.TempDir(), "missing")
	t.Setenv("KUBECONFIG", missing)
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"source without options", source(work.SourceOptions{}),
			"work.NewSource: SourceOptions.SourceID: must not be empty"},
		{"source ID with a slash", source(work.SourceOptions{SourceID: "a/b"}),
			"work.NewSource: SourceOptions.SourceID: must not contain '/', which has a meaning in topics"},
		{"source without a transport", failed(work.NewSource(nil, work.SourceOptions{SourceID: "hub"})),
			"work.NewSource: the transport must not be nil"},
		{"source with a negative limit", source(work.SourceOptions{SourceID: "hub", MaxBytes: -1}),
			"work.NewSource: invalid SourceOptions.MaxBytes: -1: must not be negative"},
		{"source with a cluster limit above the total",
			source(work.SourceOptions{SourceID: "hub", MaxBytes: 1, MaxClusterBytes: 2}),
			"work.NewSource: invalid SourceOptions.MaxBytes: 1: must be at least MaxClusterBytes, which is 2"},
		{"source with a negative outbox", source(work.SourceOptions{SourceID: "hub", Outbox: -7}),
			"work.NewSource: invalid SourceOptions.Outbox: -7: must be Disabled, 0 or a number of works"},
		{"caller with many retries", failed(caller.New(caller.Options{Retries: 99})),
			"invalid Options.Retries: 99: must be at most 10"},
		{"agent without options", agent(work.AgentOptions{}),
			"work.NewAgent: AgentOptions.ClusterName: must not be empty"},
		{"agent with an invalid source", agent(work.AgentOptions{ClusterName: "c1", Sources: []string{""}}),
			"work.NewAgent: AgentOptions.Sources[0]: must not be empty"},
		{"MQTT without a broker", failed(mqtt.New(mqtt.Options{})),
			"MQTT options: BrokerURL is empty: write mqtt://host:port, mqtts://host:port, " +
				"ws://host:port/path or wss://host:port/path"},
		{"MQTT without a scheme", failed(mqtt.New(mqtt.Options{BrokerURL: "localhost:1883"})),
			"MQTT options: BrokerURL \"localhost:1883\" has no scheme: write mqtt://host:port, " +
				"mqtts://host:port, ws://host:port/path or wss://host:port/path"},
		{"MQTT options from a missing file", failed(mqtt.LoadOptions(missing)),
			"MQTT options: open " + missing + ": no such file or directory"},
		{"bolt store in a missing folder", failed(boltstore.Open(filepath.Join(missing, "works.db"), boltstore.Options{})),
			"open the store " + missing + "/works.db: open " + missing + "/works.db: no such file or directory"},
		{"watcher without options", failed(dynamicwatcher.New(nil)),
			"dynamicwatcher.New: invalid input: Options.Reconciler: <nil>: must be set"},
		{"watcher without a reconciler", failed(dynamicwatcher.New(&dynamicwatcher.Options{})),
			"dynamicwatcher.New: invalid input: Options.Reconciler: <nil>: must be set"},
		{"watcher without a configuration", failed(dynamicwatcher.New(&dynamicwatcher.Options{
			Reconciler: dynamicwatcher.ReconcilerFunc(nil), Dynamic: &dynamic.DynamicClient{}})),
			"dynamicwatcher.New: Options.Config is nil and the process is not in a cluster: " +
				"set Config, or Mapper with Dynamic or Metadata: load kubeconfig: invalid configuration: no " +
				"configuration has been provided, try setting KUBERNETES_MASTER environment variable"},
		{"tracker without options", failed(appliedwork.NewTracker(appliedwork.Options{})),
			"invalid input: Options.Client is required"},
		{"reconciler without options", failed(reconciler.New(reconciler.Options{})),
			"invalid input: Options.Desired is required"},
		{"webhook server without certificates", failed(interpreter.NewServer(interpreter.ServerOptions{})),
			"invalid ServerOptions.CertDir: required: callers use TLS"},
		{"caller with an invalid host", failed(caller.New(caller.Options{AllowedHosts: []string{"https://a"}})),
			"invalid Options.AllowedHosts: \"https://a\": must be host or host:port, where host may be * or *.domain"},
		{"customization that is no YAML", failed(customization.New(customization.File{Name: "a.yaml", Text: []byte("a: [")})),
			"a.yaml:1: invalid YAML: did not find expected node content"},
		{"customization of an unknown kind",
			failed(customization.New(customization.File{Name: "a.yaml", Text: []byte("apiVersion: v1\nkind: ConfigMap\n")})),
			"a.yaml:2:7: kind: \"ConfigMap\": write InterpreterCustomization"},
		{"Lua with negative steps", failed(lua.New(lua.Options{MaxSteps: -1})),
			"invalid Options.MaxSteps: -1: must not be negative"},
		{"engine with negative workers", engine(rsync.Options{Workers: -1}),
			"invalid input: Options.Workers: -1: must not be negative"},
		{"engine with an unknown Observe", engine(rsync.Options{Observe: 77}),
			"invalid input: Options.Observe: 77: must be a constant from ObserveNothing to ObserveHeal"},
		{"engine without a store", failed(rsync.New(nil, fake.New(), rsync.Options{})),
			"invalid input: rsync.New needs a store"},
		{"engine without connectors", failed(rsync.New(memstore.New(memstore.Options{}), nil, rsync.Options{})),
			"invalid input: rsync.New needs connectors"},
		{"gRPC server without certificates", failed(rsyncgrpc.NewServer(nil, rsyncgrpc.ServerOptions{})),
			"invalid input: rsyncgrpc.NewServer needs an engine"},
		{"gRPC client with a missing CA",
			failed(rsyncgrpc.NewClient("localhost:1", rsyncgrpc.ClientOptions{CAFile: missing})),
			"CAs: open " + missing + ": no such file or directory"},
		{"kube with negative concurrency", failed(kube.New(nil, kube.Options{Concurrency: -1})),
			"kube: the configuration is invalid: Options.Concurrency: -1: must not be negative"},
		{"manifestwork without a client", failed(manifestwork.New(nil, manifestwork.Options{})),
			"manifestwork: the configuration is invalid: the clientset must not be nil"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.err == nil {
				t.Fatal("no error")
			}
			if got := tt.err.Error(); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}
