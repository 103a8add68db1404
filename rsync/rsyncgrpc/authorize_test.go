// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc"
)

// registrar collects services.
type registrar map[*grpc.ServiceDesc]any

// RegisterService implements [grpc.ServiceRegistrar].
func (r registrar) RegisterService(d *grpc.ServiceDesc, service any) { r[d] = service }

// TestEveryCallIsAuthorized: every method of every service returns PermissionDenied to a client
// that the authorizer denies.
func TestEveryCallIsAuthorized(t *testing.T) {
	var mu sync.Mutex
	asked := map[rsyncgrpc.Verb]int{}
	deny := rsyncgrpc.AuthorizerFunc(func(_ context.Context, a *rsyncgrpc.Access) error {
		mu.Lock()
		defer mu.Unlock()
		asked[a.Verb]++
		return rsyncgrpc.ErrDenied
	})
	s := newScene(t)
	o := rsyncgrpc.Options{Authorizer: deny}
	addr, _ := serve(t, s.engine, rsyncgrpc.ServerOptions{Options: o})
	client := dial(t, addr, rsyncgrpc.ClientOptions{RetryTimeout: -1})
	services := registrar{}
	service := must[*rsyncgrpc.Service](t)(rsyncgrpc.Register(services, s.engine, o))
	defer service.Drain()
	for d := range services {
		for _, m := range d.Methods {
			if m.MethodName == "Enqueue" || m.MethodName == "Create" || m.MethodName == "Wait" {
				continue // tested below: these validate the request first
			}
			if err := client.Conn().Invoke(limited(t), "/"+d.ServiceName+"/"+m.MethodName, &emptypb.Empty{},
				&emptypb.Empty{}); status.Code(err) != codes.PermissionDenied {
				t.Errorf("%s/%s: %v", d.ServiceName, m.MethodName, err)
			}
		}
		for _, m := range d.Streams {
			stream, err := client.Conn().NewStream(limited(t), &grpc.StreamDesc{ServerStreams: true}, "/"+d.ServiceName+"/"+
				m.StreamName)
			check(t, err)
			check(t, stream.SendMsg(&emptypb.Empty{}))
			check(t, stream.CloseSend())
			if err := stream.RecvMsg(&emptypb.Empty{}); status.Code(err) != codes.PermissionDenied {
				t.Errorf("%s/%s: %v", d.ServiceName, m.StreamName, err)
			}
		}
	}
	ctx := limited(t)
	for name, err := range map[string]error{
		"Create":      client.Create(ctx, shop(t, "a", "1", "c1")),
		"Instantiate": err2(client.Instantiate(ctx, "a")),
		"Terminate":   err2(client.Terminate(ctx, "a")),
		"Update":      err2(client.Update(ctx, "a", "b")),
		"Rollback":    err2(client.Rollback(ctx, "a", "b")),
		"Read":        err2(client.Read(ctx, "a")),
		"Wait":        err2(client.Wait(ctx, rsync.EventRef{AppContextID: "a", Seq: 1})),
	} {
		if !errors.Is(err, rsyncgrpc.ErrDenied) || status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s: %v", name, err)
		}
	}
	if all, err := s.engine.List(ctx); len(all) > 0 || err != nil {
		t.Errorf("the engine has %v, %v", all, err)
	}
	for _, verb := range []rsyncgrpc.Verb{rsyncgrpc.VerbCreate, rsyncgrpc.VerbInstantiate, rsyncgrpc.VerbTerminate,
		rsyncgrpc.VerbUpdate,
		rsyncgrpc.VerbStop, rsyncgrpc.VerbDetach, rsyncgrpc.VerbDelete, rsyncgrpc.VerbRead, rsyncgrpc.VerbWatch,
		rsyncgrpc.VerbList} {
		if asked[verb] == 0 {
			t.Errorf("the authorizer was not asked about %s", verb)
		}
	}
}

