// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package setup reads the command line, and opens the manifests and the clusters of the command line.
package setup

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/spokewire/sdk-go/examples/quickstart/internal/agent"
	"github.com/spokewire/sdk-go/examples/quickstart/internal/cluster"
	"github.com/spokewire/sdk-go/examples/quickstart/internal/kubecluster"
	"github.com/spokewire/sdk-go/examples/quickstart/internal/manifests"
	"github.com/spokewire/sdk-go/examples/quickstart/internal/memcluster"
	"github.com/spokewire/sdk-go/examples/quickstart/internal/progress"
)

// Cluster is a cluster with its name in works.
type Cluster struct {
	cluster.Cluster
	Name string
	// Host is the address of a real cluster, or "" for a cluster in memory.
	Host string
}

// Setup has the inputs of a run.
type Setup struct {
	// SourceID is the source ID of the hub. It is new for each run, to avoid conflicts with works
	// of other runs on a shared broker or cluster.
	SourceID string
	Files    []manifests.File
	Clusters []Cluster

	manifestsAre, clustersAre string
}

// Open reads the manifests, from the folder "manifests" of shipped by default, and opens the
// clusters. It checks that the clusters or the manifests define every kind.
func Open(ctx context.Context, o Options, shipped fs.FS) (*Setup, error) {
	s := &Setup{SourceID: "quickstart-" + rand.String(8)}
	name, origin := "manifests", "shipped with the quickstart; use --manifests DIR for your own"
	folder, err := fs.Sub(shipped, name)
	if err != nil {
		return nil, err
	}
	if o.Manifests != "" {
		folder, name, origin = os.DirFS(o.Manifests), o.Manifests, "from "+o.Manifests
	}
	if s.Files, err = manifests.Load(folder, name); err != nil {
		return nil, err
	}
	if err := manifests.CheckFields(s.Files, len(o.Kubeconfigs) == 0); err != nil {
		return nil, err
	}
	objects := 0
	for _, f := range s.Files {
		objects += len(f.Objects)
	}
	s.manifestsAre = fmt.Sprintf("%s in %s (%s)", progress.Count(objects, "object"),
		progress.Count(len(s.Files), "file"), origin)
	if s.Clusters, err = openClusters(o, s.SourceID); err != nil {
		return nil, err
	}
	s.clustersAre = describe(s.Clusters)
	return s, manifests.CheckKinds(s.Files,
		func(gvk schema.GroupVersionKind) (bool, error) { return s.known(ctx, gvk) })
}

// String describes the setup in a few lines.
func (s *Setup) String() string {
	return fmt.Sprintf("  clusters   %s\n  manifests  %s\n", s.clustersAre, s.manifestsAre)
}

// known reports whether all clusters have a kind.
func (s *Setup) known(ctx context.Context, gvk schema.GroupVersionKind) (bool, error) {
	for _, c := range s.Clusters {
		switch _, err := c.Kind(ctx, gvk); {
		case meta.IsNoMatchError(err):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("cluster %s at %s: %w", c.Name, c.Host, err)
		}
	}
	return true, nil
}

func openClusters(o Options, hub string) ([]Cluster, error) {
	var clusters []Cluster
	for i := range o.Clusters {
		if len(o.Kubeconfigs) == 0 {
			clusters = append(clusters, Cluster{Cluster: memcluster.New(nil), Name: fmt.Sprintf("cluster%d", i+1)})
		}
	}
	names, hosts := map[string]int{}, map[string]string{}
	for _, file := range o.Kubeconfigs {
		c, err := kubecluster.New(file, hub)
		if err != nil {
			return nil, err
		}
		// The objects would belong to works of two agents, and would be deleted with the last of
		// them.
		if first, ok := hosts[c.Host()]; ok {
			return nil, fmt.Errorf("kubeconfigs %s and %s lead to the same cluster, %s", first, file, c.Host())
		}
		hosts[c.Host()] = file
		name := c.Name()
		if names[name]++; names[name] > 1 { // installers often use the same name for the context
			name = fmt.Sprintf("%s-%d", name, names[name])
		}
		clusters = append(clusters, Cluster{Cluster: c, Name: name, Host: c.Host()})
	}
	return clusters, nil
}

// describe lists the first clusters.
func describe(clusters []Cluster) string {
	const most = 6
	var names []string
	for i, c := range clusters {
		if i == most {
			names = append(names, fmt.Sprintf("%d more", len(clusters)-most))
			break
		}
		if c.Host != "" {
			names = append(names, c.Name+" at "+c.Host)
			continue
		}
		names = append(names, c.Name)
	}
	text := strings.Join(names, ", ")
	if clusters[0].Host == "" {
		text += ": in memory (nothing is installed anywhere)"
	}
	return text
}

// Observer returns a function that shows the events of an agent as steps.
func Observer(cluster string, show func(progress.Event)) func(agent.Event) {
	return func(e agent.Event) {
		if e.Err != nil {
			return // the agent also reports it to the hub, which shows it
		}
		step := progress.Applied
		if e.Deleted {
			step = progress.Removed
		}
		show(progress.Event{Step: step, Work: e.Work, Cluster: cluster, Generation: e.Generation, At: time.Now()})
	}
}

// Farewell describes the remaining objects of a successful run.
func Farewell(o Options) string {
	switch {
	case o.Keep:
		return "The other objects stay on the clusters (--keep). To delete them, delete the AppliedWorks."
	case len(o.Kubeconfigs) > 0:
		return "Everything that it created was removed again, except the CRD of AppliedWork."
	}
	return "Everything that it created was removed again."
}
