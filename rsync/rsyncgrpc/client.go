// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/internal/wait"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc/rsyncv1"
)

// Client is a client of an engine in another process, with the methods, results and errors of
// [*rsync.Engine]. They may be called from any goroutine. Call Close at the end.
type Client struct {
	conn    *grpc.ClientConn
	engine  rsyncv1.EngineClient
	waits   lanes
	options ClientOptions
}

// NewClient returns the client of a server at a target: host:port or another gRPC target. It does
// not connect before the first call. It returns rsync.ErrInvalidInput for invalid options, and the
// errors of the files in options.
func NewClient(target string, options ClientOptions) (*Client, error) {
	if err := options.validate(target); err != nil {
		return nil, err
	}
	options = options.withDefaults()
	creds := insecure.NewCredentials()
	if !options.Insecure {
		var err error
		creds, err = newClientTLS(&options, func(err error) {
			klog.Background().Error(err, "Failed to reload files, the previous ones stay in effect")
		})
		if err != nil {
			return nil, err
		}
	}
	dialOptions := append([]grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: options.Backoff.Base, Multiplier: 2, Jitter: 0.5, MaxDelay: options.Backoff.Max,
			},
			MinConnectTimeout: options.KeepAlive,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: options.KeepAlive, Timeout: options.KeepAlive / 2}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(options.MaxMessageBytes)),
	}, options.DialOptions...)
	dial := func() (*grpc.ClientConn, error) { return grpc.NewClient(target, dialOptions...) }
	conn, err := dial()
	if err != nil {
		return nil, fmt.Errorf("%w: target %q: %w", rsync.ErrInvalidInput, target, err)
	}
	return &Client{conn: conn, engine: rsyncv1.NewEngineClient(conn), waits: lanes{dial: dial}, options: options}, nil
}

// Close closes the connections, which ends all calls.
func (c *Client) Close() error { return errors.Join(c.conn.Close(), c.waits.close()) }

// Conn returns the connection, for calls of other services.
func (c *Client) Conn() grpc.ClientConnInterface { return c.conn }

// outage counts consecutive failures.
type outage struct {
	attempts int
	began    time.Time
}

// forever is the limit of calls that are retried until their context ends.
const forever = time.Duration(math.MaxInt64)

// retry repeats a call until it succeeds, fails permanently, or limit has passed since the first
// failure. It reports whether an attempt without an answer may have succeeded.
func (c *Client) retry(ctx context.Context, limit time.Duration, call func() error) (maybe bool, err error) {
	var o outage
	var failure error // of the last attempt that is repeated
	for {
		err := call()
		switch {
		case c.temporary(ctx, err):
			failure = fromStatus(err)
			if c.pause(ctx, &o, limit, err) {
				continue
			}
			if ctx.Err() == nil {
				return true, failure
			}
		case err == nil || ctx.Err() == nil:
			return o.attempts > 0, fromStatus(err)
		case failure == nil:
			return false, context.Cause(ctx)
		}
		return true, fmt.Errorf("%w: %w", context.Cause(ctx), failure)
	}
}

// temporary reports whether another attempt makes sense.
func (c *Client) temporary(ctx context.Context, err error) bool {
	if err == nil || ctx.Err() != nil || c.conn.GetState() == connectivity.Shutdown {
		return false
	}
	code := status.Code(err)
	// A server that ends abruptly cancels its calls.
	return code == codes.Unavailable || code == codes.Canceled || reasonOf(err) == "SLOW"
}

// about makes a call for one context, with retries.
func about[Q, A any](
	ctx context.Context, c *Client, id string, call func(context.Context, *Q, ...grpc.CallOption) (*A, error), q *Q,
) (answer *A, err error) {
	if err := checkText("the ID", id); err != nil {
		return nil, err
	}
	_, err = c.retry(ctx, c.options.RetryTimeout, func() (err error) {
		answer, err = call(ctx, q)
		return err
	})
	return answer, err
}

// collect returns the values of all messages of a stream, with retries, which begin again.
func collect[Q, A, V any](
	ctx context.Context, c *Client, q *Q, add func(all []V, message *A) []V,
	call func(context.Context, *Q, ...grpc.CallOption) (grpc.ServerStreamingClient[A], error),
) (all []V, err error) {
	_, err = c.retry(ctx, c.options.RetryTimeout, func() error {
		all = []V{}
		stream, err := call(ctx, q)
		if err != nil {
			return err
		}
		return receive(stream.Recv, func(message *A) { all = add(all, message) })
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// pause waits before the next attempt. It returns false if no further attempt follows.
func (c *Client) pause(ctx context.Context, o *outage, limit time.Duration, err error) bool {
	if o.attempts == 0 {
		o.began = time.Now()
		klog.FromContext(ctx).V(1).Info("Failed to reach the rsync server, retrying", "target", c.conn.Target(),
			"reason", status.Convert(err).Message())
	}
	delay := wait.Backoff(c.options.Backoff.Base, c.options.Backoff.Max, o.attempts)
	o.attempts++
	if limit != forever && time.Since(o.began)+delay > limit {
		return false
	}
	return wait.Sleep(ctx, clock.RealClock{}, delay) == nil
}
