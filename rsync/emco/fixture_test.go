// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package emco_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/emco"
	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// write is a key that EMCO's orchestrator writes.
type write struct{ key, value string }

// orchestrator returns the writes of EMCO's orchestrator for a context, in its order. The text
// lists apps on clusters with their ConfigMaps: "web@c1 a=1 b=1; db@c1 d=1".
func orchestrator(id, text string) []write {
	root := "/context/" + id + "/"
	var out []write
	put := func(key string, value any) {
		encoded, err := json.Marshal(value)
		if err != nil {
			panic(err)
		}
		out = append(out, write{root + key, string(encoded)})
	}
	instruction := func(key string, value any) {
		encoded, err := json.Marshal(value)
		if err != nil {
			panic(err)
		}
		put(key, string(encoded))
	}
	put("", id)
	put("meta/", map[string]any{
		"Project": "p", "CompositeApp": "shop", "Version": "v1", "Release": "r", "DeploymentIntentGroup": "dig",
		"Namespace": "default", "Level": "0", "ChildContextIDs": nil, "LogicalCloud": "lc",
		"LogicalCloudNamespace": "default",
	})
	var apps []string
	for part := range strings.SplitSeq(text, ";") {
		fields := strings.Fields(part)
		app, cluster, _ := strings.Cut(fields[0], "@")
		if !slices.Contains(apps, app) {
			apps = append(apps, app)
			put("app/"+app+"/", app)
		}
		below := "app/" + app + "/cluster/edge+" + cluster + "/"
		put(below, "edge+"+cluster)
		put(below+"!@#metaGrp/", "1")
		var order []string
		for _, field := range fields[1:] {
			name, value, _ := strings.Cut(field, "=")
			order = append(order, name+"+ConfigMap")
			put(below+"resource/"+name+"+ConfigMap/", manifest(name, value))
		}
		instruction(below+"resource/instruction/order/", map[string][]string{"resorder": order})
	}
	instruction("app/instruction/order/", map[string][]string{"apporder": apps})
	instruction("app/instruction/dependency/", map[string]map[string]string{"appdependency": {apps[0]: "go"}})
	return out
}

func manifest(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %q, namespace: default}\ndata: {value: %q}\n",
		name, value)
}

// scene has an engine, EMCO's keys and a bridge.
type scene struct {
	t        *testing.T
	keys     *memstore.Store
	clusters *fake.Clusters
	engine   *rsync.Engine
	bridge   *emco.Bridge
}

// newScene starts an engine and a bridge. If keys is not nil, it wraps the in-memory store for the
// bridge.
func newScene(t *testing.T, keys func(store.Store) store.Store) *scene {
	t.Helper()
	s := &scene{t: t, keys: memstore.New(memstore.Options{}), clusters: fake.New()}
	var err error
	if s.engine, err = rsync.New(memstore.New(memstore.Options{}), s.clusters, rsync.Options{}); err != nil {
		t.Fatal(err)
	}
	s.start(s.engine.Start)
	var of store.Store = s.keys
	if keys != nil {
		of = keys(of)
	}
	s.bridge = s.newBridge(of)
	return s
}

func (s *scene) newBridge(keys store.Store) *emco.Bridge {
	s.t.Helper()
	bridge, err := emco.New(s.engine, keys)
	if err != nil {
		s.t.Fatal(err)
	}
	s.start(bridge.Start)
	return bridge
}

func (s *scene) start(start func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- start(ctx) }()
	s.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Error(err)
		}
	})
}

func (s *scene) put(writes ...write) {
	s.t.Helper()
	for _, w := range writes {
		if _, err := s.keys.Txn(s.t.Context(), nil, []store.Op{store.Put(w.key, []byte(w.value))}); err != nil {
			s.t.Fatal(err)
		}
	}
}

// importContext writes a context as EMCO's orchestrator does, and imports it.
func (s *scene) importContext(id, text string) {
	s.t.Helper()
	s.put(orchestrator(id, text)...)
	c, err := s.bridge.Import(s.t.Context(), id)
	if err == nil {
		err = s.engine.Create(s.t.Context(), c)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) done(ref rsync.EventRef, err error) {
	s.t.Helper()
	if err == nil {
		_, err = s.engine.Wait(s.t.Context(), ref)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// ref returns the reference of a queued event, or ends the test after an error.
func (s *scene) ref(ref rsync.EventRef, err error) rsync.EventRef {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
	return ref
}

// settle waits until all statuses are written, in a synctest bubble.
func settle() { time.Sleep(time.Minute) }

// value returns the value of a key of EMCO's, or "".
func (s *scene) value(key string) string {
	s.t.Helper()
	kv, err := s.keys.Get(s.t.Context(), key)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(kv.Value)
}

// statuses returns the statuses that EMCO's status query reads: those of the context current, and
// those of resources from the context of. The form is "Instantiated; web@c1 Available a=Applied
// b=Applied; …". EMCO reads a resource only if its reference leads to a context that has it. It
// reads the status of a cluster from the context of its reference.
func (s *scene) statuses(current, of string) string {
	s.t.Helper()
	text := func(key string) (out string) {
		_ = json.Unmarshal([]byte(s.value(key)), &out)
		return out
	}
	word := func(key string) string {
		var v struct{ Status string }
		_ = json.Unmarshal([]byte(s.value(key)), &v)
		return v.Status
	}
	out := word("/context/" + current + "/status/")
	root := "/context/" + of + "/"
	result, err := s.keys.Range(s.t.Context(), root+"app/")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, kv := range result.KVs {
		below := strings.TrimPrefix(kv.Key, root)
		parts := strings.Split(below, "/")
		switch {
		case len(parts) == 5 && parts[2] == "cluster":
			ready := text("/context/" + text(kv.Key+"reference/") + "/" + below + "readystatus/")
			out += "; " + parts[1] + "@" + strings.TrimPrefix(parts[3], "edge+") + " " + ready
		case len(parts) == 7 && parts[4] == "resource":
			if s.value("/context/"+text(kv.Key+"reference/")+"/"+below) != "" {
				out += " " + strings.TrimSuffix(parts[5], "+ConfigMap") + "=" + word(kv.Key+"status/")
			}
		}
	}
	return out
}

func (s *scene) reads(id, want string) {
	s.t.Helper()
	s.readsFrom(id, id, want)
}

func (s *scene) readsFrom(current, of, want string) {
	s.t.Helper()
	if got := s.statuses(current, of); got != want {
		s.t.Errorf("EMCO reads %q, want %q", got, want)
	}
}
