// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc/rsyncv1"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

// unfinished is the body of a call that lacks its last byte.
type unfinished struct {
	ctx  context.Context
	left int64
	head io.Reader
}

func newUnfinished(ctx context.Context, size int) *unfinished {
	head := binary.BigEndian.AppendUint32([]byte{0}, uint32(size))
	return &unfinished{ctx: ctx, left: int64(size) - 1, head: bytes.NewReader(head)}
}

// Read implements [io.Reader].
func (u *unfinished) Read(p []byte) (int, error) {
	if n, err := u.head.Read(p); err == nil {
		return n, nil
	}
	if u.left == 0 {
		<-u.ctx.Done()
		return 0, u.ctx.Err()
	}
	n := min(int64(len(p)), u.left)
	u.left -= n
	return int(n), nil
}

// plainHTTP2 returns a transport without TLS.
func plainHTTP2() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Transport{Protocols: protocols}
}

// hold makes a call that sends size-1 of size bytes, and stays open until the call or ctx ends.
func hold(ctx context.Context, transport *http.Transport, url string, size int) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/rsync.v1.Engine/Create", newUnfinished(ctx, size))
	if err != nil {
		return
	}
	r.Header.Set("Content-Type", "application/grpc")
	r.Header.Set("TE", "trailers")
	if response, err := transport.RoundTrip(r); err == nil {
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}
}

// attack repeats unfinished calls on several connections until ctx ends.
func attack(ctx context.Context, t *testing.T, addr string, connections, calls, size int) {
	t.Helper()
	for range connections {
		transport := plainHTTP2()
		t.Cleanup(transport.CloseIdleConnections)
		for range calls {
			go func() {
				for ctx.Err() == nil {
					hold(ctx, transport, "http://"+addr, size)
					time.Sleep(50 * time.Millisecond)
				}
			}()
		}
	}
}

// TestUnfinishedCallsAreBounded: calls that never end use little memory, and block no other client.
func TestUnfinishedCallsAreBounded(t *testing.T) {
	const size, budget = 32 << 20, 128 << 20
	s := newScene(t)
	check(t, s.engine.Create(t.Context(), shop(t, "a", "1")))
	addr, _ := serve(t, s.engine, rsyncgrpc.ServerOptions{})
	client := dial(t, addr, rsyncgrpc.ClientOptions{})
	check(t, err2(client.Status(limited(t), "a")))
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	before, most := m.HeapAlloc, uint64(0)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	attack(ctx, t, addr, 4, 10, size)
	var slowest time.Duration
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		began := time.Now()
		check(t, err2(client.Status(limited(t), "a")))
		slowest = max(slowest, time.Since(began))
		runtime.GC()
		runtime.ReadMemStats(&m)
		most = max(most, m.HeapAlloc)
	}
	t.Logf("40 unfinished calls hold %d MiB, an honest call took at most %v", (most-before)>>20, slowest)
	if most-before > 2*budget {
		t.Errorf("unfinished calls hold %d MiB", (most-before)>>20)
	}
}

// TestUnfinishedCallEndsByDeadline: a request that does not arrive within RequestTimeout ends its
// own call, and no other call.
func TestUnfinishedCallEndsByDeadline(t *testing.T) {
	const timeout = 500 * time.Millisecond
	s := newScene(t)
	check(t, s.engine.Create(t.Context(), shop(t, "a", "1")))
	addr, _ := serve(t, s.engine, rsyncgrpc.ServerOptions{RequestTimeout: timeout})
	client := dial(t, addr, rsyncgrpc.ClientOptions{})
	ctx, cancel := context.WithCancel(limited(t))
	defer cancel()
	watched := make(chan error, 1)
	go func() {
		for _, err := range client.Watch(ctx, "a", 0) {
			if err != nil {
				watched <- err
				return
			}
		}
		watched <- nil
	}()
	transport := plainHTTP2()
	defer transport.CloseIdleConnections()
	r := must[*http.Request](t)(http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/rsync.v1.Engine/Create",
		newUnfinished(ctx, 1000)))
	r.Header.Set("Content-Type", "application/grpc")
	r.Header.Set("TE", "trailers")
	began := time.Now()
	response, err := transport.RoundTrip(r)
	check(t, err)
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	if took := time.Since(began); took < timeout {
		t.Errorf("the call ended after %v", took)
	}
	time.Sleep(timeout)
	select {
	case err := <-watched:
		t.Errorf("the watch ended: %v", err)
	default:
	}
	check(t, err2(client.Status(ctx, "a")))
	cancel()
	if err := <-watched; err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("the watch ended: %v", err)
	}
}

