// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"errors"
	"time"

	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/internal/wait"
)

// stableAfter is how long a connection must last to reset the backoff. It slows down a client that
// is disconnected right after each connection, for example by another client with its client ID.
const stableAfter = time.Second

func (e *Engine) serve(ctx context.Context, conn cloudevents.Conn) {
	e.setConnected(conn.MaxPacketSize())
	e.logConnected(ctx)
	e.options.Handler.Connected(ctx)

	e.send(ctx, conn, func() bool { return false })
	if ctx.Err() != nil && e.options.DrainTimeout > 0 {
		e.drain(ctx, conn)
	}
	err, closeErr := conn.Err(), conn.Close()
	if ctx.Err() == nil {
		err = cmp.Or(err, closeErr, cloudevents.ErrConnectionLost)
	}
	e.outbox.disconnected()
	e.setDisconnected(err)
	e.options.Handler.Disconnected()
	if ctx.Err() == nil {
		e.logLost(ctx, err)
	}
}

// drain publishes the remaining items of LaneLive. ctx has ended; its values are kept for logging.
func (e *Engine) drain(ctx context.Context, conn cloudevents.Conn) {
	drainCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		_ = wait.Sleep(drainCtx, e.options.Clock, e.options.DrainTimeout)
		cancel()
	}()
	e.send(drainCtx, conn, e.outbox.drained)
	cancel()
	<-stopped
}

// send publishes from the outbox until the connection or ctx ends, or until enough returns true.
func (e *Engine) send(ctx context.Context, conn cloudevents.Conn, enough func() bool) {
	again := retries{clock: e.options.Clock}
	defer again.stop()
	for {
		if ctx.Err() != nil {
			return
		}
		if p, ok := e.outbox.next(); ok {
			if !e.publish(ctx, conn, p) {
				return
			}
			continue
		}
		if e.outbox.controlIdle() {
			e.setRefused(nil)
			e.readyOnce.Do(func() { close(e.ready) })
		}
		if enough() {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-conn.Done():
			return
		case <-e.outbox.wake:
		case <-again.due(e.outbox.hasPostponed()):
			again.stop()
			e.outbox.release()
		}
	}
}

func (e *Engine) publish(ctx context.Context, conn cloudevents.Conn, p publication) bool {
	m, err := p.item.Message()
	if err != nil {
		e.settle(ctx, p, unsendable, err)
		return true
	}
	if m.Event == nil {
		e.settle(ctx, p, acknowledged, nil)
		return true
	}
	e.outbox.sized(&p, len(m.Event.DataEncoded))
	if e.limiter != nil && e.limiter.Wait(ctx) != nil {
		e.settle(ctx, p, interrupted, cloudevents.ErrConnectionLost)
		return false
	}
	sent := e.metrics.sending(p.lane, p.item, m)
	err = conn.Publish(ctx, m, func(err error) {
		if err == nil {
			sent.acknowledged()
		}
		e.settle(ctx, p, outcomeOf(err), err)
	})
	switch {
	case err == nil:
		return true
	case ctx.Err() != nil, errors.Is(err, cloudevents.ErrConnectionLost), ended(conn):
		e.settle(ctx, p, interrupted, cloudevents.ErrConnectionLost)
		return false
	default: // only this message failed: the connection can publish the others
		e.settle(ctx, p, unsendable, err)
		return true
	}
}

func refusalReason(it Item, how outcome, ended bool, err error) string {
	switch {
	case how == postponed && required(it):
		return "a required request is refused: trying again"
	case how == postponed:
		return "refused for now: trying again"
	case !ended:
		return "refused: kept for the next connection"
	}
	return dropReason(how, err)
}

func ended(conn cloudevents.Conn) bool {
	select {
	case <-conn.Done():
		return true
	default:
		return false
	}
}

func outcomeOf(err error) outcome {
	var tooLarge *cloudevents.TooLargeError
	var temporary *cloudevents.TemporaryError
	switch {
	case err == nil:
		return acknowledged
	case errors.Is(err, cloudevents.ErrConnectionLost):
		return interrupted
	case errors.As(err, &tooLarge):
		return unsendable
	case errors.As(err, &temporary):
		return postponed
	}
	return refused
}

// settle records the end of a publication, and calls the item's Settled after the last one.
func (e *Engine) settle(ctx context.Context, p publication, how outcome, err error) {
	if p.lane == LaneControl && required(p.item) && how != acknowledged && how != interrupted {
		e.setRefused(err)
		if how == refused {
			how = postponed // access rules may change while the connection lasts
		}
	}
	end, log := e.outbox.settle(p, how)
	e.metrics.settled(how, end, err)
	if log {
		e.unsent.Error(e.logger(ctx), err, refusalReason(p.item, how, end, err), "")
	}
	if it, ok := p.item.(Refusable); ok && how == refused && p.lane == LaneLive {
		it.Refused(err)
	}
	if end {
		p.item.Settled(err)
	}
}

func (e *Engine) logger(ctx context.Context) klog.Logger {
	return klog.FromContext(ctx).WithValues("client", e.options.Name)
}