// TestRules: a client may do what a rule for its certificate allows, on the apps and clusters of
// the rule.
func TestRules(t *testing.T) {
	s := newScene(t)
	files := newTLSFiles(t)
	o := files.serverOptions()
	o.Authorizer = rsyncgrpc.Rules{
		{Clients: []string{"cn:admin"}},
		{Clients: []string{"dns:shop.example.com"}, AppContexts: []string{"shop-*"}, Apps: []string{"web"},
			Clusters: []string{"edge+c1"}},
		{Clients: []string{"dns:shop.example.com"}, AppContexts: []string{"shop-*"}, Apps: []string{"web"},
			Clusters: []string{"edge+c2"}},
		{Clients: []string{"cn:client"}, Verbs: []rsyncgrpc.Verb{rsyncgrpc.VerbRead, rsyncgrpc.VerbList}},
		{Clients: []string{"cn:starter"}, Verbs: []rsyncgrpc.Verb{rsyncgrpc.VerbInstantiate}},
	}
	addr, _ := serve(t, s.engine, o)
	as := func(name string, hosts ...string) *rsyncgrpc.Client {
		cert, key := files.ca.Issue(t, name, hosts...).Write(t, files.folder, name)
		return dial(t, addr, rsyncgrpc.ClientOptions{CAFile: files.caFile, CertFile: cert, KeyFile: key})
	}
	admin, viewer, owner := as("admin"), as("client"), as("app", "shop.example.com")
	ctx := limited(t)
	check(t, admin.Create(ctx, shop(t, "shop-everywhere", "1", "c1", "c3")))
	check(t, admin.Create(ctx, shop(t, "other", "1", "c1")))
	check(t, admin.Create(ctx, shop(t, "started", "1", "c1")))
	check(t, owner.Create(ctx, shop(t, "shop-1", "1", "c1", "c2")))
	check(t, err2(owner.Instantiate(ctx, "shop-1")))
	check(t, err2(viewer.Status(ctx, "other")))
	check(t, err2(viewer.List(ctx)))
	starter, back := as("starter"), rsync.WithRollout(rsync.Rollout{RollbackOnFailure: true})
	check(t, err2(starter.Instantiate(ctx, "started")))
	for name, err := range map[string]error{
		"create on another cluster":           owner.Create(ctx, shop(t, "shop-2", "1", "c1", "c3")),
		"create under another ID":             owner.Create(ctx, shop(t, "mine", "1", "c1")),
		"instantiate with a way to terminate": err2(starter.Instantiate(ctx, "started", back)),
		"instantiate on another cluster":      err2(owner.Instantiate(ctx, "shop-everywhere")),
		"update from another's":               err2(owner.Update(ctx, "shop-everywhere", "shop-1")),
		"update to another's":                 err2(owner.Update(ctx, "shop-1", "shop-everywhere")),
		"read what does not exist":            err2(owner.Status(ctx, "shop-none")),
		"list with a limited rule":            err2(owner.List(ctx)),
		"delete another's":                    owner.Delete(ctx, "other"),
		"terminate with a rule to read":       err2(viewer.Terminate(ctx, "other")),
		"delete with a rule without clients":  viewer.Delete(ctx, "other"),
		"a name of another kind":              err2(as("shop.example.com").Status(ctx, "shop-1")),
	} {
		if !errors.Is(err, rsyncgrpc.ErrDenied) {
			t.Errorf("%s: %v", name, err)
		}
	}
	check(t, owner.Stop(ctx, "shop-1"))
	check(t, admin.Delete(ctx, "other"))
}

