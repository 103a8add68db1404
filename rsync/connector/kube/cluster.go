// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/internal/driver"
)

// cluster has the state that the connectors of one cluster share.
type cluster struct {
	id      appcontext.ClusterID
	at      Cluster
	options Options

	connectors int // guarded by the mutex of Connectors

	kinds     kinds
	interest  interest
	questions *questions

	opening chan struct{} // has a token while a call opens a client: reading a configuration may take time
	left    chan struct{} // of impatient requests, of all clients

	mu      sync.Mutex
	current *client
}

func newCluster(id appcontext.ClusterID, at Cluster, options Options) *cluster {
	objects, followed := map[pair]map[string]wanted{}, map[pair]map[string]wanted{}
	return &cluster{
		id: id, at: at, options: options, questions: newQuestions(options),
		interest: interest{clock: options.Clock, objects: objects, followed: followed},
		opening:  make(chan struct{}, 1), left: make(chan struct{}, maxLeft),
	}
}

// acquire returns the client, which it opens if necessary. The caller must call giveBack.
func (c *cluster) acquire(ctx context.Context) (*client, error) {
	if cl := c.use(nil); cl != nil {
		return cl, nil
	}
	select {
	case c.opening <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-c.opening }()
	if cl := c.use(nil); cl != nil { // another call was faster
		return cl, nil
	}
	config, err := c.at.load(ctx, c.id)
	if err != nil {
		return nil, err
	}
	cl, err := newClient(config, c.options, c.left)
	if err != nil {
		return nil, err
	}
	return c.use(cl), nil
}

// use adds a user to the current client, which fresh replaces if it is not nil.
func (c *cluster) use(fresh *client) *client {
	c.mu.Lock()
	defer c.mu.Unlock()
	if fresh != nil {
		c.current = fresh
	}
	if c.current != nil {
		c.current.users++
	}
	return c.current
}

func (c *cluster) giveBack(cl *client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cl.users--
	c.closeUnused(cl)
}

// retire makes the next call open a new client, if cl is nil or still the current client.
func (c *cluster) retire(cl *client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == nil || cl != nil && cl != c.current {
		return
	}
	cl, c.current = c.current, nil
	c.closeUnused(cl)
}

func (c *cluster) closeUnused(cl *client) {
	if cl != c.current && cl.users == 0 {
		cl.close()
	}
}

// call runs a function with the client within Options.Timeout, and classifies its error.
func (c *cluster) call(
	ctx context.Context, object appcontext.Object, doing string, do func(context.Context, *client) error,
) error {
	if err := ctx.Err(); err != nil {
		return driver.Ended(err)
	}
	limited, cancel := context.WithTimeout(ctx, c.options.Timeout)
	cl, err := c.acquire(limited)
	cancel()
	if err != nil {
		return c.failed(ctx, object, "open the configuration", err)
	}
	defer c.giveBack(cl)
	if cl.limit != nil {
		if err := cl.limit.Wait(ctx); err != nil {
			return driver.Fault(connector.ErrRetryable, object,
				"%s: the limit of requests per second, Options.QPS, did not admit the request in time", doing)
		}
	}
	// With a verbose logger in the context, client-go logs bodies, including secrets.
	quiet, cancel := context.WithTimeout(klog.NewContext(ctx, logr.Discard()), c.options.Timeout)
	defer cancel()
	if err := do(quiet, cl); err != nil {
		if apierrors.IsUnauthorized(err) {
			c.retire(cl)
		}
		if apierrors.IsForbidden(err) { // as is every request until the server has read the roles
			if _, notReady := cl.ready(quiet); errors.Is(notReady, errNotReady) {
				err = errStarting
			}
		}
		return c.failed(ctx, object, doing, err)
	}
	return nil
}

// Probe requests /readyz, independently of other requests and their limits. It accepts every answer
// except that the server is not ready.
func (c *cluster) Probe(ctx context.Context) error {
	quiet, cancel := context.WithTimeout(klog.NewContext(ctx, logr.Discard()), c.options.Timeout)
	defer cancel()
	cl, err := c.acquire(quiet)
	if err == nil && c.silent(cl) {
		c.retire(cl)
		c.giveBack(cl)
		cl, err = c.acquire(quiet)
	}
	if err != nil {
		return c.failed(ctx, appcontext.Object{}, "open the configuration", err)
	}
	defer c.giveBack(cl)
	code, err := cl.ready(quiet)
	c.mu.Lock()
	cl.probed = time.Time{}
	c.mu.Unlock()
	switch {
	case err == nil:
		if code == http.StatusUnauthorized {
			c.retire(cl)
		}
		return nil
	case !errors.Is(err, errNotReady) && !errors.Is(ctx.Err(), context.Canceled):
		c.retire(cl) // see maxSilence; the address or the CA may also have changed
	}
	return c.failed(ctx, appcontext.Object{}, "probe", err)
}

// maxSilence is the time without an answer after which the next probe opens a new connection: the
// old connection may hang for minutes after the network is back.
const maxSilence = 4 * time.Second

// silent reports whether a client has been silent for maxSilence. Otherwise a probe starts.
func (c *cluster) silent(cl *client) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cl.probed.IsZero() {
		cl.probed = time.Now()
	}
	return time.Since(cl.probed) > maxSilence
}