// TestConnectionsAreBounded: connections that exceed the limit are closed. The end of a connection
// makes room for another.
func TestConnectionsAreBounded(t *testing.T) {
	s := newScene(t)
	check(t, s.engine.Create(t.Context(), shop(t, "a", "1")))
	addr, _ := serve(t, s.engine, rsyncgrpc.ServerOptions{MaxConnections: 2})
	first, second := dial(t, addr, rsyncgrpc.ClientOptions{}), dial(t, addr, rsyncgrpc.ClientOptions{})
	check(t, err2(first.Status(limited(t), "a")))
	check(t, err2(second.Status(limited(t), "a")))
	third := dial(t, addr, rsyncgrpc.ClientOptions{RetryTimeout: -1})
	if err := err2(third.Status(limited(t), "a")); !errors.Is(err, rsyncgrpc.ErrUnavailable) {
		t.Errorf("a third connection: %v", err)
	}
	check(t, second.Close())
	soon(t, "there is room", func() bool { return err2(third.Status(limited(t), "a")) == nil })
	check(t, err2(first.Status(limited(t), "a")))
}

// oneContext is an engine that returns one large context without a read.
type oneContext struct {
	rsyncgrpc.Engine
	c *appcontext.AppContext
}

func (e oneContext) AppContext(context.Context, string) (*appcontext.AppContext, error) {
	return e.c, nil
}

// TestUnreadAnswersAreBounded: clients that request large answers and do not read them use little
// memory.
func TestUnreadAnswersAreBounded(t *testing.T) {
	const budget = 64 << 20
	s := newScene(t)
	large := shop(t, "large", strings.Repeat("x", 700<<10), "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8")
	addr, _ := serve(t, oneContext{s.engine, large}, rsyncgrpc.ServerOptions{MaxCallBytes: budget})
	client := dial(t, addr, rsyncgrpc.ClientOptions{})
	for range 20 { // answers that are read do not count
		check(t, err2(client.AppContext(limited(t), "large")))
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	before := m.HeapAlloc
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 4 {
		hostile := dial(t, addr,
			rsyncgrpc.ClientOptions{DialOptions: []grpc.DialOption{grpc.WithStaticStreamWindowSize(64 << 10)}})
		for range 20 {
			stream, err := hostile.Conn().NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/rsync.v1.Engine/GetAppContext")
			if err == nil && stream.SendMsg(&rsyncv1.GetAppContextRequest{Id: "large"}) == nil {
				_ = stream.CloseSend()
			}
		}
	}
	var most uint64
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		runtime.GC()
		runtime.ReadMemStats(&m)
		most = max(most, m.HeapAlloc)
	}
	held := (int64(most) - int64(before)) >> 20
	t.Logf("80 unread answers of 5.5 MiB hold %d MiB", held)
	if held > 6*budget>>20 { // 432 MiB without the limit; up to 280 with it, on a busy machine
		t.Errorf("unread answers hold %d MiB", held)
	}
	check(t, err2(client.AppContext(limited(t), "large")))
}

// handler is a method of a service.
type handler struct {
	name   string
	unary  func(ctx context.Context, decode func(any) error) (any, error)
	stream func(grpc.ServerStream) error
}