// TestRulesWithoutTargets: a rule with apps or clusters does not allow access to a context without
// apps. A rule with clusters allows access to an app without clusters only if it has the cluster
// "*".
func TestRulesWithoutTargets(t *testing.T) {
	empty := &appcontext.AppContext{ID: "empty"}
	web := &appcontext.AppContext{ID: "web", Apps: []appcontext.App{{Name: "web"}}}
	both := shop(t, "both", "1", "c1")
	both.Apps = append(both.Apps, appcontext.App{Name: "db"})
	for _, tt := range []struct {
		rule    rsyncgrpc.Rule
		context *appcontext.AppContext
		allowed bool
	}{
		{rsyncgrpc.Rule{}, empty, true},
		{rsyncgrpc.Rule{Apps: []string{"web"}}, empty, false},
		{rsyncgrpc.Rule{Clusters: []string{"*"}}, empty, false},
		{rsyncgrpc.Rule{Apps: []string{"web"}}, web, true},
		{rsyncgrpc.Rule{Apps: []string{"db"}}, web, false},
		{rsyncgrpc.Rule{Clusters: []string{"edge+*"}}, web, false},
		{rsyncgrpc.Rule{Clusters: []string{"+", "+*"}}, web, false},
		{rsyncgrpc.Rule{Clusters: []string{"*"}}, web, true},
		{rsyncgrpc.Rule{Apps: []string{"web"}}, both, false},
		{rsyncgrpc.Rule{Apps: []string{"web", "db"}}, both, true},
		{rsyncgrpc.Rule{Clusters: []string{"edge+c1"}}, both, false},
	} {
		s := newScene(t)
		tt.rule.Clients = []string{"*"}
		addr, stop := serve(t, s.engine,
			rsyncgrpc.ServerOptions{Options: rsyncgrpc.Options{Authorizer: rsyncgrpc.Rules{tt.rule}}})
		client := dial(t, addr, rsyncgrpc.ClientOptions{})
		created := client.Create(limited(t), tt.context)
		if created != nil {
			check(t, s.engine.Create(t.Context(), tt.context))
		}
		for verb, err := range map[string]error{"create": created, "read": err2(client.Status(limited(t), tt.context.ID)),
			"delete": client.Delete(limited(t), tt.context.ID)} {
			if errors.Is(err, rsyncgrpc.ErrDenied) == tt.allowed || tt.allowed && err != nil {
				t.Errorf("%s %s with %+v: %v", verb, tt.context.ID, tt.rule, err)
			}
		}
		stop()
	}
}

// TestRulesOfNames: a rule matches URIs, and "*" matches clients without a certificate.
func TestRulesOfNames(t *testing.T) {
	spiffe := rsyncgrpc.Identity{URIs: []string{"spiffe://example.com/a/b"}}
	for _, tt := range []struct {
		client  rsyncgrpc.Identity
		names   []string
		allowed bool
	}{
		{spiffe, []string{"uri:spiffe://example.com/a/b"}, true},
		{spiffe, []string{"uri:spiffe://example.com/a/*"}, true},
		{spiffe, []string{"uri:spiffe://example.com/a"}, false},
		{spiffe, []string{"cn:spiffe://example.com/a/b"}, false},
		{rsyncgrpc.Identity{}, []string{"*"}, true},
		{rsyncgrpc.Identity{}, []string{"cn:*"}, false},
		{rsyncgrpc.Identity{}, nil, false},
	} {
		access := &rsyncgrpc.Access{Client: tt.client, Verb: rsyncgrpc.VerbRead, AppContext: "a"}
		if err := (rsyncgrpc.Rules{{Clients: tt.names}}).Authorize(t.Context(), access); (err == nil) != tt.allowed {
			t.Errorf("%q for %q: %v", tt.names, tt.client.Names(), err)
		}
	}
}

