// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"

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
	return pages(each(slices.Values(values), func(v V) P { return message(&v) }))
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

// deliver sends messages without a buffer. Each must be sent within WatchLag, because the client's
// turn lasts until all are sent.
func deliver[M any](ctx context.Context, s *service, messages iter.Seq[M], send func(M) error) error {
	withErrors := func(yield func(M, error) bool) {
		for m := range messages {
			if !yield(m, nil) {
				return
			}
		}
	}
	err := sendAll(ctx, 0, s.options.WatchLag, withErrors, send)
	if errors.Is(err, errSlow) {
		return errStalled
	}
	return err
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
