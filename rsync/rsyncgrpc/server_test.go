// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/spokewire/sdk-go/internal/testing/certtest"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc/rsyncv1"
	"github.com/spokewire/sdk-go/rsync/store"
)

// TestTLS: a server refuses clients without a certificate of its CA, and a client refuses a server
// of another CA.
func TestTLS(t *testing.T) {
	s := newScene(t)
	check(t, s.engine.Create(t.Context(), shop(t, "a", "1")))
	files := newTLSFiles(t)
	addr, _ := serve(t, s.engine, files.serverOptions())
	stranger := certtest.New(t)
	strangerCA := stranger.Write(t, files.folder, "stranger-ca")
	strangerCert, strangerKey := stranger.Issue(t, "stranger").Write(t, files.folder, "stranger")
	oldCert, oldKey := files.ca.IssueUntil(t, "old", time.Now().Add(-time.Minute)).Write(t, files.folder, "old")
	for _, tt := range []struct {
		reason string
		o      rsyncgrpc.ClientOptions
		want   string // "" is success
	}{
		{"a certificate of the CA", files.clientOptions(), ""},
		{"none", rsyncgrpc.ClientOptions{CAFile: files.caFile}, "certificate required"},
		{"one of another CA", rsyncgrpc.ClientOptions{CAFile: files.caFile, CertFile: strangerCert, KeyFile: strangerKey},
			"unknown certificate authority"},
		{"one that has expired", rsyncgrpc.ClientOptions{CAFile: files.caFile, CertFile: oldCert, KeyFile: oldKey},
			"expired certificate"},
		{"another CA for the server", rsyncgrpc.ClientOptions{CAFile: strangerCA, CertFile: files.client,
			KeyFile: files.clientKeyPEM}, "unknown authority"},
		{"another name for the server", rsyncgrpc.ClientOptions{CAFile: files.caFile, CertFile: files.client,
			KeyFile: files.clientKeyPEM, ServerName: "other"}, "other"},
		{"no TLS", rsyncgrpc.ClientOptions{}, "server preface"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			tt.o.RetryTimeout = -1
			if tt.want == "" {
				check(t, err2(dial(t, addr, tt.o).Status(limited(t), "a")))
				return
			}
			refused(t, tt.want, func() error { return err2(dial(t, addr, tt.o).Status(limited(t), "a")) })
		})
	}
}

// refused expects every call to fail with ErrUnavailable, and a call to fail with the text want.
// With TLS 1.3, the server's reason arrives after the client's handshake. It may be lost if the
// client writes before it reads.
func refused(t *testing.T, want string, call func() error) {
	t.Helper()
	soon(t, want, func() bool {
		err := call()
		if !errors.Is(err, rsyncgrpc.ErrUnavailable) {
			t.Fatalf("%v, want ErrUnavailable", err)
		}
		return strings.Contains(err.Error(), want)
	})
}

// TestCertificatesAreReplaced: all certificates and CAs are replaced while a server runs.
// Incomplete files do not replace the previous files.
func TestCertificatesAreReplaced(t *testing.T) {
	s := newScene(t)
	check(t, s.engine.Create(t.Context(), shop(t, "a", "1")))
	files := newTLSFiles(t)
	addr, _ := serve(t, s.engine, files.serverOptions())
	ctx := limited(t)
	once := func(o rsyncgrpc.ClientOptions) error {
		o.RetryTimeout = -1
		_, err := dial(t, addr, o).Status(ctx, "a")
		return err
	}
	lasting := dial(t, addr, files.clientOptions())
	check(t, err2(lasting.Status(ctx, "a")))

	check(t, os.WriteFile(files.server, []byte("-----BEGIN CERT"), 0o600))
	check(t, os.WriteFile(files.caFile+".half", []byte("-----BEGIN CERTIFICATE-----\nMII"), 0o600))
	check(t, once(files.clientOptions())) // the previous pair stays in use

	next := certtest.New(t)
	nextCA := next.Write(t, files.folder, "next-ca")
	next.Issue(t, "server").Write(t, files.folder, "server")
	next.Issue(t, "client").Write(t, files.folder, "client")
	if err := once(files.clientOptions()); err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("the client trusts the old CA alone: %v", err)
	}
	next.Write(t, files.folder, "ca")
	check(t, once(files.clientOptions()))
	check(t, once(rsyncgrpc.ClientOptions{CAFile: nextCA, CertFile: files.client, KeyFile: files.clientKeyPEM}))
	check(t, err2(lasting.Status(ctx, "a"))) // its connection stays open

	old := t.TempDir()
	oldCert, oldKey := files.ca.Issue(t, "client").Write(t, old, "old")
	refused(t, "unknown certificate authority", func() error {
		return once(rsyncgrpc.ClientOptions{CAFile: nextCA, CertFile: oldCert, KeyFile: oldKey})
	})
}

