// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/boltstore"
	"github.com/spokewire/sdk-go/examples/internal/filestore"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/connector/git"
	"github.com/spokewire/sdk-go/rsync/connector/kube"
	"github.com/spokewire/sdk-go/rsync/connector/manifestwork"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc"
	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/etcdstore"
	"github.com/spokewire/sdk-go/rsync/store/pgstore"
)

// serve runs the engine and its service until ctx ends.
func serve(ctx context.Context, o *options) error {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(192 << 20) // otherwise calls with large app contexts double the heap
	}
	s, closer, err := openStore(ctx, o)
	if err != nil {
		return err
	}
	defer func() { _ = closer.Close() }()
	// The engine stops after the service, since calls in progress use it.
	group, ctx := errgroup.WithContext(ctx)
	engineCtx, stopEngine := context.WithCancel(context.WithoutCancel(ctx))
	defer stopEngine()
	start := func(run func(context.Context) error) { group.Go(func() error { return run(engineCtx) }) }
	clusters, err := openClusters(o, start)
	if err != nil {
		return err
	}
	engine, err := rsync.New(s, clusters, rsync.Options{})
	if err != nil {
		return err
	}
	server, err := rsyncgrpc.NewServer(engine, rsyncgrpc.ServerOptions{
		Addr: o.addr, CertFile: o.cert, KeyFile: o.key, ClientCAFile: o.ca, Insecure: o.insecure,
	})
	if err != nil {
		return err
	}
	start(engine.Start)
	group.Go(func() error {
		defer stopEngine()
		return server.Start(ctx)
	})
	return group.Wait()
}

// openStore returns a store, and its connection or file to close.
func openStore(ctx context.Context, o *options) (store.Store, io.Closer, error) {
	if strings.HasPrefix(o.store, "postgres://") || strings.HasPrefix(o.store, "postgresql://") {
		s, err := pgstore.Open(ctx, pgstore.Options{ConnString: o.store})
		if err != nil {
			err = fmt.Errorf("--store: %w", err) // names the server; the URL may have a password
		}
		return s, s, err
	}
	s, closer, err := openFileOrEtcd(ctx, o.store)
	if err != nil {
		err = fmt.Errorf("--store %s: %w", o.store, err)
	}
	return s, closer, err
}

func openFileOrEtcd(ctx context.Context, name string) (store.Store, io.Closer, error) {
	endpoints, isEtcd := strings.CutPrefix(name, "etcd://")
	if !isEtcd {
		s, err := filestore.Open(ctx, name)
		return s, s, err
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: strings.Split(endpoints, ","), DialTimeout: 5 * time.Second, Logger: zap.NewNop(),
	})
	if err != nil {
		return nil, nil, err
	}
	s, err := etcdstore.New(client, etcdstore.Options{})
	if err == nil {
		_, err = s.Get(ctx, "/rsync-example-reachable/")
	}
	if err != nil {
		return nil, nil, errors.Join(err, client.Close())
	}
	return s, client, nil
}

// openClusters returns the connectors of all clusters, by their providers.
func openClusters(o *options, start func(run func(context.Context) error)) (connector.Connectors, error) {
	all := connector.ByProvider{"fake": fakes(o.fake)}
	var err error
	if o.kubeconfigDir != "" {
		clusters := map[string]kube.Cluster{"kube+*": {Load: kube.Directory(o.kubeconfigDir)}}
		if all["kube"], err = kube.New(clusters, kube.Options{}); err != nil {
			return nil, fmt.Errorf("--kubeconfig-dir: %w", err)
		}
	}
	if o.git != "" {
		if all["git"], err = openGit(o.git); err != nil {
			return nil, err
		}
	}
	if o.broker.BrokerURL != "" {
		if all["work"], err = openBroker(o.broker, start); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// openGit returns the connectors of the clusters in a repository.
func openGit(url string) (connector.Connectors, error) {
	if _, err := os.Stat(url); err == nil { // a folder
		url, _ = filepath.Abs(url)
	}
	clusters, err := git.New(map[string]git.Repository{"git+*": {URL: url, CreateBranch: true}}, git.Options{})
	if err != nil {
		return nil, fmt.Errorf("--git: %w", err)
	}
	return clusters, nil
}

// fakes returns the clusters in memory cluster1 to clusterN.
func fakes(n int) connector.Connectors {
	clusters := fake.New()
	return connector.Func(func(ctx context.Context, provider, name string) (connector.Connector, error) {
		if i, err := strconv.Atoi(strings.TrimPrefix(name, "cluster")); err != nil || i < 1 || i > n {
			err := fmt.Errorf("unknown cluster %q: must be cluster1 to cluster%d", name, n)
			return nil, &connector.Error{Class: connector.ErrTerminal, Err: err}
		}
		return clusters.Connector(ctx, provider, name)
	})
}

// openBroker starts a source. Its works are in a file, for an engine after a restart.
func openBroker(o mqtt.Options, start func(run func(context.Context) error)) (connector.Connectors, error) {
	transport, err := mqtt.New(o)
	if err != nil {
		return nil, err
	}
	works, err := boltstore.Open("rsync-works.db", boltstore.Options{})
	if err != nil {
		return nil, err
	}
	source, err := work.NewSource(transport, work.SourceOptions{SourceID: "rsync", Store: works})
	if err != nil {
		return nil, errors.Join(err, works.Close())
	}
	start(func(ctx context.Context) error { return errors.Join(source.Start(ctx), works.Close()) })
	return manifestwork.New(source.Clientset().WorkV1(), manifestwork.Options{
		Reachable: func(context.Context, appcontext.ClusterID) error { return source.Healthy() },
	})
}
