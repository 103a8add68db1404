// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc/rsyncv1"
)

// Create stores a context: see [rsync.Engine.Create]. The server rejects a context that is larger
// than its MaxMessageBytes with codes.ResourceExhausted.
func (c *Client) Create(ctx context.Context, a *appcontext.AppContext) error {
	if err := appcontext.Validate(a); err != nil {
		if a == nil {
			return fmt.Errorf("%w: %w", rsync.ErrInvalidInput, err)
		}
		return err
	}
	if err := checkMeta(&a.Meta); err != nil {
		return err
	}
	request := &rsyncv1.CreateRequest{AppContext: appContextMessage(a)}
	maybe, err := c.retry(ctx, c.options.RetryTimeout, func() error {
		_, err := c.engine.Create(ctx, request)
		return err
	})
	if maybe && errors.Is(err, rsync.ErrConflict) && c.has(ctx, request.AppContext) {
		return nil // an earlier attempt succeeded without an answer
	}
	return err
}

// has reports whether the server has exactly this context.
func (c *Client) has(ctx context.Context, want *rsyncv1.AppContext) bool {
	have, err := c.AppContext(ctx, want.Id)
	return err == nil && proto.Equal(appContextMessage(have), want)
}

// AppContext returns a context as it was created: see [rsync.Engine.AppContext].
func (c *Client) AppContext(ctx context.Context, id string) (*appcontext.AppContext, error) {
	response, err := about(ctx, c, id, c.engine.GetAppContext, &rsyncv1.GetAppContextRequest{Id: id})
	if err != nil {
		return nil, err
	}
	return appContextOf(response.GetAppContext())
}

// Delete removes a context: see [rsync.Engine.Delete].
func (c *Client) Delete(ctx context.Context, id string) error {
	if err := checkText("the ID", id); err != nil {
		return err
	}
	maybe, err := c.retry(ctx, c.options.RetryTimeout, func() error {
		_, err := c.engine.Delete(ctx, &rsyncv1.DeleteRequest{Id: id})
		return err
	})
	if maybe && errors.Is(err, rsync.ErrNotFound) {
		return nil // an earlier attempt succeeded without an answer
	}
	return err
}

// List returns all contexts with their states: see [rsync.Engine.List].
func (c *Client) List(ctx context.Context) ([]rsync.Summary, error) {
	add := func(all []rsync.Summary, m *rsyncv1.ListResponse) []rsync.Summary {
		return append(all, valuesOf(m.GetAppContexts(), summaryOf)...)
	}
	return collect(ctx, c, &rsyncv1.ListRequest{}, add, c.engine.List)
}

// Instantiate queues an event: see [rsync.Engine.Instantiate]. Without an idempotency key of the
// caller it uses a random one, like all methods that queue an event.
func (c *Client) Instantiate(ctx context.Context, id string, options ...rsync.CallOption) (rsync.EventRef, error) {
	return c.enqueue(ctx, &rsyncv1.EnqueueRequest{Id: id, Event: string(rsync.Instantiate)}, options)
}

// Terminate queues an event: see [rsync.Engine.Terminate].
func (c *Client) Terminate(ctx context.Context, id string, options ...rsync.CallOption) (rsync.EventRef, error) {
	return c.enqueue(ctx, &rsyncv1.EnqueueRequest{Id: id, Event: string(rsync.Terminate)}, options)
}

// Read queues an event: see [rsync.Engine.Read].
func (c *Client) Read(ctx context.Context, id string, options ...rsync.CallOption) (rsync.EventRef, error) {
	return c.enqueue(ctx, &rsyncv1.EnqueueRequest{Id: id, Event: string(rsync.Read)}, options)
}

// Update queues an event: see [rsync.Engine.Update].
func (c *Client) Update(ctx context.Context, from, to string, options ...rsync.CallOption) (rsync.EventRef, error) {
	return c.enqueue(ctx, &rsyncv1.EnqueueRequest{Id: to, FromId: from, Event: string(rsync.Update)}, options)
}

