// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/emco"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc/emcopb"
	"github.com/spokewire/sdk-go/rsync/store/etcdstore"
)

// emcoSite is an etcd with EMCO's keys, and a server of EMCO's services with an engine in the same
// etcd.
type emcoSite struct {
	t        *testing.T
	etcd     *clientv3.Client
	clusters *fake.Clusters
	installs emcopb.InstallappClient
	updates  emcopb.UpdateappClient
	stop     func()
}

func newEMCOSite(t *testing.T) *emcoSite {
	t.Helper()
	s := &emcoSite{t: t, etcd: startEtcd(t, 1).client(t), clusters: fake.New()}
	s.start()
	t.Cleanup(func() { s.stop() })
	return s
}

// start starts an engine, a bridge and a server.
func (s *emcoSite) start() {
	s.t.Helper()
	check := func(err error) {
		s.t.Helper()
		if err != nil {
			s.t.Fatal(err)
		}
	}
	own, err := etcdstore.New(s.etcd, etcdstore.Options{Prefix: "/spokewire"})
	check(err)
	keys, err := etcdstore.New(s.etcd, etcdstore.Options{})
	check(err)
	engine, err := rsync.New(own, s.clusters, rsync.Options{LeaseTTL: time.Second})
	check(err)
	bridge, err := emco.New(engine, keys)
	check(err)
	server, err := rsyncgrpc.NewServer(engine, rsyncgrpc.ServerOptions{
		Options: rsyncgrpc.Options{EMCOImporter: bridge}, Addr: "127.0.0.1:0", Insecure: true,
	})
	check(err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 3)
	for _, start := range []func(context.Context) error{engine.Start, bridge.Start, server.Start} {
		go func() { ended <- start(ctx) }()
	}
	<-server.Ready()
	conn, err := grpc.NewClient(server.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(err)
	s.installs, s.updates = emcopb.NewInstallappClient(conn), emcopb.NewUpdateappClient(conn)
	s.stop = func() {
		_ = conn.Close()
		cancel()
		for range cap(ended) {
			if err := <-ended; err != nil {
				s.t.Error(err)
			}
		}
	}
}

func (s *emcoSite) put(key string, value any) {
	s.t.Helper()
	text, err := json.Marshal(value)
	if err == nil {
		_, err = s.etcd.Put(s.t.Context(), key, string(text))
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// orchestrate writes a context with the app web on a cluster, key by key, like EMCO's orchestrator.
func (s *emcoSite) orchestrate(id string, resources ...string) {
	s.t.Helper()
	root := "/context/" + id + "/"
	s.put(root, id)
	s.put(root+"meta/", map[string]any{"Project": "p", "CompositeApp": "shop", "Level": "0", "Namespace": "default"})
	s.put(root+"app/instruction/order/", `{"apporder":["web"]}`)
	s.put(root+"app/instruction/dependency/", `{"appdependency":{"web":"go"}}`)
	s.put(root+"app/web/", "web")
	cluster := root + "app/web/cluster/edge+c1/"
	s.put(cluster, "edge+c1")
	var order []string
	for _, name := range resources {
		order = append(order, fmt.Sprintf("%q", name+"+ConfigMap"))
		s.put(cluster+"resource/"+name+"+ConfigMap/", strings.ReplaceAll(manifestOf(name, "1"), "NS", "default"))
	}
	s.put(cluster+"resource/instruction/order/", `{"resorder":[`+strings.Join(order, ",")+`]}`)
}

// reads waits until a key of EMCO has a value.
func (s *emcoSite) reads(key, want string) {
	s.t.Helper()
	eventually(s.t, func() string {
		response, err := s.etcd.Get(s.t.Context(), key)
		switch {
		case err != nil:
			return err.Error()
		case len(response.Kvs) == 0:
			return key + " is not there"
		case string(response.Kvs[0].Value) != want:
			return key + " is " + string(response.Kvs[0].Value)
		}
		return ""
	})
}

func status(word string) string { return `{"Status":"` + word + `"}` }

func (s *emcoSite) install(id string) (bool, string) {
	s.t.Helper()
	out, err := s.installs.InstallApp(s.t.Context(), &emcopb.InstallAppRequest{AppContext: id})
	if err != nil {
		s.t.Fatal(err)
	}
	return out.GetAppContextInstalled(), out.GetAppContextInstallMessage()
}

// TestEMCOEtcd: contexts that EMCO's orchestrator wrote into etcd are installed, updated and
// uninstalled through EMCO's services. EMCO finds the statuses in its keys, even the statuses that
// changed while no bridge ran.
func TestEMCOEtcd(t *testing.T) {
	t.Parallel()
	s := newEMCOSite(t)
	if ok, message := s.install("7"); ok || !strings.Contains(message, `app context "7"`) {
		t.Errorf("a context that is nowhere: %v, %q", ok, message)
	}
	s.put("/context/7/", "7")
	if ok, message := s.install("7"); ok || !strings.Contains(message, "/context/7/app/instruction/order/") {
		t.Errorf("a context that is half written: %v, %q", ok, message)
	}
	s.orchestrate("7", "a", "b")
	if ok, message := s.install("7"); !ok {
		t.Fatal(message)
	}
	cluster := "/context/7/app/web/cluster/edge+c1/"
	s.reads("/context/7/status/", status("Instantiated"))
	for _, name := range []string{"a", "b"} {
		s.reads(cluster+"resource/"+name+"+ConfigMap/status/", status("Applied"))
		s.reads(cluster+"resource/"+name+"+ConfigMap/reference/", `"7"`)
	}
	s.reads(cluster+"readystatus/", `"Available"`)
	if n := len(s.clusters.Cluster("edge", "c1").Objects()); n != 2 {
		t.Errorf("%d objects", n)
	}

	s.orchestrate("8", "b", "c")
	s.put("/context/8/statusappctxid/", "7")
	updated, err := s.updates.UpdateApp(t.Context(),
		&emcopb.UpdateAppRequest{UpdateFromAppContext: "7", UpdateToAppContext: "8"})
	if err != nil || !updated.GetAppContextUpdated() {
		t.Fatal(updated, err)
	}
	s.reads("/context/8/status/", status("Instantiated"))
	s.reads("/context/7/status/", status("Updated"))
	s.reads(cluster+"resource/a+ConfigMap/status/", status("Deleted"))
	s.reads(cluster+"resource/b+ConfigMap/reference/", `"8"`)
	s.reads(cluster+"resource/c+ConfigMap/status/", status("Applied"))

	s.clusters.Cluster("edge", "c1").SetMode(fake.ModeUnreachable)
	removed, err := s.installs.UninstallApp(t.Context(), &emcopb.UninstallAppRequest{AppContext: "8"})
	if err != nil || !removed.GetAppContextUninstalled() {
		t.Fatal(removed, err)
	}
	s.reads("/context/8/app/web/cluster/edge+c1/readystatus/", `"Retrying"`)
	s.stop()
	s.clusters.Cluster("edge", "c1").SetMode(fake.ModeWorks)
	s.start()
	s.reads("/context/8/status/", status("Terminated"))
	s.reads(cluster+"resource/c+ConfigMap/status/", status("Deleted"))
	if n := len(s.clusters.Cluster("edge", "c1").Objects()); n != 0 {
		t.Errorf("%d objects", n)
	}
}

// TestEMCOStopFlag: EMCO's orchestrator stops a context with its flag in etcd, and terminates the
// context later: it sets the flag to false and calls UninstallApp immediately. One stop is set
// while no bridge runs.
func TestEMCOStopFlag(t *testing.T) {
	t.Parallel()
	s := newEMCOSite(t)
	s.clusters.Cluster("edge", "c1").SetMode(fake.ModeUnreachable)
	for id, restart := range map[string]bool{"7": false, "8": true} {
		flag := "/context/" + id + "/stopflag/"
		s.orchestrate(id, "a")
		if ok, message := s.install(id); !ok {
			t.Fatal(message)
		}
		s.reads("/context/"+id+"/status/", status("Instantiating"))
		if restart {
			s.stop()
		}
		s.put(flag, true)
		if restart {
			s.start()
		}
		s.reads("/context/"+id+"/status/", status("InstantiateFailed"))
		if ok, message := s.install(id); ok || !strings.Contains(message, "stopped") {
			t.Errorf("a context with the stop flag: %v, %q", ok, message)
		}
	}
	s.clusters.Cluster("edge", "c1").SetMode(fake.ModeWorks)
	for _, id := range []string{"7", "8"} {
		s.put("/context/"+id+"/stopflag/", false)
		removed, err := s.installs.UninstallApp(t.Context(), &emcopb.UninstallAppRequest{AppContext: id})
		if err != nil || !removed.GetAppContextUninstalled() {
			t.Fatal(removed, err)
		}
		s.reads("/context/"+id+"/status/", status("Terminated"))
	}
	s.orchestrate("9", "a")
	s.put("/context/9/stopflag/", "yes")
	if ok, message := s.install("9"); ok || !strings.Contains(message, "/context/9/stopflag/: must be true or false") {
		t.Errorf("a flag that is no boolean: %v, %q", ok, message)
	}
}