// handlers returns all methods, in order.
func handlers(services registrar) []handler {
	var out []handler
	for d, service := range services {
		for _, m := range d.Methods {
			out = append(out, handler{name: d.ServiceName + "/" + m.MethodName,
				unary: func(ctx context.Context, decode func(any) error) (any, error) {
					return m.Handler(service, ctx, decode, nil)
				}})
		}
		for _, m := range d.Streams {
			out = append(out, handler{name: d.ServiceName + "/" + m.StreamName,
				stream: func(s grpc.ServerStream) error { return m.Handler(service, s) }})
		}
	}
	slices.SortFunc(out, func(a, b handler) int { return strings.Compare(a.name, b.name) })
	return out
}

// oneMessage is a stream with one request.
type oneMessage struct {
	grpc.ServerStream
	ctx  context.Context
	data []byte
}

// Context implements [grpc.ServerStream].
func (s *oneMessage) Context() context.Context { return s.ctx }

// RecvMsg implements [grpc.ServerStream].
func (s *oneMessage) RecvMsg(m any) error { return proto.Unmarshal(s.data, m.(proto.Message)) }

// SendMsg implements [grpc.ServerStream].
func (s *oneMessage) SendMsg(m any) error {
	_, err := proto.Marshal(m.(proto.Message))
	return err
}

// FuzzServer: every method answers every message within a second, without a panic, and with memory
// in proportion to its size. The answer can be encoded.
func FuzzServer(f *testing.F) {
	create, err := proto.Marshal(&rsyncv1.CreateRequest{AppContext: &rsyncv1.AppContext{Id: "b",
		Apps: []*rsyncv1.App{{Name: "web", Clusters: []*rsyncv1.Cluster{{
			Id:        &rsyncv1.ClusterID{Provider: "edge", Name: "c1"},
			Resources: []*rsyncv1.Resource{{Manifest: configMap("a", "1")}}}}}}}})
	if err != nil {
		f.Fatal(err)
	}
	enqueue, err := proto.Marshal(&rsyncv1.EnqueueRequest{Id: "a", Event: "Instantiate", IdempotencyKey: "k"})
	if err != nil {
		f.Fatal(err)
	}
	for method := range byte(20) {
		for _, data := range [][]byte{create, enqueue, append([]byte{0x0a, 1}, 'a'), {}} {
			f.Add(method, data)
		}
	}
	stored := shop(f, "a", "1", "c1")
	f.Fuzz(func(t *testing.T, method byte, data []byte) {
		engine := must[*rsync.Engine](t)(rsync.New(memstore.New(memstore.Options{}), fake.New(), rsync.Options{}))
		check(t, engine.Create(t.Context(), stored))
		services := registrar{}
		service := must[*rsyncgrpc.Service](t)(rsyncgrpc.Register(services, engine,
			rsyncgrpc.Options{Authorizer: rsyncgrpc.Rules{
				{Clients: []string{"*"}, Clusters: []string{"edge+*"}},
				{Clients: []string{"*"}, Verbs: []rsyncgrpc.Verb{rsyncgrpc.VerbList}},
			}}))
		defer service.Drain()
		all := handlers(services)
		h := all[int(method)%len(all)]
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now()
		if h.unary != nil {
			var answer any
			answer, err = h.unary(ctx, func(m any) error { return proto.Unmarshal(data, m.(proto.Message)) })
			if err == nil {
				_, err = proto.Marshal(answer.(proto.Message))
				check(t, err)
			}
		} else {
			err = h.stream(&oneMessage{ctx: ctx, data: data})
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s took %v", h.name, took)
		}
		runtime.ReadMemStats(&after)
		// The constant allows for other goroutines of the fuzzer.
		if n := after.TotalAlloc - before.TotalAlloc; n > uint64(1000*len(data))+64<<20 {
			t.Errorf("%s allocated %d bytes for %d", h.name, n, len(data))
		}
		if status.Code(err) == codes.Internal || err != nil && strings.Contains(err.Error(), "not foreseen") {
			t.Errorf("%s: %v", h.name, err)
		}
	})
}
