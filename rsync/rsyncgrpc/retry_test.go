// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spokewire/sdk-go/internal/testing/tcpproxy"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc"
)

// lossy returns options of a server that handles all unary calls, but loses its first answers.
func lossy(lost int64) (o rsyncgrpc.ServerOptions, calls *atomic.Int64) {
	calls = &atomic.Int64{}
	o.ServerOptions = []grpc.ServerOption{grpc.ChainUnaryInterceptor(
		func(ctx context.Context, r any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			response, err := handle(ctx, r)
			if calls.Add(1) <= lost {
				return nil, status.Error(codes.Unavailable, "the answer is lost")
			}
			return response, err
		})}
	return o, calls
}

// TestContextEndsDuringRetry: if the context of a call ends during a later attempt, the error has the
// reason of the earlier one.
func TestContextEndsDuringRetry(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var calls atomic.Int64
	_, client := remote(t, rsyncgrpc.ServerOptions{ServerOptions: []grpc.ServerOption{grpc.ChainUnaryInterceptor(
		func(ctx context.Context, _ any, _ *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
			if calls.Add(1) == 1 {
				return nil, status.Error(codes.Unavailable, "the server restarts")
			}
			cancel()
			<-ctx.Done()
			return nil, ctx.Err()
		})}})
	if _, err := client.Status(ctx, "a"); !errors.Is(err, context.Canceled) ||
		!errors.Is(err, rsyncgrpc.ErrUnavailable) || !strings.Contains(err.Error(), "the server restarts") {
		t.Errorf("%v, want Canceled and ErrUnavailable with its reason", err)
	}
}

// TestLostAnswers: a client repeats calls with lost answers, and no call takes effect twice.
func TestLostAnswers(t *testing.T) {
	o, calls := lossy(3)
	s, client := remote(t, o)
	ctx := limited(t)
	check(t, client.Create(ctx, shop(t, "a", "1")))
	if n := calls.Load(); n != 5 { // four times Create, and one read of the context
		t.Errorf("%d calls", n)
	}
	calls.Store(0)
	ref := must[rsync.EventRef](t)(client.Instantiate(ctx, "a"))
	if ref.Seq != 1 {
		t.Errorf("the event is %+v", ref)
	}
	calls.Store(0)
	again := must[rsync.EventRef](t)(client.Read(ctx, "a", rsync.IdempotencyKey("mine")))
	if same := must[rsync.EventRef](t)(client.Read(ctx, "a", rsync.IdempotencyKey("mine"))); again.Seq != 2 ||
		same != again {
		t.Errorf("the event is %+v, and then %+v", again, same)
	}
	if status := must[*rsync.Status](t)(client.Status(ctx, "a")); len(status.Queue) != 2 {
		t.Errorf("%d events in the queue, want 2", len(status.Queue))
	}
	must[*rsync.Status](t)(client.Wait(ctx, again))
	must[*rsync.Status](t)(client.Wait(ctx, must[rsync.EventRef](t)(client.Terminate(ctx, "a"))))
	calls.Store(0)
	check(t, client.Delete(ctx, "a"))
	if err := client.Delete(ctx, "a"); !errors.Is(err, rsync.ErrNotFound) {
		t.Errorf("deleted by somebody else: %v", err)
	}

	// A different context with the same ID is a conflict, even if answers are lost.
	check(t, s.engine.Create(ctx, shop(t, "b", "theirs", "c1")))
	calls.Store(0)
	if err := client.Create(ctx, shop(t, "b", "ours", "c1")); !errors.Is(err, rsync.ErrConflict) ||
		!strings.Contains(err.Error(), "exists") {
		t.Errorf("%v, want ErrConflict", err)
	}
	calls.Store(-1 << 40) // all answers are lost
	impatient := dial(t, targetOf(client), rsyncgrpc.ClientOptions{RetryTimeout: 50 * time.Millisecond})
	if err := err2(impatient.Instantiate(ctx, "b")); !errors.Is(err, rsyncgrpc.ErrUnavailable) ||
		!strings.Contains(err.Error(), "lost") {
		t.Errorf("%v, want ErrUnavailable", err)
	}
}

func targetOf(c *rsyncgrpc.Client) string { return c.Conn().(*grpc.ClientConn).Target() }

// TestCutConnections: each call queues one event, although the network breaks all the time.
func TestCutConnections(t *testing.T) {
	s := newScene(t)
	addr, _ := serve(t, s.engine, rsyncgrpc.ServerOptions{})
	proxy := tcpproxy.Start(t, addr)
	client := dial(t, proxy.Addr(), rsyncgrpc.ClientOptions{})
	ctx := limited(t)
	check(t, client.Create(ctx, shop(t, "a", "1", "c1")))
	stop := make(chan struct{})
	cutting := make(chan struct{})
	go func() {
		defer close(cutting)
		for i := 0; ; i++ { // some connections last long enough for a call on a busy machine
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond << (i % 6)):
				proxy.Cut()
			}
		}
	}()
	for i := range 50 {
		ref := must[rsync.EventRef](t)(client.Instantiate(ctx, "a"))
		if ref.Seq != uint64(i+1) {
			t.Fatalf("call %d queued event %d", i+1, ref.Seq)
		}
		must[*rsync.Status](t)(client.Wait(ctx, ref))
	}
	close(stop)
	<-cutting
	if n := len(s.clusters.Cluster("edge", "c1").Calls()); n == 0 {
		t.Error("nothing was done")
	}
}
