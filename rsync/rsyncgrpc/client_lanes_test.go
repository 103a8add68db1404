// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc"
)

// counted is a connection that reports its end, to count open connections.
type counted struct {
	net.Conn
	close func()
}

func (c *counted) Close() error {
	c.close()
	return c.Conn.Close()
}

// TestWaitsDelayNoOtherCall: more waits and watches than one connection supports delay no other
// call. Their extra connections are closed when the waits and watches end.
func TestWaitsDelayNoOtherCall(t *testing.T) {
	const watches, limit = 250, 120
	s := newScene(t)
	addr, _ := serve(t, s.engine, rsyncgrpc.ServerOptions{MaxConcurrentStreams: limit})
	var open atomic.Int32
	client := dial(t, addr,
		rsyncgrpc.ClientOptions{DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
			if err != nil {
				return nil, err
			}
			open.Add(1)
			return &counted{conn, sync.OnceFunc(func() { open.Add(-1) })}, nil
		})}})
	s.clusters.Cluster("edge", "c1").SetMode(fake.ModeBlackHole)
	check(t, client.Create(limited(t), shop(t, "a", "1", "c1")))
	ref := must[rsync.EventRef](t)(client.Instantiate(limited(t), "a"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var waits sync.WaitGroup
	var began atomic.Int32
	for range watches {
		waits.Go(func() {
			first := sync.OnceFunc(func() { began.Add(1) })
			for _, err := range client.Watch(ctx, "a", 0) {
				if err != nil {
					t.Errorf("Watch: %v", err)
				}
				first()
			}
		})
		waits.Go(func() { _, _ = client.Wait(ctx, ref) })
	}
	soon(t, "all watches have begun", func() bool { return began.Load() == watches })
	check(t, err2(client.Status(limited(t), "a")))
	check(t, client.Stop(limited(t), "a"))
	cancel()
	waits.Wait()
	soon(t, "their connections are closed", func() bool { return open.Load() <= 2 })
	check(t, client.Close())
	if _, err := client.Wait(limited(t), ref); status.Code(err) != codes.Canceled {
		t.Errorf("after Close: %v", err)
	}
}
