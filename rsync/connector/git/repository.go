// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package git

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/internal/driver"
)

type kind int

const (
	probing kind = iota
	asking
	comparing
	writing
)

// call is a call of a connector that waits for its repository.
type call struct {
	ctx    context.Context
	kind   kind
	edits  []edit
	folder []string // of the cluster
	commit Commit
	found  []bool
	// The result of comparing: the files, or nil, and the contents of files that differ.
	files    []*object.TreeEntry
	contents map[plumbing.Hash]packed

	answered bool
	err      error
	done     chan struct{}
}

func (c *call) answer(err error) {
	if !c.answered {
		c.answered, c.err = true, err
		close(c.done)
	}
}

// The limits of one push.
const (
	maxWrites = 100
	maxBytes  = 16 << 20
)

// probeAgain is the minimum time between probes of a silent server, which may have many clusters.
const probeAgain = 250 * time.Millisecond

// repository is a branch that connectors share. Calls that arrive during a request to the server
// are then handled together: one request for all reads, and one push with a commit for each write.
// The goroutine that handles them exists only while calls wait.
type repository struct {
	remote  *remote
	options Options
	users   int // guarded by Connectors.mu
	working sync.WaitGroup
	// prober answers probes, which must not wait for a long push.
	prober *repository

	mu      sync.Mutex
	queue   []*call
	running bool

	// Only the goroutine uses the following fields.
	trees      trees
	tip, root  plumbing.Hash // the last known commit and its tree, or zero
	live       int           // trees after the last sweep
	silent     error         // the error of the last probe without an answer,
	silentTime time.Time     // and its time
}

func newRepository(at Repository, options Options) (*repository, error) {
	remote, err := newRemote(at, options.MaxFetchBytes)
	return &repository{remote: remote, options: options, trees: trees{}}, err
}

// close waits for the goroutine, which ends when all calls have ended.
func (r *repository) close() {
	r.working.Wait()
	r.remote.close()
}

func (r *repository) do(ctx context.Context, c *call) error {
	if err := ctx.Err(); err != nil {
		return driver.Ended(err)
	}
	c.ctx, c.done = ctx, make(chan struct{})
	r.mu.Lock()
	r.queue = append(r.queue, c)
	if !r.running {
		r.running = true
		r.working.Go(r.work)
	}
	r.mu.Unlock()
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return driver.Ended(ctx.Err())
	}
}

func (r *repository) work() {
	for {
		calls := r.next()
		if len(calls) == 0 {
			return
		}
		ctx, cancel := together(calls)
		r.serve(ctx, calls)
		cancel()
	}
}

// next returns the waiting calls, up to the limits of one push. An empty result ends the goroutine.
func (r *repository) next() []*call {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out, rest []*call
	writes, size := 0, int64(0)
	for _, c := range r.queue {
		if c.ctx.Err() != nil {
			continue // its caller has gone
		}
		if c.kind == writing {
			if writes++; writes > 1 && (writes > maxWrites || size+c.size() > maxBytes) {
				rest = append(rest, c)
				size = maxBytes // later writes stay behind it
				continue
			}
			size += c.size()
		}
		out = append(out, c)
	}
	r.queue = rest
	r.running = len(out) > 0
	return out
}

func (c *call) size() int64 {
	n := int64(1)
	for i := range c.edits {
		if b := c.edits[i].blob; b != nil {
			n += b.Size()
		}
	}
	return n
}

// together returns a context that ends when the contexts of all calls have ended.
func together(calls []*call) (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(calls[0].ctx))
	var left atomic.Int32
	left.Store(int32(len(calls)))
	stops := make([]func() bool, 0, len(calls))
	for _, c := range calls {
		stops = append(stops, context.AfterFunc(c.ctx, func() {
			if left.Add(-1) == 0 {
				cancel()
			}
		}))
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel()
	}
}

func (r *repository) serve(ctx context.Context, calls []*call) {
	var asks, writes []*call
	for _, c := range calls {
		if c.kind == writing {
			writes = append(writes, c)
		} else {
			asks = append(asks, c)
		}
	}
	if len(asks) > 0 {
		r.ask(ctx, asks)
	}
	if len(writes) > 0 {
		r.write(ctx, writes)
	}
}

// ask answers probes and reads with one request to the server.
func (r *repository) ask(ctx context.Context, calls []*call) {
	probes := !slices.ContainsFunc(calls, func(c *call) bool { return c.kind != probing })
	now := r.options.Clock.Now()
	if since := now.Sub(r.silentTime); probes && r.silent != nil && since >= 0 && since < probeAgain {
		for _, c := range calls {
			c.answer(r.silent)
		}
		return
	}
	err := r.answerAll(ctx, calls, !probes)
	if errors.Is(err, errMissing) {
		r.forget()
		err = r.answerAll(ctx, calls, !probes)
	}
	err = r.remote.failed(ctx, "reading", err)
	r.silent, r.silentTime = nil, now
	if errors.Is(err, connector.ErrUnreachable) && ctx.Err() == nil {
		r.silent = err
	}
	for _, c := range calls {
		c.answer(err)
	}
}

func (r *repository) answerAll(ctx context.Context, calls []*call, update bool) error {
	err := r.look(ctx, update)
	for i := 0; i < len(calls) && err == nil; i++ {
		err = r.find(calls[i])
	}
	if err == nil {
		err = r.read(ctx, calls)
	}
	return err
}

func (r *repository) find(c *call) error {
	if c.kind == probing {
		return nil
	}
	d, err := newDraft(r.trees, r.root)
	for i := 0; i < len(c.edits) && err == nil; i++ {
		var file *object.TreeEntry
		file, err = d.file(c.edits[i].path)
		if c.found[i] = file != nil; c.kind == comparing {
			c.files[i] = file
		}
	}
	return err
}

// forget drops the cached commit and folders, so they are fetched again.
func (r *repository) forget() {
	r.trees, r.tip, r.root, r.live = trees{}, plumbing.ZeroHash, plumbing.ZeroHash, 0
}
