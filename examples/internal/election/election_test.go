// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spokewire/sdk-go/examples/internal/election"
	"github.com/spokewire/sdk-go/examples/internal/logging"
	"github.com/spokewire/sdk-go/internal/testing/postgres"
	"github.com/spokewire/sdk-go/internal/testing/tcpproxy"
	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
	"github.com/spokewire/sdk-go/rsync/store/pgstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	patience = 30 * time.Second
	ttl      = 2 * time.Second
)

// replica is a process with an HTTP server that takes part in an election. While it leads, it answers
// requests with its name.
type replica struct {
	*election.Election
	t      *testing.T
	name   string
	server *httptest.Server
	leads  chan struct{} // closed when it leads
	ended  chan struct{} // closed when it does not lead any more
	result chan error    // of Start
	stop   func()
}

// start starts a replica with the address of its server, or another one.
func start(t *testing.T, name string, s store.Store, address string) *replica {
	t.Helper()
	r := &replica{t: t, name: name, leads: make(chan struct{}), ended: make(chan struct{}), result: make(chan error, 1)}
	mux := http.NewServeMux()
	r.server = httptest.NewServer(mux)
	if address == "" {
		address = r.server.URL
	}
	r.Election = election.New(election.Options{Store: s, Key: "/leader/", Address: address, TTL: ttl, Secret: "secret",
		Log: logging.New(t.Output(), logging.Options{}).WithValues("replica", name)})
	mux.Handle(election.Path, r)
	forward := r.Forward(func(*httputil.ProxyRequest) {}, func(w http.ResponseWriter, _ *http.Request, reason string) {
		http.Error(w, reason, http.StatusServiceUnavailable)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, request *http.Request) {
		select {
		case <-r.leads:
			_, _ = io.WriteString(w, name+" at "+request.Host)
		default:
			forward.ServeHTTP(w, request)
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		r.result <- r.Start(ctx, func(ctx context.Context) error {
			close(r.leads)
			<-ctx.Done()
			close(r.ended)
			return nil
		})
	})
	r.stop = sync.OnceFunc(func() {
		cancel()
		group.Wait()
		r.server.CloseClientConnections()
		r.server.Close()
	})
	t.Cleanup(r.stop)
	return r
}

// die ends the server of a replica as the end of its process does. Its goroutines go on.
func (r *replica) die() {
	_ = r.server.Listener.Close()
	r.server.CloseClientConnections()
}

func (r *replica) mustLead() {
	r.t.Helper()
	select {
	case <-r.leads:
	case <-time.After(patience):
		r.t.Fatalf("%s does not lead", r.name)
	}
}

// get returns the status and the body of a request.
func (r *replica) get(change ...func(*http.Request)) (int, string) {
	r.t.Helper()
	request, err := http.NewRequest(http.MethodGet, r.server.URL+"/page", http.NoBody)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range change {
		f(request)
	}
	answer, err := r.server.Client().Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return answer.StatusCode, strings.TrimSpace(string(body))
}

// await waits until a request to a replica has an answer with a text.
func (r *replica) await(text string) {
	r.t.Helper()
	got := ""
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if _, got = r.get(); strings.Contains(got, text) && (closed(r.leads) || r.Follows() == nil) {
			return
		}
	}
	r.t.Fatalf("%s answers %q, want %q; %v", r.name, got, text, r.Follows())
}

// attached waits until the replica has a connection of a follower.
func attached(t *testing.T, proxy *tcpproxy.Proxy, n int) {
	t.Helper()
	for end := time.Now().Add(patience); proxy.Links() < n; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d connections, want %d", proxy.Links(), n)
		}
	}
}

// TestStores runs the tests with each store.
func TestStores(t *testing.T) {
	tests := map[string]func(*testing.T, func() store.Store){
		"follower takes over at once": followerTakesOverAtOnce, "leader ends gracefully": leaderEndsGracefully,
		"only one leads": onlyOneLeads,
	}
	for name, test := range tests {
		t.Run("memory: "+name, func(t *testing.T) {
			s := memstore.New(memstore.Options{})
			test(t, func() store.Store { return s })
		})
	}
	server := postgres.Start(t, postgres.Options{})
	for name, test := range tests {
		t.Run("postgres: "+name, func(t *testing.T) {
			conn := server.Database(t)
			test(t, func() store.Store { return open(t, conn) })
		})
	}
	t.Run("postgres: frozen database", func(t *testing.T) { frozenDatabase(t, server) })
}

