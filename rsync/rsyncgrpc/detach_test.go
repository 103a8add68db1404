// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc/rsyncv1"
)

func onEdge(name string) appcontext.ClusterID {
	return appcontext.ClusterID{Provider: "edge", Name: name}
}

// TestDetach: a client detaches a dead cluster, lists its remnants, forgets them, and attaches the
// cluster again.
func TestDetach(t *testing.T) {
	s, client := remote(t, rsyncgrpc.ServerOptions{})
	ctx := limited(t)
	check(t, client.Create(ctx, shop(t, "a", "1", "c1", "c2")))
	must[*rsync.Status](t)(client.Wait(ctx, must[rsync.EventRef](t)(client.Instantiate(ctx, "a"))))
	s.clusters.Cluster("edge", "c2").SetMode(fake.ModeUnreachable)
	for range 2 { // the second time changes nothing
		check(t, client.Detach(ctx, "a", onEdge("c2")))
	}
	remnants := must[[]rsync.Remnant](t)(client.Detached(ctx))
	if len(remnants) != 1 || remnants[0].AppContextID != "a" || remnants[0].Cluster != onEdge("c2") ||
		remnants[0].Since.IsZero() || len(remnants[0].Objects) != 1 || remnants[0].Objects[0].Name != "settings" {
		t.Errorf("to be cleaned up is %+v", remnants)
	}
	status := must[*rsync.Status](t)(client.Status(ctx, "a"))
	if !slices.Equal(status.Detached, []appcontext.ClusterID{onEdge("c2")}) {
		t.Errorf("detached are %v", status.Detached)
	}
	check(t, client.Forget(ctx, onEdge("c2")))
	soon(t, "nothing is left to be cleaned up", func() bool {
		return len(must[[]rsync.Remnant](t)(client.Detached(ctx))) == 0
	})
	check(t, client.Attach(ctx, "a", onEdge("c2")))
	if status := must[*rsync.Status](t)(client.Status(ctx, "a")); status.Detached != nil {
		t.Errorf("detached are %v after Attach", status.Detached)
	}
}

// TestDetachErrors: errors equal those of the engine, and a message without a cluster is refused.
func TestDetachErrors(t *testing.T) {
	s, client := remote(t, rsyncgrpc.ServerOptions{})
	ctx := limited(t)
	check(t, client.Create(ctx, shop(t, "a", "1", "c1")))
	for name, call := range map[string]func(rsyncgrpc.Engine, string, appcontext.ClusterID) error{
		"Detach": func(e rsyncgrpc.Engine, id string, c appcontext.ClusterID) error { return e.Detach(ctx, id, c) },
		"Attach": func(e rsyncgrpc.Engine, id string, c appcontext.ClusterID) error { return e.Attach(ctx, id, c) },
	} {
		for _, bad := range []struct {
			id, cluster string
			want        error
		}{{"none", "c1", rsync.ErrNotFound}, {"a", "c2", rsync.ErrNotFound}, {"a/b", "c1", rsync.ErrInvalidInput}} {
			local, err := call(s.engine, bad.id, onEdge(bad.cluster)), call(client, bad.id, onEdge(bad.cluster))
			if !errors.Is(err, bad.want) || !errors.Is(local, bad.want) || err.Error() != local.Error() {
				t.Errorf("%s %s %s returned %v, the engine %v", name, bad.id, bad.cluster, err, local)
			}
		}
		if err := call(client, "a", onEdge("\xff")); !errors.Is(err, rsync.ErrInvalidInput) {
			t.Errorf("%s of a cluster that is not UTF-8 returned %v", name, err)
		}
		if err := call(client, "a", appcontext.ClusterID{}); !errors.Is(err, rsync.ErrInvalidInput) {
			t.Errorf("%s without a cluster returned %v", name, err)
		}
	}
	for _, c := range []appcontext.ClusterID{{}, {Provider: "edge"}, {Name: "c1"}} {
		if err := client.Forget(ctx, c); !errors.Is(err, rsync.ErrInvalidInput) ||
			!strings.Contains(err.Error(), "must have a provider and a name") {
			t.Errorf("Forget of %q returned %v", c, err)
		}
	}
}

// manyRemnants is an engine with many remnants.
type manyRemnants struct {
	rsyncgrpc.Engine
	remnants []rsync.Remnant
}

