// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"google.golang.org/protobuf/proto"
)

const (
	// pageBytes limits the parts of a message of a long answer, unless one part is larger.
	pageBytes   = 256 << 10
	longAnswers = 128 << 20       // the memory of Diff and Detached
	longAnswer  = longAnswers / 2 // of one call: one call of each client, two in total
)

// pages groups parts, in order, into pages of up to pageBytes.
func pages[P proto.Message](parts iter.Seq[P]) iter.Seq[[]P] {
	return func(yield func([]P) bool) {
		var page []P
		size := 0
		for p := range parts {
			n := proto.Size(p)
			if len(page) > 0 && size+n > pageBytes {
				if !yield(page) {
					return
				}
				page, size = nil, 0
			}
			page, size = append(page, p), size+n
		}
		if len(page) > 0 {
			yield(page)
		}
	}
}

func pagesOf[V any, P proto.Message](values []V, message func(*V) P) iter.Seq[[]P] {
	return pages(func(yield func(P) bool) {
		for i := range values {
			if !yield(message(&values[i])) {
				return
			}
		}
	})
}

// partsOf returns a message for each page of the objects of each value, and one for a value without
// objects. The messages after the first of a value are continued.
func partsOf[V, O, M any](
	values []V, objects func(*V) iter.Seq[[]O], message func(v *V, objects []O, continued bool) M,
) iter.Seq[M] {
	return func(yield func(M) bool) {
		for i := range values {
			continued := false
			for page := range objects(&values[i]) {
				if !yield(message(&values[i], page, continued)) {
					return
				}
				continued = true
			}
			if !continued && !yield(message(&values[i], nil, false)) {
				return
			}
		}
	}
}

func each[A, B any](all iter.Seq[A], convert func(A) B) iter.Seq[B] {
	return func(yield func(B) bool) {
		for a := range all {
			if !yield(convert(a)) {
				return
			}
		}
	}
}

// deliver sends messages. Each must be sent within limit, because the client's turn lasts until all
// are sent.
func deliver[M any](ctx context.Context, messages iter.Seq[M], send func(M) error, limit time.Duration) error {
	queue := make(chan M)
	sent := make(chan error)
	done := make(chan struct{})
	defer close(done)
	go func() { // only the end of the call ends a Send
		for {
			select {
			case m := <-queue:
				err := send(m)
				select {
				case sent <- err:
				case <-done:
					return
				}
			case <-done:
				return
			}
		}
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for m := range messages {
		queue <- m
		timer.Reset(limit)
		select {
		case err := <-sent:
			if err != nil {
				return errors.Join(context.Canceled, err) // the client has gone
			}
		case <-timer.C:
			return errStalled
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// longTurn waits for the client's turn for a long answer.
func (s *service) longTurn(ctx context.Context) (end func(), err error) {
	return s.long.Take(ctx, clientIn(ctx), longAnswer)
}

// receive calls use for all messages of a stream.
func receive[M any](recv func() (*M, error), use func(*M)) error {
	for {
		m, err := recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		use(m)
	}
}
