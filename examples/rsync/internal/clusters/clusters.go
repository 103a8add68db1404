// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package clusters finds the connector of a cluster by the name of its provider.
package clusters

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/connector/kube"
)

// Provider is a kind of clusters that flags can select.
type Provider struct {
	// Name is the provider in contexts: the first part of provider+cluster.
	Name string
	// Flag is the flag that selects it. Open parses the value.
	Flag string
	Open func(value string) (connector.Connectors, error)
}

// Providers are all providers.
var Providers = []Provider{
	{Name: "fake", Flag: "fake", Open: openFake},
	{Name: "kube", Flag: "kubeconfig-dir", Open: openKube},
	{Name: "git", Flag: "git", Open: openGit},
	{Name: "work", Flag: "broker", Open: openBroker},
}

// Mux has the connectors of several providers, by their names.
type Mux map[string]connector.Connectors

// Open opens the selected providers. The keys are the names of their flags.
func Open(asked map[string]string) (Mux, error) {
	out := Mux{}
	for _, p := range Providers {
		value, ok := asked[p.Flag]
		if !ok {
			continue
		}
		connectors, err := p.Open(value)
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", p.Flag, err)
		}
		out[p.Name] = connectors
	}
	return out, nil
}

// Connector implements [connector.Connectors].
func (m Mux) Connector(ctx context.Context, provider, cluster string) (connector.Connector, error) {
	if connectors := m[provider]; connectors != nil {
		return connectors.Connector(ctx, provider, cluster)
	}
	known := strings.Join(slices.Sorted(maps.Keys(m)), ", ")
	return nil, &connector.Error{
		Class: connector.ErrTerminal, Err: fmt.Errorf("unknown provider %q: must be one of %s", provider, known),
	}
}

// starter is implemented by connectors that run in the background.
type starter interface {
	Start(ctx context.Context) error
}

// Start runs the connectors that have a Start method, until ctx ends.
func (m Mux) Start(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, connectors := range m {
		if s, ok := connectors.(starter); ok {
			group.Go(func() error { return s.Start(ctx) })
		}
	}
	return group.Wait()
}

// maxFake bounds --fake.
const maxFake = 10_000

// openFake returns the connectors of clusters in memory: cluster1, cluster2 and so on.
func openFake(value string) (connector.Connectors, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > maxFake {
		return nil, fmt.Errorf("%q: must be a number from 1 to %d", value, maxFake)
	}
	all := fake.New()
	return connector.Func(func(ctx context.Context, provider, name string) (connector.Connector, error) {
		i, err := strconv.Atoi(strings.TrimPrefix(name, "cluster"))
		if err != nil || i < 1 || i > n || name != "cluster"+strconv.Itoa(i) {
			return nil, &connector.Error{Class: connector.ErrTerminal, Err: fmt.Errorf("unknown cluster %q: must be "+
				"cluster1 to cluster%d", name, n)}
		}
		return all.Connector(ctx, provider, name)
	}), nil
}

// openKube returns the connectors of clusters with kubeconfigs in a folder. Cluster kube+NAME has
// the file NAME.kubeconfig.
func openKube(dir string) (connector.Connectors, error) {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return nil, err
	case !info.IsDir():
		return nil, fmt.Errorf("%s is not a folder", dir)
	}
	return kube.New(map[string]kube.Cluster{"kube+*": {Load: kube.Directory(dir)}}, kube.Options{})
}
