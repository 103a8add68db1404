// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/internal/driver"
)

// Connectors implements [connector.Connectors] for clusters with a reachable API server. It may be
// used concurrently. It releases the resources of a cluster when the last connector for the cluster
// is closed.
type Connectors struct {
	clusters map[string]Cluster
	options  Options

	mu   sync.Mutex
	open map[appcontext.ClusterID]*cluster
}

// New returns Connectors for clusters. A key is provider+cluster, provider+* for the other clusters
// of a provider, or * for all others. For keys with * use Load, because Config and Kubeconfig are
// one cluster. New reads no file and makes no calls. It returns [ErrInvalid].
func New(clusters map[string]Cluster, options Options) (*Connectors, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(clusters)) {
		if err := driver.CheckKey(key); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		if err := clusters[key].validate(); err != nil {
			return nil, fmt.Errorf("clusters %s: %w", key, err)
		}
	}
	return &Connectors{clusters: maps.Clone(clusters), options: options, open: map[appcontext.ClusterID]*cluster{}}, nil
}

// Connector implements [connector.Connectors]. It does no I/O: the first call reads the
// configuration. For a cluster without a key in New it returns a terminal error.
func (c *Connectors) Connector(_ context.Context, provider, name string) (connector.Connector, error) {
	id := appcontext.ClusterID{Provider: provider, Name: name}
	at, ok := driver.Find(c.clusters, id)
	if !ok {
		return nil, driver.Terminal("no API server is configured for the cluster %s", id)
	}
	of := c.use(id, at)
	return &conn{cluster: of, release: sync.OnceFunc(func() { c.release(of) })}, nil
}

// use begins the use of a cluster.
func (c *Connectors) use(id appcontext.ClusterID, at Cluster) *cluster {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.open[id]
	if of == nil {
		of = newCluster(id, at, c.options)
		c.open[id] = of
	}
	of.connectors++
	return of
}

// release ends the use of a cluster. The last release closes the cluster.
func (c *Connectors) release(of *cluster) {
	c.mu.Lock()
	of.connectors--
	last := of.connectors == 0
	if last {
		delete(c.open, of.id)
	}
	c.mu.Unlock()
	if last {
		of.questions.close()
		of.retire(nil)
	}
}

type conn struct {
	*cluster
	release func()
}

// Close ends the use of the cluster. The last connector closes the connections.
func (c *conn) Close() error {
	c.release()
	return nil
}
