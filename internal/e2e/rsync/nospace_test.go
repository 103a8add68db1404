// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc"
)

// TestHealthyFailsWhileEtcdHasNoSpace: an etcd over its quota accepts reads and lease renewals, and
// refuses writes. After the operator has compacted, defragmented and disarmed the alarm, the engine
// recovers by itself, and the event in progress succeeds.
func TestHealthyFailsWhileEtcdHasNoSpace(t *testing.T) {
	t.Parallel()
	etcd := startEtcd(t, 1, func(c *embed.Config) { c.QuotaBackendBytes = 8 << 20 })
	client, err := clientv3.New(clientv3.Config{Endpoints: etcd.urls, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	clusters := fake.New()
	engine, err := rsync.New(etcd.store(t, "/nospace"), clusters, rsync.Options{LeaseTTL: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	server, err := rsyncgrpc.NewServer(engine, rsyncgrpc.ServerOptions{
		Addr: "127.0.0.1:0", Insecure: true, ShutdownTimeout: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	ended := make(chan error, 2)
	go func() { ended <- engine.Start(ctx) }()
	go func() { ended <- server.Start(ctx) }()
	defer func() {
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}()
	<-engine.Ready()
	<-server.Ready()
	conn, err := grpc.NewClient(server.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	served := healthv1.NewHealthClient(conn)
	becomes := func(want healthv1.HealthCheckResponse_ServingStatus, limit time.Duration, ok func(error) bool) {
		t.Helper()
		began := time.Now()
		for {
			failure := engine.Healthy()
			answer, err := served.Check(ctx, &healthv1.HealthCheckRequest{})
			if err == nil && answer.GetStatus() == want && ok(failure) {
				t.Logf("%s after %s: %v", want, time.Since(began).Round(time.Millisecond), failure)
				return
			}
			if time.Since(began) > limit {
				t.Fatalf("after %s Healthy returns %v, and gRPC health %v, %v; want %s",
					limit, failure, answer.GetStatus(), err, want)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	healthy := func(err error) bool { return err == nil }
	becomes(healthv1.HealthCheckResponse_SERVING, 5*time.Second, healthy)

	b := appcontext.NewBuilder("shop")
	manifest := []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}")
	for i := range 3 {
		b.App("web").Resource("edge", fmt.Sprint("c", i), manifest)
	}
	shop, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if err := engine.Create(ctx, shop); err != nil {
		t.Fatal(err)
	}
	for i := range 3 { // the quota is exceeded in the middle of the event
		clusters.Cluster("edge", fmt.Sprint("c", i)).SetDelay(3 * time.Second)
	}
	ref, err := engine.Instantiate(ctx, "shop")
	if err != nil {
		t.Fatal(err)
	}
	for value := strings.Repeat("x", 256<<10); err == nil; {
		_, err = client.Put(ctx, "/filler", value)
	}
	if !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Fatal(err)
	}
	if _, err := engine.Read(ctx, "shop"); !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Errorf("a write on an etcd without space: %v", err)
	}
	noSpace := func(err error) bool { return errors.Is(err, rpctypes.ErrNoSpace) }
	becomes(healthv1.HealthCheckResponse_NOT_SERVING, 5*time.Second, noSpace)
	for range 60 { // longer than a lease
		if err := engine.Healthy(); !noSpace(err) {
			t.Fatalf("Healthy returns %v while etcd has no space", err)
		}
		time.Sleep(100 * time.Millisecond)
	}

	now, err := client.Get(ctx, "/filler", clientv3.WithCountOnly())
	if err == nil {
		_, err = client.Compact(ctx, now.Header.Revision, clientv3.WithCompactPhysical())
	}
	if err == nil {
		_, err = client.Defragment(ctx, etcd.urls[0])
	}
	if err == nil {
		_, err = client.AlarmDisarm(ctx, &clientv3.AlarmMember{})
	}
	if err != nil {
		t.Fatal(err)
	}
	becomes(healthv1.HealthCheckResponse_SERVING, 15*time.Second, healthy)
	status, err := engine.Wait(ctx, ref)
	if err != nil || status.State != rsync.Instantiated {
		t.Errorf("the event that was under way: %+v, %v", status, err)
	}
	for i := range 3 {
		if n := len(clusters.Cluster("edge", fmt.Sprint("c", i)).Objects()); n != 1 {
			t.Errorf("cluster c%d has %d objects, want 1", i, n)
		}
	}
}
