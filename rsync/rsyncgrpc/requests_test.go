// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc_test

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc/rsyncv1"
)

// TestRequestsOfManyParts: a request with many small parts uses no more memory than a large
// manifest.
func TestRequestsOfManyParts(t *testing.T) {
	s := newScene(t)
	addr, _ := serve(t, s.engine, rsyncgrpc.ServerOptions{})
	engine := rsyncv1.NewEngineClient(dial(t, addr, rsyncgrpc.ClientOptions{}).Conn())
	const many = 1 << 20
	cluster := &rsyncv1.Cluster{Resources: slices.Repeat([]*rsyncv1.Resource{{}}, many)}
	for name, c := range map[string]*rsyncv1.AppContext{
		"resources":    {Apps: []*rsyncv1.App{{Clusters: []*rsyncv1.Cluster{cluster}}}},
		"apps":         {Apps: slices.Repeat([]*rsyncv1.App{{}}, many)},
		"clusters":     {Apps: []*rsyncv1.App{{Clusters: slices.Repeat([]*rsyncv1.Cluster{{}}, many)}}},
		"dependencies": {Apps: []*rsyncv1.App{{DependsOn: slices.Repeat([]*rsyncv1.Dependency{{}}, many)}}},
		"child IDs":    {Meta: &rsyncv1.Meta{ChildContextIds: make([]string, many)}},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := engine.Create(limited(t), &rsyncv1.CreateRequest{AppContext: c})
			runtime.ReadMemStats(&after)
			if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "more than 262144 parts") {
				t.Error(err)
			}
			if n := (after.TotalAlloc - before.TotalAlloc) >> 20; n > 48 { // decoded, it would take 112
				t.Errorf("%d MiB allocated", n)
			}
		})
	}
	t.Run("another method", func(t *testing.T) {
		_, err := engine.GetStatus(limited(t), &rsyncv1.GetStatusRequest{Id: strings.Repeat("x", 1<<20)})
		if status.Code(err) != codes.ResourceExhausted {
			t.Error(err)
		}
	})
}

// slowReads is an engine that reads app contexts slowly.
type slowReads struct{ rsyncgrpc.Engine }

func (e slowReads) AppContext(ctx context.Context, id string) (*appcontext.AppContext, error) {
	time.Sleep(50 * time.Millisecond)
	return e.Engine.AppContext(ctx, id)
}

// TestClientsTakeTurns: a call waits for at most the calls of other clients that run when it
// starts.
func TestClientsTakeTurns(t *testing.T) {
	s := newScene(t)
	check(t, s.engine.Create(t.Context(), shop(t, "a", "1")))
	addr, _ := serve(t, slowReads{s.engine}, rsyncgrpc.ServerOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	hostile := dial(t, addr, rsyncgrpc.ClientOptions{})
	for range 90 {
		go func() {
			for ctx.Err() == nil {
				_, _ = hostile.AppContext(ctx, "a")
			}
		}()
	}
	time.Sleep(500 * time.Millisecond)
	honest := dial(t, addr, rsyncgrpc.ClientOptions{DialOptions: []grpc.DialOption{from("127.0.0.2")}})
	check(t, err2(honest.Status(limited(t), "a"))) // connects
	for range 5 {
		began := time.Now()
		check(t, err2(honest.AppContext(limited(t), "a")))
		if took := time.Since(began); took > 600*time.Millisecond { // 90 calls of another client take 1.1 s
			t.Errorf("a call waited for %v", took)
		}
	}
}