func open(t *testing.T, conn string) store.Store {
	t.Helper()
	s, err := pgstore.Open(t.Context(), pgstore.Options{ConnString: conn})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// followerTakesOverAtOnce checks that a follower takes over from a process that has ended, long
// before the lease expires, and that the deposed leader can write nothing.
func followerTakesOverAtOnce(t *testing.T, open func() store.Store) {
	one := start(t, "one", open(), "")
	one.mustLead()
	if _, err := one.Store().Txn(t.Context(), nil, []store.Op{store.Put("/a/", []byte("1"))}); err != nil {
		t.Fatal(err)
	}
	two := start(t, "two", open(), "")
	two.await("one at 127.0.0.1")
	if _, err := two.Store().Txn(t.Context(), nil, []store.Op{store.Put("/a/", nil)}); !errors.Is(err,
		election.ErrDeposed) {
		t.Errorf("a follower writes: %v", err)
	}
	began := time.Now()
	one.die()
	two.mustLead()
	if took := time.Since(began); took > ttl/2 {
		t.Errorf("took over in %v", took)
	}
	if _, err := one.Store().Txn(t.Context(), nil, []store.Op{store.Put("/a/", []byte("stale"))}); !errors.Is(err,
		election.ErrDeposed) {
		t.Errorf("a deposed leader writes: %v", err)
	}
	select {
	case err := <-one.result:
		if !errors.Is(err, election.ErrDeposed) {
			t.Errorf("Start returns %v", err)
		}
	case <-time.After(patience):
		t.Error("the deposed leader does not notice it")
	}
	kv, err := two.Store().Get(t.Context(), "/a/")
	if err != nil || string(kv.Value) != "1" {
		t.Errorf("%+v, %v", kv, err)
	}
}

// leaderEndsGracefully checks that a follower takes over at once from a leader that ends.
func leaderEndsGracefully(t *testing.T, open func() store.Store) {
	one := start(t, "one", open(), "")
	one.mustLead()
	two := start(t, "two", open(), "")
	two.await("one at 127.0.0.1")
	began := time.Now()
	one.stop()
	two.mustLead()
	if took := time.Since(began); took > ttl/2 {
		t.Errorf("took over in %v", took)
	}
	if err := <-one.result; err != nil {
		t.Error(err)
	}
}

// TestBrokenConnectionIsNoReason checks that followers do not take over while the leader accepts
// connections, or when they have never reached its address.
func TestBrokenConnectionIsNoReason(t *testing.T) {
	s := memstore.New(memstore.Options{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refusing := "http://" + listener.Addr().String()
	_ = listener.Close()
	proxy := tcpproxy.Start(t)
	one := start(t, "one", s, "http://"+proxy.Addr())
	proxy.Forward(one.server.Listener.Addr().String())
	one.mustLead()
	two := start(t, "two", s, "")
	attached(t, proxy, 1)
	for range 5 {
		proxy.Cut()
		attached(t, proxy, 1)
	}
	select {
	case <-two.leads:
		t.Error("the follower takes over although the leader answers")
	case <-time.After(ttl + time.Second):
	}
	one.stop()
	two.mustLead()
	two.stop()

	one = start(t, "one", s, refusing)
	one.mustLead()
	two = start(t, "two", s, "")
	select {
	case <-two.leads:
		t.Error("the follower takes over although it has never reached the leader")
	case <-time.After(ttl + time.Second):
	}
	if code, text := two.get(); code != http.StatusServiceUnavailable || !strings.Contains(text, refusing+" leads") {
		t.Errorf("%d %s", code, text)
	}
}

// frozenDatabase checks that a leader without its database is replaced within the TTL, ends
// before that by its own clock, and can write nothing when the database answers again.
func frozenDatabase(t *testing.T, server *postgres.Server) {
	conn := server.Database(t)
	proxy := tcpproxy.Start(t, server.Addr())
	one := start(t, "one", open(t, strings.Replace(conn, server.Addr(), proxy.Addr(), 1)), "")
	one.mustLead()
	two := start(t, "two", open(t, conn), "")
	two.await("one at 127.0.0.1")
	began := time.Now()
	proxy.Stall()
	written := make(chan error, 1)
	go func() {
		_, err := one.Store().Txn(context.Background(), nil, []store.Op{store.Put("/a/", nil)})
		written <- err
	}()
	<-one.ended
	ended := time.Since(began)
	two.mustLead()
	t.Logf("the leader ended after %v, and was replaced after %v", ended, time.Since(began))
	if took := time.Since(began); ended > ttl+time.Second/2 || took > 3*ttl {
		t.Errorf("the leader ended after %v, and was replaced after %v", ended, took)
	}
	if err := <-one.result; !errors.Is(err, election.ErrDeposed) {
		t.Errorf("Start returns %v", err)
	}
	proxy.Resume()
	if err := <-written; err == nil {
		t.Error("the deposed leader writes")
	}
	kv, err := two.Store().Get(t.Context(), "/a/")
	if err != nil || kv.Exists() {
		t.Errorf("%+v, %v", kv, err)
	}
}

// TestForwardedOnce checks that a request is forwarded once, also if replicas disagree about the
// leader.
func TestForwardedOnce(t *testing.T) {
	s := memstore.New(memstore.Options{})
	one := start(t, "one", s, "")
	one.mustLead()
	two := start(t, "two", s, "")
	two.await("one at " + two.server.Listener.Addr().String()) // with the Host of the request
	code, text := two.get(func(r *http.Request) { r.Header.Set("Spokewire-Forwarded", "1") })
	if code != http.StatusServiceUnavailable || !strings.Contains(text, one.server.URL) {
		t.Errorf("%d %s", code, text)
	}
}

// onlyOneLeads runs many replicas, and ends the leader again and again.
func onlyOneLeads(t *testing.T, open func() store.Store) {
	s := open()
	replicas := map[*replica]bool{}
	for i := range 5 {
		replicas[start(t, fmt.Sprint("replica ", i), s, "")] = true
	}
	for len(replicas) > 1 {
		var first *replica
		for end := time.Now().Add(patience); first == nil && time.Now().Before(end); time.Sleep(time.Millisecond) {
			for r := range replicas {
				if closed(r.leads) {
					first = r
				}
			}
		}
		if first == nil {
			t.Fatal("no replica leads")
		}
		delete(replicas, first)
		for r := range replicas {
			r.await(first.name)
			if closed(r.leads) {
				t.Errorf("%s and %s lead", first.name, r.name)
			}
		}
		first.die()
	}
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
