// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/spokewire/sdk-go/rsync/rsyncgrpc/rsyncv1"
)

func (s *service) Watch(r *rsyncv1.WatchRequest, stream grpc.ServerStreamingServer[rsyncv1.WatchResponse]) error {
	return s.allowed(stream.Context(), "Watch", VerbWatch, r.GetId(), func() error {
		ctx, cancel := s.during(stream.Context())
		defer cancel()
		return pump(ctx, s, s.changes(ctx, r.GetId(), r.GetFromRevision()), stream.Send)
	})
}

// changes returns the messages of a watch. The initial state is one message.
func (s *service) changes(ctx context.Context, id string, from int64) iter.Seq2[*rsyncv1.WatchResponse, error] {
	return func(yield func(*rsyncv1.WatchResponse, error) bool) {
		if from == 0 {
			status, err := s.engine.Status(ctx, id)
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(snapshot(status), nil) {
				return
			}
			from = status.Revision + 1
		}
		for change, err := range s.engine.Watch(ctx, id, from) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(&rsyncv1.WatchResponse{Changes: []*rsyncv1.Change{changeMessage(&change)}}, nil) || change.Deleted {
				return
			}
		}
		// The watch ends by itself only with its context.
		if err := context.Cause(ctx); err != nil {
			yield(nil, err)
			return
		}
		yield(nil, errors.New("the watch of the store ended"))
	}
}

// pump sends the messages of a watch. Further messages wait in the store.
func pump[M any](ctx context.Context, s *service, messages iter.Seq2[M, error], send func(M) error) error {
	err := sendAll(ctx, s.options.WatchBuffer, s.options.WatchLag, messages, send)
	if errors.Is(err, errSlow) {
		s.metrics.slowWatch()
	}
	return err
}

// sendAll sends messages in order, and buffers some unsent messages. If the buffer is full for
// longer than limit, or without a buffer one message takes that long, it ends with errSlow. Only the
// end of the call interrupts a Send that waits for its client, so Send has its own goroutine.
func sendAll[M any](
	ctx context.Context, buffer int, limit time.Duration, messages iter.Seq2[M, error], send func(M) error,
) error {
	queue := make(chan M, buffer)
	closeQueue := sync.OnceFunc(func() { close(queue) })
	defer closeQueue()
	sent := make(chan error, 1)
	go func() {
		for m := range queue {
			if err := send(m); err != nil {
				sent <- errors.Join(context.Canceled, err) // the client has gone
				return
			}
		}
		sent <- nil
	}()
	lag := &lag{limit: limit}
	defer lag.none()
	var end error
	for m, err := range messages {
		if err != nil {
			end = err
			break
		}
		select {
		case queue <- m:
			lag.none()
			continue
		default:
		}
		select {
		case queue <- m:
			if buffer == 0 {
				lag.none()
			}
		case err := <-sent:
			return err
		case <-lag.over():
			return errSlow
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	closeQueue() // and wait until all is sent
	select {
	case err := <-sent:
		return cmp.Or(err, end)
	case <-lag.over():
		return errSlow
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// lag measures how long a client lags without a break.
type lag struct {
	limit time.Duration
	timer *time.Timer
}

func (l *lag) none() {
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
}

// over returns a channel that receives when limit has passed since the first call after none.
func (l *lag) over() <-chan time.Time {
	if l.timer == nil {
		l.timer = time.NewTimer(l.limit)
	}
	return l.timer.C
}