// TestClientReplacesCertificates: a client that was created before its files were replaced connects
// with the new files.
func TestClientReplacesCertificates(t *testing.T) {
	s := newScene(t)
	check(t, s.engine.Create(t.Context(), shop(t, "a", "1")))
	files := newTLSFiles(t)
	o := files.serverOptions()
	addr, stop := serve(t, s.engine, o)
	client := dial(t, addr, files.clientOptions())
	ctx := limited(t)
	check(t, err2(client.Status(ctx, "a")))
	stop()
	next := certtest.New(t)
	next.Write(t, files.folder, "ca")
	next.Issue(t, "server").Write(t, files.folder, "server")
	next.Issue(t, "client").Write(t, files.folder, "client")
	o.Addr = addr
	serve(t, s.engine, o)
	check(t, err2(client.Status(ctx, "a")))
}

func err2[T any](_ T, err error) error { return err }

// TestInvalidOptions: invalid options are an error before anything starts, and the error describes
// what to do.
func TestInvalidOptions(t *testing.T) {
	s := newScene(t)
	files := newTLSFiles(t)
	broken := filepath.Join(files.folder, "broken")
	check(t, os.WriteFile(broken, []byte("nothing"), 0o600))
	for want, o := range map[string]rsyncgrpc.ServerOptions{
		"set Insecure to serve without TLS":        {},
		"must be host:port":                        {Addr: "9031", Insecure: true},
		"ServerOptions.Insecure: excludes":         {Insecure: true, CertFile: files.server},
		"ClientCAFile: must be set: set AnyClient": {CertFile: files.server, KeyFile: files.serverKey},
		"excludes AnyClient": {CertFile: files.server, KeyFile: files.serverKey,
			ClientCAFile: files.caFile, AnyClient: true},
		"less than MaxMessageBytes": {Insecure: true, MaxCallBytes: 1 << 20},
		"must not be negative":      {Insecure: true, MaxMessageBytes: -1},
		"WatchBuffer and WatchLag":  {Insecure: true, Options: rsyncgrpc.Options{WatchLag: -1}},
	} {
		if _, err := rsyncgrpc.NewServer(s.engine, o); !errors.Is(err, rsync.ErrInvalidInput) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := rsyncgrpc.NewServer(nil, rsyncgrpc.ServerOptions{Insecure: true}); !errors.Is(err,
		rsync.ErrInvalidInput) {
		t.Errorf("no engine: %v", err)
	}
	if _, err := rsyncgrpc.Register(nil, s.engine, rsyncgrpc.Options{}); !errors.Is(err, rsync.ErrInvalidInput) {
		t.Errorf("no server: %v", err)
	}
	taken, _ := serve(t, s.engine, rsyncgrpc.ServerOptions{})
	for want, o := range map[string]rsyncgrpc.ServerOptions{
		"no such file":           {CertFile: "none", KeyFile: files.serverKey, AnyClient: true},
		"failed to find any PEM": {CertFile: broken, KeyFile: files.serverKey, AnyClient: true},
		"no certificate in PEM":  {CertFile: files.server, KeyFile: files.serverKey, ClientCAFile: broken},
		"only certificates":      {CertFile: files.server, KeyFile: files.serverKey, ClientCAFile: files.serverKey},
		"listen at " + taken:     {Addr: taken, Insecure: true},
	} {
		server, err := rsyncgrpc.NewServer(s.engine, o)
		check(t, err)
		if err := server.Start(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for want, o := range map[string]rsyncgrpc.ClientOptions{
		"must be set together":             {CertFile: files.client},
		"ClientOptions.Insecure: excludes": {Insecure: true, CAFile: files.caFile},
		"at least 10 s":                    {KeepAlive: time.Second},
		"must not be negative":             {MaxMessageBytes: -1},
	} {
		if _, err := rsyncgrpc.NewClient("127.0.0.1:1", o); !errors.Is(err, rsync.ErrInvalidInput) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := rsyncgrpc.NewClient("", rsyncgrpc.ClientOptions{}); !errors.Is(err, rsync.ErrInvalidInput) {
		t.Errorf("no target: %v", err)
	}
	if _, err := rsyncgrpc.NewClient("127.0.0.1:1", rsyncgrpc.ClientOptions{CAFile: "none"}); err == nil ||
		!strings.Contains(err.Error(), "no such file") {
		t.Errorf("no CA: %v", err)
	}
}

// troubled is an engine with a store that can be unavailable, or panic.
type troubled struct {
	rsyncgrpc.Engine
	away, panics, late atomic.Bool
}

func (e *troubled) Status(ctx context.Context, id string) (*rsync.Status, error) {
	switch {
	case e.panics.Load():
		panic("at the disco")
	case e.away.Load():
		return nil, errors.New("etcdserver: no leader")
	case e.late.Load():
		return nil, fmt.Errorf("a limit of the store's own: %w", context.DeadlineExceeded)
	}
	return e.Engine.Status(ctx, id)
}

// TestUnavailableStore: a call is retried while the store is unavailable. A panic becomes an error
// without internal details.
func TestUnavailableStore(t *testing.T) {
	s := newScene(t)
	check(t, s.engine.Create(t.Context(), shop(t, "a", "1")))
	engine := &troubled{Engine: s.engine}
	addr, _ := serve(t, engine, rsyncgrpc.ServerOptions{})
	ctx := limited(t)
	engine.away.Store(true)
	if _, err := dial(t, addr, rsyncgrpc.ClientOptions{RetryTimeout: -1}).Status(ctx, "a"); !errors.Is(err,
		rsyncgrpc.ErrUnavailable) || !strings.Contains(err.Error(), "no leader") {
		t.Errorf("%v, want ErrUnavailable and why", err)
	}
	client := dial(t, addr, rsyncgrpc.ClientOptions{})
	time.AfterFunc(50*time.Millisecond, func() { engine.away.Store(false) })
	check(t, err2(client.Status(ctx, "a")))
	engine.late.Store(true)
	if _, err := dial(t, addr, rsyncgrpc.ClientOptions{RetryTimeout: -1}).Status(ctx, "a"); !errors.Is(err,
		rsyncgrpc.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want ErrUnavailable: it is not the caller's time that is over", err)
	}
	engine.panics.Store(true)
	if _, err := client.Status(ctx, "a"); status.Code(err) != codes.Internal || strings.Contains(err.Error(), "disco") {
		t.Errorf("%v, want Internal without the panic's words", err)
	}
}

// TestReflection: a generic tool can discover the services and the content of their files.
func TestReflection(t *testing.T) {
	_, client := remote(t, rsyncgrpc.ServerOptions{Reflection: true})
	stream, err := reflectionv1.NewServerReflectionClient(client.Conn()).ServerReflectionInfo(limited(t))
	check(t, err)
	ask := func(r *reflectionv1.ServerReflectionRequest) *reflectionv1.ServerReflectionResponse {
		t.Helper()
		check(t, stream.Send(r))
		return must[*reflectionv1.ServerReflectionResponse](t)(stream.Recv())
	}
	var names []string
	for _, service := range ask(
		&reflectionv1.ServerReflectionRequest{
			MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{},
		}).GetListServicesResponse().GetService() {
		names = append(names, service.Name)
	}
	want := []string{"grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
		"grpc.reflection.v1alpha.ServerReflection", "installapp", "readyNotify", "rsync.v1.Engine", "updateapp"}
	if !slices.Equal(names, want) {
		t.Errorf("the services are %q", names)
	}
	for _, symbol := range append(names, "InstallAppRequest", "rsync.v1.AppContext") {
		r := ask(&reflectionv1.ServerReflectionRequest{
			MessageRequest: &reflectionv1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: symbol},
		})
		if len(r.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
			t.Errorf("%s: %v", symbol, r)
		}
	}
}

// TestInvalidRequests: requests that our client never sends also get the exact answer.
func TestInvalidRequests(t *testing.T) {
	s, client := remote(t, rsyncgrpc.ServerOptions{MaxMessageBytes: 1 << 20})
	check(t, s.engine.Create(t.Context(), shop(t, "a", "1")))
	raw := rsyncv1.NewEngineClient(client.Conn())
	ctx := limited(t)
	big := &rsyncv1.AppContext{Id: "big",
		Apps: []*rsyncv1.App{
			{Name: "x", Clusters: []*rsyncv1.Cluster{{Id: &rsyncv1.ClusterID{Provider: "p", Name: "c"},
				Resources: []*rsyncv1.Resource{{Manifest: make([]byte, 2<<20)}}}}},
		}}
	unnamed := &rsyncv1.AppContext{Id: "unnamed",
		Apps: []*rsyncv1.App{
			{Name: "x", Clusters: []*rsyncv1.Cluster{{Id: &rsyncv1.ClusterID{Provider: "p", Name: "c"},
				Resources: []*rsyncv1.Resource{{Manifest: []byte("kind: X")}}}}},
		}}
	for _, tt := range []struct {
		reason string
		call   func() error
		code   codes.Code
		want   string
	}{
		{"no context", func() error { return err2(raw.Create(ctx, &rsyncv1.CreateRequest{})) }, codes.InvalidArgument,
			"app_context: must be set"},
		{"a context that is too large",
			func() error { return err2(raw.Create(ctx, &rsyncv1.CreateRequest{AppContext: big})) }, codes.ResourceExhausted,
			"larger than max"},
		{"a manifest without a name",
			func() error { return err2(raw.Create(ctx, &rsyncv1.CreateRequest{AppContext: unnamed})) }, codes.InvalidArgument,
			"the manifest has no apiVersion"},
		{"there is one", func() error {
			return err2(raw.Create(ctx, &rsyncv1.CreateRequest{AppContext: &rsyncv1.AppContext{Id: "a"}}))
		}, codes.AlreadyExists, `app context "a" exists`},
		{"no event", func() error { return err2(raw.Enqueue(ctx, &rsyncv1.EnqueueRequest{Id: "a"})) }, codes.InvalidArgument,
			`event "": must be`},
		{"an engine's own event",
			func() error { return err2(raw.Enqueue(ctx, &rsyncv1.EnqueueRequest{Id: "a", Event: "UpdateDelete"})) },
			codes.InvalidArgument, `event "UpdateDelete": must be`},
		{"from where", func() error {
			return err2(raw.Enqueue(ctx, &rsyncv1.EnqueueRequest{Id: "a", Event: "Read", FromId: "b"}))
		}, codes.InvalidArgument, "from_id: only Update and Rollback have one"},
		{"no from", func() error { return err2(raw.Enqueue(ctx, &rsyncv1.EnqueueRequest{Id: "a", Event: "Update"})) },
			codes.InvalidArgument, `ID "": must be`},
		{"no ref", func() error { return err2(raw.Wait(ctx, &rsyncv1.WaitRequest{})) }, codes.InvalidArgument,
			"ref: must be set"},
		{"no ID: delete", func() error { return err2(raw.Delete(ctx, &rsyncv1.DeleteRequest{})) }, codes.InvalidArgument,
			`ID "": must be`},
		{"no ID: stop", func() error { return err2(raw.Stop(ctx, &rsyncv1.StopRequest{})) }, codes.InvalidArgument,
			`ID "": must be`},
		{"no ID: clear stop", func() error { return err2(raw.ClearStop(ctx, &rsyncv1.ClearStopRequest{})) },
			codes.InvalidArgument, `ID "": must be`},
		{"no ID: status", func() error { return err2(raw.GetStatus(ctx, &rsyncv1.GetStatusRequest{})) },
			codes.InvalidArgument, `ID "": must be`},
		{"no ID: watch", func() error {
			stream, err := raw.Watch(ctx, &rsyncv1.WatchRequest{})
			check(t, err)
			return err2(stream.Recv())
		}, codes.InvalidArgument, `ID "": must be`},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			if err := tt.call(); status.Code(err) != tt.code || !strings.Contains(status.Convert(err).Message(), tt.want) {
				t.Errorf("%v, want %v and %q", err, tt.code, tt.want)
			}
		})
	}
	response, err := raw.Create(ctx,
		&rsyncv1.CreateRequest{AppContext: &rsyncv1.AppContext{Id: "named",
			Apps: []*rsyncv1.App{{Name: "x", Clusters: []*rsyncv1.Cluster{{
				Id: &rsyncv1.ClusterID{Provider: "p", Name: "c"}, Resources: []*rsyncv1.Resource{{Manifest: configMap("m", "1")}},
			}}}}}})
	if err != nil || response == nil {
		t.Errorf("objects that are in manifests alone: %v", err)
	}
}

// TestInvalidContext: a remote validation error has the first 100 problems, and the number of
// others.
func TestInvalidContext(t *testing.T) {
	addr, _ := serve(t, &refusing{Engine: newScene(t).engine}, rsyncgrpc.ServerOptions{})
	client := dial(t, addr, rsyncgrpc.ClientOptions{})
	err := client.Create(limited(t), shop(t, "many", "1"))
	var invalid *appcontext.Error
	if !errors.As(err, &invalid) || len(invalid.Problems) != 100 || invalid.More != 23 || invalid.ID != "many" ||
		!appcontext.Has(err, appcontext.FaultDuplicate) ||
		invalid.Problems[7].Where != `app "x"` || !strings.HasSuffix(invalid.Error(), "and 23 more problems") {
		t.Errorf("%v", err)
	}
	err = client.Create(limited(t), shop(t, "large", "1"))
	var size *store.SizeError
	if !errors.As(err, &size) || size.Have != 7 || size.Limit != 5 || size.Key != "/k/" {
		t.Errorf("%v", err)
	}
	if err := client.Create(limited(t), shop(t, "broken", "1")); !errors.Is(err, rsync.ErrBroken) ||
		status.Code(err) != codes.DataLoss {
		t.Errorf("%v", err)
	}
}

// refusing is an engine with stricter rules than the client.
type refusing struct{ *rsync.Engine }

func (e *refusing) Create(_ context.Context, c *appcontext.AppContext) error {
	switch c.ID {
	case "large":
		return &store.SizeError{What: "bytes", Key: "/k/", Have: 7, Limit: 5}
	case "broken":
		return rsync.ErrBroken
	}
	out := &appcontext.Error{ID: c.ID}
	for range 123 {
		out.Problems = append(out.Problems, &appcontext.Problem{Fault: appcontext.FaultDuplicate, Where: `app "x"`,
			What: "it is there " + strings.Repeat("again ", 100)})
	}
	return out
}

// TestHugeErrors: an error that would quote very long text is shortened, and the connection serves
// other calls.
func TestHugeErrors(t *testing.T) {
	addr, _ := serve(t, newScene(t).engine, rsyncgrpc.ServerOptions{})
	conn := dial(t, addr, rsyncgrpc.ClientOptions{}).Conn()
	engine := rsyncv1.NewEngineClient(conn)
	names := &rsyncv1.AppContext{Id: "x"}
	for i := range 200 {
		names.Apps = append(names.Apps, &rsyncv1.App{Name: fmt.Sprint(i, "/", strings.Repeat("é", 50_000))})
	}
	for reason, c := range map[string]*rsyncv1.AppContext{"its ID": {Id: strings.Repeat("x", 20<<20)},
		"many names": names} {
		_, err := engine.Create(limitedTo(t, 4*patience), &rsyncv1.CreateRequest{AppContext: c})
		if status.Code(err) != codes.InvalidArgument || len(err.Error()) > 10<<10 || len(status.Convert(err).Details()) != 2 {
			t.Errorf("%s: %.200v", reason, err)
		}
	}
	if _, err := engine.GetStatus(limited(t), &rsyncv1.GetStatusRequest{Id: "x"}); status.Code(err) != codes.NotFound {
		t.Errorf("another call: %v", err)
	}
}

// TestRegister: on a user's own server, Drain ends watches and waits, so GracefulStop can end.
func TestRegister(t *testing.T) {
	s := newScene(t)
	check(t, s.engine.Create(t.Context(), shop(t, "a", "1")))
	server := grpc.NewServer()
	service, err := rsyncgrpc.Register(server, s.engine, rsyncgrpc.Options{WithoutEMCO: true})
	check(t, err)
	if n := len(server.GetServiceInfo()); n != 1 {
		t.Errorf("%d services, want ours alone", n)
	}
	listener := listen(t)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	client := dial(t, listener.Addr().String(), rsyncgrpc.ClientOptions{})
	ctx, cancel := context.WithCancel(limited(t))
	watching := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for _, err := range client.Watch(ctx, "a", 0) {
			if err != nil {
				t.Error(err)
				return
			}
			close(watching)
		}
	}()
	<-watching
	service.Drain()
	service.Drain()
	server.GracefulStop()
	check(t, <-served)
	cancel()
	<-ended
}

// TestReadsOutsideOfGRPC: a direct call of the service also ends its turn.
func TestReadsOutsideOfGRPC(t *testing.T) {
	s := newScene(t)
	check(t, s.engine.Create(t.Context(), shop(t, "a", "1")))
	services := registrar{}
	must[*rsyncgrpc.Service](t)(rsyncgrpc.Register(services, s.engine, rsyncgrpc.Options{WithoutEMCO: true}))
	for _, service := range services {
		for range 3 {
			check(t, err2(service.(rsyncv1.EngineServer).GetAppContext(limited(t), &rsyncv1.GetAppContextRequest{Id: "a"})))
		}
	}
}
