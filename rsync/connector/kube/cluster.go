// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
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
	c := &cluster{id: id, at: at, options: options, opening: make(chan struct{}, 1), left: make(chan struct{}, maxLeft)}
	c.questions = newQuestions(options)
	c.interest.clock = options.Clock
	return c
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

// acquireWithin is acquire within Options.Timeout.
func (c *cluster) acquireWithin(ctx context.Context) (*client, error) {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	return c.acquire(ctx)
}

// use adds a user to the current client, and returns the client. If fresh is not nil, it is the new
// current client.
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

// retire makes the next call open a new client, which reads the configuration again. If cl is not
// nil, it does so only if cl is still the current client.
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

// call runs a function with the client within Options.Timeout, and adds a class to its error.
func (c *cluster) call(
	ctx context.Context, object appcontext.Object, doing string, do func(context.Context, *client) error,
) error {
	if err := ctx.Err(); err != nil {
		return endedError(err)
	}
	cl, err := c.acquireWithin(ctx)
	if err != nil {
		return c.failed(ctx, object, "open the configuration", err)
	}
	defer c.giveBack(cl)
	if cl.limit != nil {
		if err := cl.limit.Wait(ctx); err != nil {
			return fault(connector.ErrRetryable, object,
				"%s: the limit of requests per second, Options.QPS, did not admit the request in time", doing)
		}
	}
	// With a verbose logger in the context, client-go logs bodies, including secrets.
	quiet, cancel := context.WithTimeout(klog.NewContext(ctx, logr.Discard()), c.options.Timeout)
	defer cancel()
	if err := do(quiet, cl); err != nil {
		if isUnauthorized(err) {
			c.retire(cl)
		}
		if isForbidden(err) && starting(quiet, cl) {
			err = errStarting
		}
		return c.failed(ctx, object, doing, err)
	}
	return nil
}

// starting reports whether the server is still starting: until it has read the roles, it forbids
// every request.
func starting(ctx context.Context, cl *client) bool {
	_, err := cl.ready(ctx)
	return errors.Is(err, errNotReady)
}

// Probe requests /readyz, independently of other requests and their limits. It accepts every
// answer, even if access is denied, except an answer that the server is not ready. A gateway sends
// the same answer for a server that it does not reach.
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
		// Earlier connections may hang long after the network is back, so the next probe opens a
		// new one. The address or the CA may also have changed.
		c.retire(cl)
	}
	return c.failed(ctx, appcontext.Object{}, "probe", err)
}

// maxSilence limits the time without an answer to a probe. After that the next probe opens a new
// connection: the old connection may hang for minutes after the network is back.
const maxSilence = 4 * time.Second

// silent reports whether a probe of a client has had no answer for maxSilence. Otherwise a probe
// starts.
func (c *cluster) silent(cl *client) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cl.probed.IsZero() {
		cl.probed = time.Now()
	}
	return time.Since(cl.probed) > maxSilence
}

// readLimited reads up to limit bytes.
func readLimited(r io.Reader, limit int64) ([]byte, error) {
	return io.ReadAll(io.LimitReader(r, limit))
}

// fault returns an error with a class and an object.
func fault(class error, object appcontext.Object, format string, args ...any) error {
	return &connector.Error{Class: class, Object: object, Err: fmt.Errorf(format, args...)}
}
