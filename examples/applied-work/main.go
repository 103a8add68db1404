// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Applied-work applies manifests as a work to the cluster of your kubeconfig. Then it applies a
// second version, which prunes one object. Finally it deletes only the AppliedWork, and waits until
// all objects are gone.
//
//	go run ./examples/applied-work
//	go run ./examples/applied-work --manifests DIR   apply the folder, again whenever it changes, until Ctrl-C
package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
	"github.com/spokewire/sdk-go/examples/internal/command"
)

//go:embed manifests
var manifests embed.FS

func main() { command.Main(run) }

// run runs the program, and returns its exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	p := command.Program[options]{Name: "applied-work", Usage: usage, Parse: parse}
	return p.Run(args, stdout, stderr, func(o options) error {
		e, err := setUp(ctx, o.Kubeconfig, stdout)
		if err != nil {
			return err
		}
		if o.Manifests != "" {
			e.follow(ctx, os.DirFS(o.Manifests))
		} else if err := e.twoVersions(ctx); err != nil {
			return err
		}
		return e.end(context.WithoutCancel(ctx))
	})
}

// example is a run with one work.
type example struct {
	stdout  io.Writer
	client  dynamic.Interface
	tracker *appliedwork.Tracker
	applier *appliedwork.Applier
	pruner  *appliedwork.Pruner
	work    *v1alpha1.AppliedWork
}

func setUp(ctx context.Context, file string, stdout io.Writer) (*example, error) {
	config, err := command.LoadKubeconfig("--kubeconfig", file)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 100, 200
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	if err := v1alpha1.EnsureCRD(ctx, client.Resource(v1alpha1.CRDResource)); err != nil {
		return nil, fmt.Errorf("install the CRD on %s: %w", config.Host, err)
	}
	tracker, err := appliedwork.NewTracker(appliedwork.Options{
		Client: client, Metadata: metadata.NewForConfigOrDie(config),
		Discovery: discovery.NewDiscoveryClientForConfigOrDie(config),
	})
	if err != nil {
		return nil, err
	}
	work, err := tracker.Ensure(ctx, appliedwork.NameFor("example", "cluster1", "shop"),
		v1alpha1.AppliedWorkSpec{WorkNamespace: "cluster1", WorkName: "shop"})
	if err == nil {
		_, err = fmt.Fprintf(stdout, "AppliedWork %s on %s\n", work.Name, config.Host)
	}
	return &example{stdout, client, tracker, appliedwork.NewApplier(tracker), appliedwork.NewPruner(tracker), work}, err
}

func (e *example) twoVersions(ctx context.Context) error {
	for _, version := range []string{"manifests/v1", "manifests/v2"} {
		files, err := fs.Sub(manifests, version)
		if err != nil {
			return err
		}
		objects, err := readManifests(files)
		if err := e.apply(ctx, objects, err); err != nil {
			return err
		}
	}
	return nil
}

// apply applies objects and prunes. A nil object stands for a manifest that could not be read, with
// the reason in readErr. Such an object prevents pruning.
func (e *example) apply(ctx context.Context, objects []*unstructured.Unstructured, readErr error) error {
	applied, applyErr := e.applier.Apply(ctx, e.work, objects, appliedwork.ApplyOptions{})
	pruned, pruneErr := e.pruner.Prune(ctx, e.work, objects, appliedwork.PruneOptions{})
	_, writeErr := fmt.Fprintf(e.stdout, "applied: %s\npruned:  %s\n", applied, pruned)
	return errors.Join(readErr, applyErr, pruneErr, writeErr)
}

// end deletes only the AppliedWork: Kubernetes deletes its objects.
func (e *example) end(ctx context.Context) error {
	entries, err := e.tracker.Entries(ctx, e.work)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(e.stdout, "delete the AppliedWork, and wait until %d objects are deleted\n", len(entries))
	if err := e.client.Resource(v1alpha1.GroupVersionResource).Delete(ctx, e.work.Name,
		metav1.DeleteOptions{}); err != nil {
		return err
	}
	collector := appliedwork.NewCollector(e.tracker)
	for i, entry := range entries { // one by one, to print the progress
		e.work.Status.AppliedResources = entries[i : i+1]
		if err = collector.WaitGone(ctx, e.work); err != nil {
			return err
		}
		_, _ = fmt.Fprintln(e.stdout, "deleted:", appliedwork.KeyOf(entry.ResourceIdentifier))
	}
	_, err = fmt.Fprintln(e.stdout, "all objects are deleted")
	return err
}
