// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Applied-work applies manifests to the cluster of your kubeconfig as a work, applies a second version of them, with which
// one object is pruned, deletes nothing but the AppliedWork, and watches everything go.
//
//	go run ./examples/applied-work
//	go run ./examples/applied-work --manifests DIR   apply the folder, again whenever it changes, until Ctrl-C
package main

import (
	"context"
	"embed"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
	"github.com/spokewire/sdk-go/examples/applied-work/internal/folder"
)

//go:embed manifests
var manifests embed.FS

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	kubeconfig := flag.String("kubeconfig", "", "the kubeconfig `file`; by default as for kubectl")
	dir := flag.String("manifests", "", "a `folder` of manifests in YAML or JSON, in place of the two that come with this")
	flag.Parse()
	if err := run(ctx, *kubeconfig, *dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:gocritic // the signals need no farewell
	}
}

// example is one work.
type example struct {
	client    dynamic.Interface
	tracker   *appliedwork.Tracker
	applier   *appliedwork.Applier
	pruner    *appliedwork.Pruner
	collector *appliedwork.Collector
	work      *v1alpha1.AppliedWork
}

func run(ctx context.Context, kubeconfig, dir string) error {
	e, err := setUp(ctx, kubeconfig)
	if err != nil {
		return err
	}
	fmt.Println("AppliedWork", e.work.Name)
	if dir != "" {
		e.follow(ctx, os.DirFS(dir))
	} else if err := e.twoVersions(ctx); err != nil {
		return err
	}
	return e.end(context.WithoutCancel(ctx))
}

func setUp(ctx context.Context, kubeconfig string) (*example, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 100, 200
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	disco, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	if err := v1alpha1.EnsureCRD(ctx, client.Resource(v1alpha1.CRDResource)); err != nil {
		return nil, err
	}
	tracker, err := appliedwork.NewTracker(appliedwork.Options{Client: client, Discovery: disco})
	if err != nil {
		return nil, err
	}
	work, err := tracker.Ensure(ctx, appliedwork.NameFor("example", "cluster1", "shop"), v1alpha1.AppliedWorkSpec{WorkNamespace: "cluster1", WorkName: "shop"})
	return &example{client, tracker, appliedwork.NewApplier(tracker), appliedwork.NewPruner(tracker), appliedwork.NewCollector(tracker), work}, err
}

func (e *example) twoVersions(ctx context.Context) error {
	for _, version := range []string{"manifests/v1", "manifests/v2"} {
		files, err := fs.Sub(manifests, version)
		if err != nil {
			return err
		}
		if err := e.apply(ctx, files); err != nil {
			return err
		}
	}
	return nil
}

// follow applies a folder whenever it is another than before.
func (e *example) follow(ctx context.Context, files fs.FS) {
	for last := ""; ctx.Err() == nil; {
		if now := folder.Fingerprint(files); now != last {
			last = now
			if err := e.apply(ctx, files); err != nil && ctx.Err() == nil {
				fmt.Println(err)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

func (e *example) apply(ctx context.Context, files fs.FS) error {
	objects, readErr := folder.Read(files) // nil for what cannot be decoded, so that nothing is pruned for it
	applied, applyErr := e.applier.Apply(ctx, e.work, objects, appliedwork.ApplyOptions{})
	fmt.Println("applied:", applied)
	pruned, pruneErr := e.pruner.Prune(ctx, e.work, objects, appliedwork.PruneOptions{})
	fmt.Println("pruned: ", pruned)
	return errors.Join(readErr, applyErr, pruneErr)
}

// end deletes the AppliedWork and nothing else: Kubernetes does the rest.
func (e *example) end(ctx context.Context) (err error) {
	if e.work.Status.AppliedResources, err = e.tracker.Entries(ctx, e.work); err != nil {
		return err
	}
	fmt.Println("delete the AppliedWork, and wait for", len(e.work.Status.AppliedResources), "objects to go")
	if err := e.client.Resource(v1alpha1.GroupVersionResource).Delete(ctx, e.work.Name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := e.collector.WaitGone(ctx, e.work); err != nil {
		return err
	}
	fmt.Println("everything is gone")
	return nil
}
