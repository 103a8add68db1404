// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// streamsPerConnection is the maximum number of streams on a connection. API servers allow 100; the
// rest is for requests that end streams and begin others.
const streamsPerConnection = 90

// pool distributes streams over HTTP clients with one connection each. client-go's transport dials
// again for every request that finds all connections full: 1,000 watches need 1,263 connections
// with it, and 13 with the pool. An http2.Transport supports neither proxies nor servers without
// HTTP/2. BenchmarkWatcherConnections measures this.
type pool struct {
	newClient func() (*http.Client, error)
	perShard  int // 0 means that one client has all streams
	server    *server

	mu     sync.Mutex
	shards []*shard
}

// newPool makes a pool. A client that is not nil sends all requests.
func newPool(config *rest.Config, client *http.Client, c clock.WithTicker) *pool {
	p := &pool{perShard: streamsPerConnection, server: &server{clock: c}}
	p.newClient = func() (*http.Client, error) { return rest.HTTPClientFor(OwnTransport(config)) }
	if client != nil {
		p.perShard = 0
		p.newClient = func() (*http.Client, error) { return client, nil }
	}
	return p
}

// OwnTransport returns a configuration with its own transport. client-go shares transports between
// equal configurations, and each dial function is different.
func OwnTransport(config *rest.Config) *rest.Config {
	own := rest.CopyConfig(config)
	own.Timeout = 0 // streams have no time limit
	if own.Dial == nil {
		own.Dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	return own
}

// acquire returns a client with room for one more stream, which ends with release.
func (p *pool) acquire() (*shard, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.shards {
		if p.perShard == 0 || s.streams < p.perShard {
			s.streams++
			return s, nil
		}
	}
	client, err := p.newClient()
	if err != nil {
		return nil, fmt.Errorf("make an HTTP client: %w", err)
	}
	s := &shard{pool: p, client: client, streams: 1, changed: make(chan struct{})}
	p.shards = append(p.shards, s)
	return s, nil
}

func (p *pool) release(s *shard) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.streams--; s.streams == 0 {
		s.rest()
	}
}

// CloseIdle closes idle connections, even if the transport is wrapped, as in client-go.
func CloseIdle(c *http.Client) { utilnet.CloseIdleConnectionsFor(c.Transport) }

func (p *pool) closeIdle() {
	for _, s := range p.forgetIdle() {
		CloseIdle(s.client)
	}
}

func (p *pool) forgetIdle() (idle []*shard) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.perShard == 0 {
		return nil // the client is the user's
	}
	p.shards = slices.DeleteFunc(p.shards, func(s *shard) bool {
		if s.streams > 0 {
			return false
		}
		idle = append(idle, s)
		return true
	})
	return idle
}

func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.perShard == 0 {
		return // the client is the user's
	}
	for _, s := range p.shards {
		CloseIdle(s.client)
	}
}

// shard is a client with its connection, which one request at a time tries to open.
type shard struct {
	pool    *pool
	client  *http.Client
	streams int // guarded by pool.mu

	mu      sync.Mutex
	phase   connectionPhase
	epoch   int           // counts the connections
	changed chan struct{} // closed and replaced when a dial ends
}

// turnLimit limits the time between the start of the request that makes a connection and its search
// for one. Earlier steps, such as getting a token, must not delay others for longer. It is divided
// into turnChecks: a busy machine delays these as it delays the request.
const (
	turnLimit  = 20 * time.Millisecond
	turnChecks = 10
)

// do sends a request, and starts its limit when it is its turn. It returns the connection's epoch.
func (s *shard) do(req *http.Request, limit *time.Timer) (resp *http.Response, epoch int, err error) {
	opener, epoch, err := s.enter(req.Context())
	if err != nil {
		return nil, 0, err
	}
	limit.Reset(silence)
	if !opener {
		resp, err = s.client.Do(req)
		return resp, epoch, err
	}
	p := &passage{shard: s}
	time.AfterFunc(turnLimit/turnChecks, func() { p.tick(1) })
	trace := &httptrace.ClientTrace{
		GetConn: func(string) { p.looks.Store(true) }, // must not block: net/http may have locked its connections
		GotConn: func(httptrace.GotConnInfo) { p.leave(true) },
	}
	resp, err = s.client.Do(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
	epoch = p.leave(err == nil)
	switch {
	case err == nil:
		s.pool.server.reached() // a server that accepts connections and breaks them counts as away
	case req.Context().Err() == nil:
		s.pool.server.failed()
	default:
		s.pool.server.tried()
	}
	return resp, epoch, err
}

// passage is the turn of a request to open the connection.
type passage struct {
	shard *shard
	looks atomic.Bool // net/http looks for a connection

	mu    sync.Mutex
	over  bool // the turn has ended
	epoch int  // of the connection; 0 without one
}

// tick ends the turn of a request that has not begun to look for a connection in time.
func (p *passage) tick(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.over || p.looks.Load():
	case n < turnChecks:
		time.AfterFunc(turnLimit/turnChecks, func() { p.tick(n + 1) })
	default:
		p.over = true
		p.shard.leave(dialFailed)
		p.shard.pool.server.tried()
	}
}

