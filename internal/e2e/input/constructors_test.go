// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package input_test

import (
	"path/filepath"
	"testing"
	"time"

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
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"source without options", source(work.SourceOptions{}), ""},
		{"source ID with a slash", source(work.SourceOptions{SourceID: "a/b"}), ""},
		{"source without a transport", failed(work.NewSource(nil, work.SourceOptions{SourceID: "hub"})), ""},
		{"source with a negative limit", source(work.SourceOptions{SourceID: "hub", MaxBytes: -1}), ""},
		{"source with a cluster limit above the total", source(work.SourceOptions{SourceID: "hub", MaxBytes: 1, MaxClusterBytes: 2}), ""},
		{"source with a negative outbox", source(work.SourceOptions{SourceID: "hub", Outbox: -7}), ""},
		{"caller with many retries", failed(caller.New(caller.Options{Retries: 99})), ""},
		{"agent without options", agent(work.AgentOptions{}), ""},
		{"agent with an invalid source", agent(work.AgentOptions{ClusterName: "c1", Sources: []string{""}}), ""},
		{"MQTT without a broker", failed(mqtt.New(mqtt.Options{})), ""},
		{"MQTT without a scheme", failed(mqtt.New(mqtt.Options{BrokerURL: "localhost:1883"})), ""},
		{"MQTT options from a missing file", failed(mqtt.LoadOptions(missing)), ""},
		{"bolt store in a missing folder", failed(boltstore.Open(filepath.Join(missing, "works.db"), boltstore.Options{})), ""},
		{"watcher without options", failed(dynamicwatcher.New(nil)), ""},
		{"watcher without a reconciler", failed(dynamicwatcher.New(&dynamicwatcher.Options{})), ""},
		{"tracker without options", failed(appliedwork.NewTracker(appliedwork.Options{})), ""},
		{"reconciler without options", failed(reconciler.New(reconciler.Options{})), ""},
		{"webhook server without certificates", failed(interpreter.NewServer(interpreter.ServerOptions{})), ""},
		{"caller with an invalid host", failed(caller.New(caller.Options{AllowedHosts: []string{"https://a"}})), ""},
		{"customization that is no YAML", failed(customization.New(customization.File{Name: "a.yaml", Text: []byte("a: [")})), ""},
		{"customization of an unknown kind", failed(customization.New(customization.File{Name: "a.yaml", Text: []byte("apiVersion: v1\nkind: ConfigMap\n")})), ""},
		{"Lua with negative steps", failed(lua.New(lua.Options{MaxSteps: -1})), ""},
		{"engine with negative workers", engine(rsync.Options{Workers: -1}), ""},
		{"engine with an unknown Observe", engine(rsync.Options{Observe: 77}), ""},
		{"engine without a store", failed(rsync.New(nil, fake.New(), rsync.Options{})), ""},
		{"gRPC server without certificates", failed(rsyncgrpc.NewServer(nil, rsyncgrpc.ServerOptions{})), ""},
		{"gRPC client with a missing CA", failed(rsyncgrpc.NewClient("localhost:1", rsyncgrpc.ClientOptions{CAFile: missing})), ""},
		{"kube with negative concurrency", failed(kube.New(nil, kube.Options{Concurrency: -1})), ""},
		{"manifestwork without a client", failed(manifestwork.New(nil, manifestwork.Options{})), ""},
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