// Rollback queues an event: see [rsync.Engine.Rollback].
func (c *Client) Rollback(ctx context.Context, from, to string, options ...rsync.CallOption) (rsync.EventRef, error) {
	return c.enqueue(ctx, &rsyncv1.EnqueueRequest{Id: to, FromId: from, Event: rollback}, options)
}

func (c *Client) enqueue(
	ctx context.Context, r *rsyncv1.EnqueueRequest, options []rsync.CallOption,
) (rsync.EventRef, error) {
	var rollout *rsync.Rollout
	for _, o := range options {
		r.IdempotencyKey = cmp.Or(o.IdempotencyKey, r.IdempotencyKey)
		rollout = cmp.Or(o.Rollout, rollout)
	}
	if r.IdempotencyKey == "" {
		r.IdempotencyKey = rand.Text()
	}
	if err := checkText("the ID or key", r.Id, r.FromId, r.IdempotencyKey); err != nil {
		return rsync.EventRef{}, err
	}
	if err := checkRollout(rollout); err != nil {
		return rsync.EventRef{}, err
	}
	r.Rollout = rolloutMessage(rollout)
	response, err := about(ctx, c, r.Id, c.engine.Enqueue, r)
	return refOf(response.GetRef()), err
}

// Stop stops a context: see [rsync.Engine.Stop].
func (c *Client) Stop(ctx context.Context, id string) error {
	_, err := about(ctx, c, id, c.engine.Stop, &rsyncv1.StopRequest{Id: id})
	return err
}

// ClearStop ends a Stop: see [rsync.Engine.ClearStop].
func (c *Client) ClearStop(ctx context.Context, id string) error {
	_, err := about(ctx, c, id, c.engine.ClearStop, &rsyncv1.ClearStopRequest{Id: id})
	return err
}

// Status returns the status of a context: see [rsync.Engine.Status].
func (c *Client) Status(ctx context.Context, id string) (*rsync.Status, error) {
	response, err := about(ctx, c, id, c.engine.GetStatus, &rsyncv1.GetStatusRequest{Id: id})
	return statusOf(response.GetStatus()), err
}

// Wait waits until an event has ended: see [rsync.Engine.Wait].
func (c *Client) Wait(ctx context.Context, ref rsync.EventRef) (*rsync.Status, error) {
	if err := checkText("the ID", ref.AppContextID); err != nil {
		return nil, err
	}
	var response *rsyncv1.WaitResponse
	_, err := c.retry(ctx, forever, func() (err error) {
		engine, release, err := c.waits.take()
		if err != nil {
			return err
		}
		defer release()
		response, err = engine.Wait(ctx, &rsyncv1.WaitRequest{Ref: refMessage(&ref)})
		return err
	})
	if err != nil && ctx.Err() != nil {
		return c.unfinished(ctx, ref, err)
	}
	if err != nil {
		return nil, err
	}
	if f := response.GetFailure(); f != nil {
		err = &rsync.EventError{
			Ref: refOf(f.GetRef()), Event: rsync.EventType(f.GetEvent()), Status: rsync.ElementStatus(f.GetStatus()),
			Reason: rsync.Reason(f.GetReason()), Message: f.GetMessage(),
		}
	}
	return statusOf(response.GetStatus()), err
}

// unfinishedGrace is the time for which Wait still reads the reasons after ctx has ended.
const unfinishedGrace = time.Second

// unfinished returns the result of a Wait whose ctx ended with err.
func (c *Client) unfinished(ctx context.Context, ref rsync.EventRef, err error) (*rsync.Status, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unfinishedGrace)
	defer cancel()
	unfinished := &rsync.UnfinishedError{Ref: ref, Err: err}
	status, _ := c.Status(ctx, ref.AppContextID)
	if status != nil {
		if element := status.Element(ref.Seq); element != nil {
			unfinished.Event, unfinished.Status = element.Event, element.Status
		}
		for _, s := range status.Clusters {
			if s.Seq == ref.Seq && s.Phase == rsync.PhaseRetrying {
				unfinished.Waiting = append(unfinished.Waiting, s)
			}
		}
	}
	if rollout, _ := c.RolloutStatus(ctx, ref); rollout != nil {
		unfinished.Rollout = rollout.Waiting
	}
	return status, unfinished
}
