// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Work-apiserver serves ManifestWorks as an aggregated API of a Kubernetes cluster, and sends them to
// the clusters' agents over an MQTT broker. kubectl and all controllers of the cluster use them like
// any other resource. With a broker at localhost:1883 and the rights of a cluster administrator:
//
//	go run ./examples/work-apiserver --broker mqtt://localhost:1883 --kubeconfig ~/.kube/config --secure-port 6444
//
// README.md in this folder describes the installation in a cluster:
// https://github.com/spokewire/sdk-go/blob/main/examples/work-apiserver/README.md
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/apiserver"
	"github.com/spokewire/sdk-go/cloudevents/work/boltstore"
	"github.com/spokewire/sdk-go/cloudevents/work/pgstore"
	"github.com/spokewire/sdk-go/examples/internal/command"
	"github.com/spokewire/sdk-go/examples/internal/logging"
)

func main() { command.Main(run) }

// run is the program without the process. It returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "install" {
		return installation.Run(ctx, args[1:], stdout, stderr)
	}
	p := command.Program[*options]{Name: "work-apiserver", Usage: help(), Parse: parse, Check: check}
	return p.Run(args, stdout, stderr, func(o *options) error {
		ctx, restore := logging.Start(ctx, stderr, o.log)
		defer restore()
		return serve(ctx, o)
	})
}

// closer is a store that must be closed.
type closer interface {
	work.Store
	io.Closer
}

// openStore opens the database of --store, or the file in its folder.
func openStore(ctx context.Context, o *options) (closer, error) {
	if o.shared() {
		return pgstore.Open(ctx, pgstore.Options{ConnString: o.store, Name: o.source})
	}
	if err := os.MkdirAll(o.store, 0o700); err != nil {
		return nil, err
	}
	return boltstore.Open(filepath.Join(o.store, "works.db"), boltstore.Options{})
}

// serve runs the source and the server until ctx ends.
func serve(ctx context.Context, o *options) (err error) {
	transport, err := mqtt.New(o.broker)
	if err != nil {
		return err
	}
	store, err := openStore(ctx, o)
	if err != nil {
		return fmt.Errorf("--store: %w", err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	sourceOptions := work.SourceOptions{
		SourceID: o.source, Store: store, MetricsRegisterer: legacyregistry.Registerer(),
	}
	if o.shared() {
		sourceOptions.SharedGroup = o.source
	}
	source, err := work.NewSource(transport, sourceOptions)
	if err != nil {
		return err
	}
	server, err := apiserver.New(source, o.server)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	// The source ends after the server, because requests need it.
	sourceCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	group.Go(func() error { return source.Start(sourceCtx) })
	group.Go(func() error {
		defer stop()
		return server.Start(ctx)
	})
	group.Go(func() error { return once(ctx, source, o) })
	return group.Wait()
}

// once executes --inventory-complete and --forget. With a shared store, it waits for the first
// connection: before its start, a replica cannot write.
func once(ctx context.Context, source *work.Source, o *options) error {
	if o.shared() {
		select {
		case <-source.Ready():
		case <-ctx.Done():
			return nil
		}
	}
	if o.complete {
		if err := source.InventoryComplete(ctx); err != nil {
			return fmt.Errorf("--inventory-complete: %w", err)
		}
	}
	for _, cluster := range o.forget {
		if err := source.Forget(ctx, cluster); err != nil {
			return fmt.Errorf("--forget %s: %w", cluster, err)
		}
	}
	return nil
}