// leave ends the turn. The first connection is recorded even if the turn has ended before.
func (p *passage) leave(connected bool) (epoch int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case connected && p.epoch == 0:
		p.over, p.epoch = true, p.shard.leave(dialDone)
	case !p.over:
		p.over = true
		p.shard.leave(dialFailed)
	}
	return p.epoch
}

// enter waits until the connection exists, or until it is the turn of this request to open it.
func (s *shard) enter(ctx context.Context) (opener bool, epoch int, err error) {
	for {
		s.mu.Lock()
		phase, epoch, changed := s.phase, s.epoch, s.changed
		s.phase = phase.after(dialStarted)
		s.mu.Unlock()
		switch phase {
		case connected:
			return false, epoch, nil
		case disconnected:
			if err := s.pool.server.wait(ctx); err != nil {
				s.leave(dialFailed)
				return false, 0, err
			}
			return true, 0, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false, 0, ctx.Err()
		}
	}
}

func (s *shard) leave(step connectionStep) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase = s.phase.after(step); step == dialDone {
		s.epoch++
		s.pool.server.tried()
	}
	close(s.changed)
	s.changed = make(chan struct{})
	return s.epoch
}

// rest records that a connection has no streams left, so it may end without an error.
func (s *shard) rest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.phase = s.phase.after(connectionLost)
}

// failed records that the connection of an epoch has broken.
func (s *shard) failed(epoch int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch == epoch {
		s.phase = s.phase.after(connectionLost)
	}
}

// server paces the attempts of all shards to reach a server: one at a time while it is away.
type server struct {
	clock clock.WithTicker

	mu     sync.Mutex
	delay  wait.DelayFunc // nil while the server is not known to be away
	until  time.Time
	trying chan struct{} // closed at the end of the current attempt; nil without one
}

// newBackoff returns the delays between attempts: 100 ms, growing to 10 s, each with jitter.
func newBackoff() wait.DelayFunc {
	return wait.Backoff{
		Duration: 100 * time.Millisecond, Factor: 1.6, Jitter: 0.3, Steps: 100, Cap: 7700 * time.Millisecond,
	}.DelayFunc()
}

// wait returns when it is the caller's turn to try. One of tried, failed and reached must follow.
func (s *server) wait(ctx context.Context) error {
	for ctx.Err() == nil {
		s.mu.Lock()
		rest, trying, away := s.until.Sub(s.clock.Now()), s.trying, s.delay != nil
		if away && rest <= 0 && trying == nil {
			s.trying = make(chan struct{})
		}
		s.mu.Unlock()
		switch {
		case !away, rest <= 0 && trying == nil:
			return nil
		case rest <= 0:
			select {
			case <-trying:
			case <-ctx.Done():
			}
		default:
			timer := s.clock.NewTimer(rest)
			select {
			case <-timer.C():
			case <-ctx.Done():
			}
			timer.Stop()
		}
	}
	return ctx.Err()
}

func (s *server) tried() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.triedLocked()
}

func (s *server) triedLocked() {
	if s.trying != nil {
		close(s.trying)
		s.trying = nil
	}
}

// failed records an attempt that did not reach the server. Concurrent attempts count as one.
func (s *server) failed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.triedLocked()
	now := s.clock.Now()
	if now.Before(s.until) {
		return
	}
	if s.delay == nil {
		s.delay = newBackoff()
	}
	s.until = now.Add(s.delay())
}

func (s *server) reached() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delay, s.until = nil, time.Time{}
	s.triedLocked()
}