func (e manyRemnants) Detached(context.Context) ([]rsync.Remnant, error) { return e.remnants, nil }

// TestManyRemnants: a list that is larger than a message arrives complete.
func TestManyRemnants(t *testing.T) {
	since := time.Now().UTC().Round(0)
	e := manyRemnants{}
	for i := range 300 {
		r := rsync.Remnant{AppContextID: "a", Cluster: onEdge(fmt.Sprint("c", i)), Since: since,
			Reason: rsync.ReasonUnreachable, Message: "no answer"}
		for n := range map[int]int{1: 1, 2: 30, 3: 20_000, 200: 20_000}[i] {
			r.Objects = append(r.Objects,
				appcontext.Object{Kind: "ConfigMap", Namespace: "default", Name: fmt.Sprint("settings-", n)})
		}
		e.remnants = append(e.remnants, r)
	}
	addr, _ := serve(t, e, rsyncgrpc.ServerOptions{})
	client := dial(t, addr, rsyncgrpc.ClientOptions{MaxMessageBytes: 1 << 20})
	if got := must[[]rsync.Remnant](t)(client.Detached(limited(t))); !reflect.DeepEqual(got, e.remnants) {
		t.Errorf("%d remnants arrived changed as %d", len(e.remnants), len(got))
	}
}

