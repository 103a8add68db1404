// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package etcdstore_test

import (
	"context"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/spokewire/sdk-go/cloudevents/work/etcdstore"
	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
)

// openWith opens a store that makes transactions with around.
func openWith(
	t *testing.T, etcd *server, cleanup time.Duration, around func(txn *pb.TxnRequest, commit func() error) error,
) *etcdstore.Store {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{etcd.url}, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(func(
			ctx context.Context, method string, in, out any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker,
			o ...grpc.CallOption,
		) error {
			call := func() error { return invoke(ctx, method, in, out, conn, o...) }
			if txn, ok := in.(*pb.TxnRequest); ok {
				return around(txn, call)
			}
			return call()
		})},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return openStore(t, etcd.url, etcdstore.Options{Client: client, Timeout: cleanup, CleanupInterval: cleanup})
}

// TestCleanupSparesCommittedParts: a slow writer commits its batch just before its parts are removed.
// They are not removed, because readers need them.
func TestCleanupSparesCommittedParts(t *testing.T) {
	t.Parallel()
	etcd := startServer(t)
	mayCommit, committed, mayCopy := make(chan struct{}), make(chan struct{}), make(chan struct{})
	next := false // after the commit
	writer := openWith(t, etcd, 10*limit, func(txn *pb.TxnRequest, commit func() error) error {
		if next {
			next = false
			close(committed)
			<-mayCopy
		}
		if len(txn.Success) == 1 && strings.HasSuffix(string(txn.Success[0].GetRequestPut().GetKey()), "/pending") {
			<-mayCommit
			next = true
		}
		return commit()
	})
	var once sync.Once
	staged := regexp.MustCompile(`/stage/\w+$`) // not the range that Open checks the access with
	cleaned := make(chan struct{})
	clean := sync.OnceFunc(func() { close(cleaned) })
	reader := openWith(t, etcd, 5*time.Second, func(txn *pb.TxnRequest, commit func() error) error {
		if len(txn.Success) == 1 && staged.MatchString(string(txn.Success[0].GetRequestDeleteRange().GetKey())) {
			once.Do(func() {
				close(mayCommit)
				<-committed
			})
			defer clean()
		}
		return commit()
	})
	release := sync.OnceFunc(func() { close(mayCopy) })
	t.Cleanup(release)
	before, _, with := scene()
	write(t, reader, before...)
	f := follow(t, reader, nil)
	written := make(chan error, 1)
	go func() { written <- writer.ApplyIf(t.Context(), leaderOne, hugeBatch()) }()
	select {
	case <-cleaned:
	case <-time.After(limit):
		t.Fatal("the parts of the suspended writer were not removed")
	}
	e2etest.Eventually(t, "the follower", func() error { return differ("it", with, f.copy()) })
	if diff := cmp.Diff(with, load(t, reader)); diff != "" {
		t.Fatalf("content while the batch is pending (-want +got):\n%s", diff)
	}
	release()
	if err := <-written; err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(with, load(t, reader)); diff != "" {
		t.Fatalf("content (-want +got):\n%s", diff)
	}
	if keys := left(t, etcd.admin(), etcdstore.DefaultPrefix); len(keys) > 0 {
		t.Errorf("etcd has %q", keys)
	}
}