// TestInvalidRules: a mistake in a rule is an error at the start.
func TestInvalidRules(t *testing.T) {
	engine := newScene(t).engine
	for want, rule := range map[string]rsyncgrpc.Rule{
		"Rules[1].Clients: must not be empty":   {Verbs: []rsyncgrpc.Verb{rsyncgrpc.VerbRead}},
		`Rules[1].Clients: "dashboard"`:         {Clients: []string{"cn:a", "dashboard"}},
		`Rules[1].Clients: "mail:a@b.c"`:        {Clients: []string{"mail:a@b.c"}},
		`Rules[1]: must not have empty entries`: {Clients: []string{"*"}, Clusters: []string{"edge+c1", ""}},
		`Rules[1].Clusters: "c1"`:               {Clients: []string{"*"}, Clusters: []string{"c1"}},
		`Rules[1].Verbs: "get"`:                 {Clients: []string{"*"}, Verbs: []rsyncgrpc.Verb{rsyncgrpc.VerbRead, "get"}},
	} {
		rules := rsyncgrpc.Rules{{Clients: []string{"*"}}, rule}
		_, err := rsyncgrpc.NewServer(engine,
			rsyncgrpc.ServerOptions{Insecure: true, Options: rsyncgrpc.Options{Authorizer: rules}})
		if !errors.Is(err, rsync.ErrInvalidInput) || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestTargets: an authorizer gets the apps and clusters of the request or of the stored app
// context.
func TestTargets(t *testing.T) {
	var got []rsyncgrpc.Target
	s := newScene(t)
	addr, _ := serve(t, s.engine, rsyncgrpc.ServerOptions{Options: rsyncgrpc.Options{Authorizer: rsyncgrpc.AuthorizerFunc(
		func(ctx context.Context, a *rsyncgrpc.Access) (err error) {
			got, err = a.Targets(ctx)
			return err
		})}})
	client := dial(t, addr, rsyncgrpc.ClientOptions{})
	want := []rsyncgrpc.Target{{App: "web", Cluster: appcontext.ClusterID{Provider: "edge", Name: "c1"}},
		{App: "web", Cluster: appcontext.ClusterID{Provider: "edge", Name: "c2"}}}
	check(t, client.Create(limited(t), shop(t, "a", "1", "c1", "c2")))
	if !slices.Equal(got, want) {
		t.Errorf("Create: %v", got)
	}
	got = nil
	check(t, err2(client.Status(limited(t), "a")))
	if !slices.Equal(got, want) {
		t.Errorf("Status: %v", got)
	}
	if _, err := client.Status(limited(t), "none"); !errors.Is(err, rsync.ErrNotFound) {
		t.Errorf("Status of none: %v", err)
	}
}

// TestDefaultsAreClosed: by default, a server listens only on the local host and has no reflection.
// It logs a warning if it accepts every client.
func TestDefaultsAreClosed(t *testing.T) {
	if rsyncgrpc.DefaultAddr != "127.0.0.1:9031" {
		t.Errorf("the default address is %s", rsyncgrpc.DefaultAddr)
	}
	s := newScene(t)
	addr, _ := serve(t, s.engine, rsyncgrpc.ServerOptions{})
	stream, err := reflectionv1.NewServerReflectionClient(
		dial(t, addr, rsyncgrpc.ClientOptions{}).Conn()).ServerReflectionInfo(limited(t))
	check(t, err)
	if _, err := stream.Recv(); status.Code(err) != codes.Unimplemented {
		t.Errorf("reflection: %v", err)
	}
	for addr, want := range map[string]int{"127.0.0.1:0": 0, "0.0.0.0:0": 1} {
		warnings := 0
		logger := funcr.New(func(_, args string) {
			if strings.Contains(args, "Started without client authentication") {
				warnings++
			}
		}, funcr.Options{})
		server := must[*rsyncgrpc.Server](t)(
			rsyncgrpc.NewServer(s.engine, rsyncgrpc.ServerOptions{Addr: addr, Insecure: true}))
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
		ended := make(chan error, 1)
		go func() { ended <- server.Start(ctx) }()
		<-server.Ready()
		cancel()
		check(t, <-ended)
		if warnings != want {
			t.Errorf("%s: %d warnings", addr, warnings)
		}
	}
}
