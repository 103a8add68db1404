// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc_test

import (
	"context"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/spokewire/sdk-go/internal/testing/background"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

// statusCounter counts the calls of Status, which reads the store.
type statusCounter struct {
	*rsync.Engine
	asked atomic.Int32
}

func (e *statusCounter) Status(ctx context.Context, id string) (*rsync.Status, error) {
	e.asked.Add(1)
	return e.Engine.Status(ctx, id)
}

// TestHealthOfEngine: a server is healthy while its engine has a lease. The check reads nothing
// from the store.
func TestHealthOfEngine(t *testing.T) {
	s := &scene{t: t, store: memstore.New(memstore.Options{}), clusters: fake.New()}
	var err error
	s.engine, err = rsync.New(s.store, s.clusters, rsync.Options{})
	check(t, err)
	engine := &statusCounter{Engine: s.engine}
	addr, _ := serve(t, engine, rsyncgrpc.ServerOptions{})
	health := healthv1.NewHealthClient(dial(t, addr, rsyncgrpc.ClientOptions{}).Conn())
	ctx := limited(t)
	is := func(want healthv1.HealthCheckResponse_ServingStatus) func() bool {
		return func() bool {
			r, err := health.Check(ctx, &healthv1.HealthCheckRequest{})
			check(t, err)
			return r.Status == want
		}
	}
	if !is(healthv1.HealthCheckResponse_NOT_SERVING)() {
		t.Error("an engine that is not started is healthy")
	}
	stop := background.Run(t, s.engine.Start)
	soon(t, "healthy", is(healthv1.HealthCheckResponse_SERVING))
	if n := engine.asked.Load(); n > 0 {
		t.Errorf("the engine read the status of a context %d times", n)
	}
	stop()
	soon(t, "not healthy", is(healthv1.HealthCheckResponse_NOT_SERVING))
}

// TestHealth: a server of a remote engine is healthy while its store answers. Concurrent checks
// share one request, and the end of the server ends watches of its health.
func TestHealth(t *testing.T) {
	s := newScene(t)
	engine := &troubled{Engine: s.engine} // it has no Healthy method, like a Client
	addr, stop := serve(t, engine, rsyncgrpc.ServerOptions{})
	client := dial(t, addr, rsyncgrpc.ClientOptions{})
	health := healthv1.NewHealthClient(client.Conn())
	ctx := limited(t)
	is := func(service string) healthv1.HealthCheckResponse_ServingStatus {
		t.Helper()
		r, err := health.Check(ctx, &healthv1.HealthCheckRequest{Service: service})
		check(t, err)
		return r.Status
	}
	for _, service := range []string{"", "rsync.v1.Engine", "installapp", "updateapp", "readyNotify"} {
		if got := is(service); got != healthv1.HealthCheckResponse_SERVING {
			t.Errorf("%q is %v", service, got)
		}
	}
	if _, err := health.Check(ctx, &healthv1.HealthCheckRequest{Service: "none"}); status.Code(err) != codes.NotFound {
		t.Errorf("an unknown service: %v", err)
	}
	if all, err := health.List(ctx, &healthv1.HealthListRequest{}); err != nil || len(all.Statuses) != 5 {
		t.Errorf("%v, %v", all, err)
	}
	stream, err := health.Watch(ctx, &healthv1.HealthCheckRequest{})
	check(t, err)
	if r, err := stream.Recv(); err != nil || r.Status != healthv1.HealthCheckResponse_SERVING {
		t.Errorf("%v, %v", r, err)
	}
	before := s.store.Counts().Ranges
	for range 100 {
		is("")
	}
	if n := s.store.Counts().Ranges - before; n > 3 {
		t.Errorf("the store was asked %d times for 100 questions within a moment", n)
	}
	engine.away.Store(true)
	soon(t, "not healthy", func() bool { return is("") == healthv1.HealthCheckResponse_NOT_SERVING })
	if r, err := stream.Recv(); err != nil || r.Status != healthv1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("%v, %v", r, err)
	}
	engine.away.Store(false)
	soon(t, "healthy", func() bool { return is("") == healthv1.HealthCheckResponse_SERVING })
	go stop()
	for err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.Unavailable {
		t.Errorf("the watch ended with %v", err)
	}
	stop()
}