// TestRulesWithClustersLimitDetach: rules with clusters allow only requests that affect only these
// clusters.
func TestRulesWithClustersLimitDetach(t *testing.T) {
	s := newScene(t)
	files := newTLSFiles(t)
	o := files.serverOptions()
	o.Authorizer = rsyncgrpc.Rules{
		{Clients: []string{"cn:owner"}, AppContexts: []string{"shop-*"}},
		{Clients: []string{"cn:site"}, Verbs: []rsyncgrpc.Verb{rsyncgrpc.VerbDetach}, Clusters: []string{"edge+c1"}},
		{Clients: []string{"cn:web"}, Apps: []string{"web"}},
		{Clients: []string{"cn:viewer"}, Verbs: []rsyncgrpc.Verb{rsyncgrpc.VerbRead, rsyncgrpc.VerbList}},
	}
	addr, _ := serve(t, s.engine, o)
	as := func(name string) *rsyncgrpc.Client {
		cert, key := files.ca.Issue(t, name).Write(t, files.folder, name)
		return dial(t, addr, rsyncgrpc.ClientOptions{CAFile: files.caFile, CertFile: cert, KeyFile: key})
	}
	owner, site, web, viewer := as("owner"), as("site"), as("web"), as("viewer")
	ctx := limited(t)
	for _, id := range []string{"shop-1", "other"} {
		check(t, s.engine.Create(ctx, shop(t, id, "1", "c1", "c2")))
	}
	diff := func(c *rsyncgrpc.Client, id, from string) error {
		_, err := c.Diff(ctx, rsync.Update, id, from)
		return err
	}
	for name, err := range map[string]error{
		"owner detaches":                 owner.Detach(ctx, "shop-1", onEdge("c2")),
		"owner attaches":                 owner.Attach(ctx, "shop-1", onEdge("c2")),
		"site detaches its cluster":      site.Detach(ctx, "other", onEdge("c1")),
		"site attaches its cluster":      site.Attach(ctx, "other", onEdge("c1")),
		"site forgets its cluster":       site.Forget(ctx, onEdge("c1")),
		"app detaches":                   web.Detach(ctx, "other", onEdge("c2")),
		"viewer lists":                   err2(viewer.Detached(ctx)),
		"viewer compares an Instantiate": err2(viewer.Diff(ctx, rsync.Instantiate, "other", "")),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, err := range map[string]error{
		"owner detaches another's":      owner.Detach(ctx, "other", onEdge("c1")),
		"owner forgets a whole cluster": owner.Forget(ctx, onEdge("c1")),
		"owner lists all":               err2(owner.Detached(ctx)),
		"owner compares with another's": diff(owner, "shop-1", "other"),
		"owner compares another's":      diff(owner, "other", "shop-1"),
		"site detaches another cluster": site.Detach(ctx, "other", onEdge("c2")),
		"site detaches an unknown one":  site.Detach(ctx, "other", onEdge("c3")),
		"site detaches from no context": site.Detach(ctx, "none", onEdge("c1")),
		"site forgets another cluster":  site.Forget(ctx, onEdge("c2")),
		"site compares":                 diff(site, "other", "shop-1"),
		"app forgets all apps' cluster": web.Forget(ctx, onEdge("c1")),
		"viewer detaches":               viewer.Detach(ctx, "other", onEdge("c1")),
		"viewer attaches":               viewer.Attach(ctx, "other", onEdge("c1")),
		"viewer forgets":                viewer.Forget(ctx, onEdge("c1")),
	} {
		if !errors.Is(err, rsyncgrpc.ErrDenied) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// newMethods are the methods that servers from before Detach and Diff do not have.
var newMethods = []string{"Detach", "Attach", "ListDetached", "Forget", "Diff"}

// TestOldServer: the error of an older server for a new call names the method, and old calls work.
func TestOldServer(t *testing.T) {
	s := newScene(t)
	services := registrar{}
	service := must[*rsyncgrpc.Service](t)(rsyncgrpc.Register(services, s.engine, rsyncgrpc.Options{WithoutEMCO: true}))
	defer service.Drain()
	server := grpc.NewServer()
	for d, implementation := range services {
		old := *d
		old.Methods = slices.DeleteFunc(slices.Clone(d.Methods),
			func(m grpc.MethodDesc) bool { return slices.Contains(newMethods, m.MethodName) })
		old.Streams = slices.DeleteFunc(slices.Clone(d.Streams),
			func(m grpc.StreamDesc) bool { return slices.Contains(newMethods, m.StreamName) })
		server.RegisterService(&old, implementation)
	}
	listener := listen(t)
	go func(l net.Listener) { _ = server.Serve(l) }(listener)
	defer server.Stop()
	client := dial(t, listener.Addr().String(), rsyncgrpc.ClientOptions{})
	ctx := limited(t)
	check(t, client.Create(ctx, shop(t, "a", "1", "c1")))
	if status := must[*rsync.Status](t)(client.Status(ctx, "a")); status.Detached != nil {
		t.Errorf("detached are %v", status.Detached)
	}
	for method, err := range map[string]error{
		"Detach": client.Detach(ctx, "a", onEdge("c1")), "Attach": client.Attach(ctx, "a", onEdge("c1")),
		"Forget":       client.Forget(ctx, onEdge("c1")),
		"ListDetached": err2(client.Detached(ctx)), "Diff": err2(client.Diff(ctx, rsync.Instantiate, "a", "")),
	} {
		if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "unknown method "+method) {
			t.Errorf("%s returned %v", method, err)
		}
	}
}

// TestOldClient: a client that does not know Status.Detached reads the rest of the status.
func TestOldClient(t *testing.T) {
	s, client := remote(t, rsyncgrpc.ServerOptions{})
	ctx := limited(t)
	check(t, client.Create(ctx, shop(t, "a", "1", "c1", "c2")))
	check(t, s.engine.Detach(ctx, "a", onEdge("c2")))
	file := protodesc.ToFileDescriptorProto(rsyncv1.File_rsync_v1_rsync_proto)
	for _, m := range file.MessageType {
		m.Field = slices.DeleteFunc(m.Field, func(f *descriptorpb.FieldDescriptorProto) bool {
			return m.GetName() == "Status" && f.GetName() == "detached"
		})
	}
	old := must[protoreflect.FileDescriptor](t)(protodesc.NewFile(file, protoregistry.GlobalFiles))
	answer := dynamicpb.NewMessage(old.Messages().ByName("GetStatusResponse"))
	check(t, client.Conn().Invoke(ctx, rsyncv1.Engine_GetStatus_FullMethodName, &rsyncv1.GetStatusRequest{Id: "a"},
		answer))
	status := answer.Get(answer.Descriptor().Fields().ByName("status")).Message()
	field := func(name protoreflect.Name) protoreflect.Value {
		return status.Get(status.Descriptor().Fields().ByName(name))
	}
	if field("id").String() != "a" || field("state").String() != "Created" || field("revision").Int() == 0 ||
		len(status.GetUnknown()) == 0 {
		t.Errorf("an old client reads %v", status)
	}
}
