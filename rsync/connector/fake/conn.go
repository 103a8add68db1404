// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
)

// conn is a connector to a cluster.
type conn struct {
	*Cluster
	all *Clusters
}

var _ connector.StatusWatcher = &conn{}

var errInjected = errors.New("the fake cluster is in this mode")

// Close implements [connector.Connector].
func (c *conn) Close() error {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	c.all.open--
	return nil
}

// begin runs before each call. It applies the delays, the hook and the mode of the cluster.
func (c *Cluster) begin(ctx context.Context, verb Verb, batch connector.Batch) error {
	c.mu.Lock()
	c.counts[verb]++
	if verb == VerbProbe {
		c.probes = append(c.probes, time.Now())
	}
	delay, hook := c.delay, c.hook
	if verb == VerbProbe {
		delay = 0
	}
	if verb == VerbProbe || verb == VerbGet || verb == VerbDiff {
		delay += c.latency
	}
	c.mu.Unlock()
	if hook != nil {
		if err := hook(verb, batch); err != nil {
			return err
		}
	}
	if err := pause(ctx, delay); err != nil {
		return err
	}
	return c.respond(ctx, verb)
}

func pause(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// respond answers a request according to the mode.
func (c *Cluster) respond(ctx context.Context, verb Verb) error {
	for {
		c.mu.Lock()
		mode, changed := c.mode, c.modeChanged
		c.mu.Unlock()
		switch {
		case mode == ModeBlackHole:
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-changed:
				continue
			}
		case mode == ModeUnreachable:
			return &connector.Error{Class: connector.ErrUnreachable, Err: errInjected}
		case mode == ModeFailing && verb != VerbProbe:
			return &connector.Error{Class: connector.ErrRetryable, Err: errInjected}
		case mode == ModeRefusing && verb != VerbProbe:
			return &connector.Error{Class: connector.ErrTerminal, Err: errInjected}
		}
		return ctx.Err()
	}
}

// Apply implements [connector.Connector].
func (c *Cluster) Apply(ctx context.Context, batch connector.Batch) error {
	if err := c.begin(ctx, VerbApply, batch); err != nil {
		return err
	}
	return c.each(ctx, VerbApply, batch, func(r appcontext.Resource) {
		ready := c.unready == nil || !c.unready(r.Object)
		if before := c.objects[r.Object]; before != nil {
			ready = ready || before.state.Ready
		}
		c.objects[r.Object] = &object{
			manifest: slices.Clone(r.Manifest), state: connector.State{Object: r.Object, Exists: true, Ready: ready},
		}
	})
}

// each handles the objects of a batch, with the mutex of the cluster locked.
func (c *Cluster) each(ctx context.Context, verb Verb, batch connector.Batch, do func(appcontext.Resource)) error {
	for i, r := range batch.Resources {
		c.mu.Lock()
		latency := c.latency
		c.mu.Unlock()
		if latency > 0 {
			if err := pause(ctx, latency); err != nil {
				return err
			}
			if err := c.respond(ctx, verb); err != nil {
				return err
			}
		}
		c.mu.Lock()
		c.calls = append(c.calls, Call{Verb: verb, Object: r.Object, App: batch.App, Time: time.Now()})
		do(r)
		c.notifyLocked()
		c.mu.Unlock()
		batch.Done(i)
	}
	return nil
}

// Delete implements [connector.Connector].
func (c *Cluster) Delete(ctx context.Context, batch connector.Batch) error {
	if err := c.begin(ctx, VerbDelete, batch); err != nil {
		return err
	}
	return c.each(ctx, VerbDelete, batch, func(r appcontext.Resource) {
		if have := c.objects[r.Object]; have != nil && c.finalizer {
			have.deleting = true
		} else {
			delete(c.objects, r.Object)
		}
		if len(c.objects) == 0 {
			c.objects = map[appcontext.Object]*object{} // a large map does not shrink
		}
	})
}

// Get implements [connector.Connector].
func (c *Cluster) Get(ctx context.Context, batch connector.Batch) ([]connector.State, error) {
	if err := c.begin(ctx, VerbGet, batch); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]connector.State, len(batch.Resources))
	for i, r := range batch.Resources {
		out[i] = connector.State{Object: r.Object}
		if have := c.objects[r.Object]; have != nil {
			out[i] = have.state
		}
	}
	return out, nil
}

// Probe implements [connector.Connector].
func (c *Cluster) Probe(ctx context.Context) error {
	return c.begin(ctx, VerbProbe, connector.Batch{Cluster: c.id})
}

// WatchStatus implements [connector.StatusWatcher].
func (c *Cluster) WatchStatus(ctx context.Context, changed func()) error {
	for {
		c.mu.Lock()
		next := c.changed
		c.mu.Unlock()
		changed() // for changes before next was read
		select {
		case <-ctx.Done():
			return nil
		case <-next:
		}
	}
}
