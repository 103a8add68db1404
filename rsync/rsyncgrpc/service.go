// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"google.golang.org/grpc"
	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/internal/turns"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc/emcopb"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc/rsyncv1"
)

// listChunk limits the contexts in a message of List.
const listChunk = 500

// Service has the gRPC services of an engine.
type Service struct{ service *service }

// Register adds the services to a gRPC server, before it serves. It returns rsync.ErrInvalidInput
// for invalid options. Call [Service.Drain] before the server's GracefulStop, which otherwise waits
// for watches that never end.
func Register(server grpc.ServiceRegistrar, engine Engine, options Options) (*Service, error) {
	s, err := register(server, engine, options)
	if err != nil {
		return nil, err
	}
	return &Service{s}, nil
}

// Drain ends all waits and watches, and rejects later ones, so clients connect to another server.
// It also unregisters the metrics. A second call does nothing.
func (s *Service) Drain() { s.service.end() }

// service implements the engine's gRPC service.
type service struct {
	rsyncv1.UnimplementedEngineServer

	engine   Engine
	options  Options
	metrics  *metrics
	turns    *turns.Turns
	long     *turns.Turns // turns of Diff and Detached, which may wait for clusters
	stopping context.Context
	drain    context.CancelFunc
}

func register(server grpc.ServiceRegistrar, engine Engine, options Options) (*service, error) {
	if server == nil || engine == nil {
		return nil, fmt.Errorf("%w: rsyncgrpc.Register needs a server and an engine", rsync.ErrInvalidInput)
	}
	if err := options.validate(); err != nil {
		return nil, err
	}
	s := &service{engine: engine, options: options.withDefaults(), turns: turns.New(workBytes),
		long: turns.New(longAnswers)}
	m, err := newMetrics(&s.options)
	if err != nil {
		return nil, err
	}
	s.metrics = m
	s.stopping, s.drain = context.WithCancel(context.Background())
	server = requests{server, s}
	rsyncv1.RegisterEngineServer(server, s)
	if !options.WithoutEMCO {
		e := newEMCO(s)
		emcopb.RegisterInstallappServer(server, e)
		emcopb.RegisterUpdateappServer(server, e)
		emcopb.RegisterReadyNotifyServer(server, e)
	}
	return s, nil
}

func (s *service) end() {
	s.drain()
	s.metrics.unregister()
}

// during returns a context that also ends when the service does, with errStopping as its cause.
func (s *service) during(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.stopping, func() { cancel(errStopping) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// ended returns the error of a call that lasts until its context ends. It returns errStopping if
// the service has ended.
func ended(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errStopping) {
		return errStopping
	}
	return err
}

// allowed is call after an authorization.
func (s *service) allowed(ctx context.Context, method string, waits bool, verb Verb, id string, f func() error) error {
	return s.call(ctx, method, waits, func() error {
		if err := s.authorize(ctx, verb, id); err != nil {
			return err
		}
		return f()
	})
}

// call runs a method with the metrics, errors and panics that all methods have in common.
func (s *service) call(ctx context.Context, method string, waits bool, f func() error) (err error) {
	done := s.metrics.begin(method, waits)
	defer func() {
		if p := recover(); p != nil {
			klog.FromContext(ctx).Error(errPanic, "Recovered from a panic in a call", "method", method, "panic",
				fmt.Sprint(p), "stack", string(debug.Stack()))
			err = errPanic
		}
		if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("%w: %s", errStore, err.Error()) // the exceeded deadline was not the call's
		}
		err = toStatus(err)
		done(err)
	}()
	return f()
}

func (s *service) Create(ctx context.Context, r *rsyncv1.CreateRequest) (*rsyncv1.CreateResponse, error) {
	return &rsyncv1.CreateResponse{}, s.call(ctx, "Create", false, func() error {
		c, err := appContextOf(r.GetAppContext())
		if err != nil {
			return err
		}
		if err := s.authorizeNew(ctx, VerbCreate, c); err != nil {
			return err
		}
		if err = s.engine.Create(ctx, c); errors.Is(err, rsync.ErrConflict) {
			return &existsError{err}
		}
		return err
	})
}

func (s *service) GetAppContext(
	ctx context.Context, r *rsyncv1.GetAppContextRequest,
) (*rsyncv1.GetAppContextResponse, error) {
	out := &rsyncv1.GetAppContextResponse{}
	return out, s.allowed(ctx, "GetAppContext", false, VerbRead, r.GetId(), func() error {
		c, end, err := s.readAppContext(ctx, r.GetId())
		if err != nil {
			return err
		}
		if grpc.ServerTransportStreamFromContext(ctx) == nil {
			defer end()
		} else { // gRPC ends ctx after it has encoded the answer, which then counts for MaxCallBytes
			context.AfterFunc(ctx, end)
		}
		out.AppContext = appContextMessage(c)
		return nil
	})
}

// readAppContext reads an app context after it has waited for the client's turn. The turn lasts
// until end is called.
func (s *service) readAppContext(ctx context.Context, id string) (c *appcontext.AppContext, end func(), err error) {
	end, err = s.turns.Take(ctx, clientIn(ctx), readBytes)
	if err != nil {
		return nil, nil, err
	}
	if c, err = s.engine.AppContext(ctx, id); err != nil {
		end()
	}
	return c, end, err
}

func (s *service) Delete(ctx context.Context, r *rsyncv1.DeleteRequest) (*rsyncv1.DeleteResponse, error) {
	return &rsyncv1.DeleteResponse{}, s.allowed(ctx, "Delete", false, VerbDelete, r.GetId(),
		func() error { return s.engine.Delete(ctx, r.GetId()) })
}

func (s *service) List(_ *rsyncv1.ListRequest, stream grpc.ServerStreamingServer[rsyncv1.ListResponse]) error {
	ctx := stream.Context()
	return s.allowed(ctx, "List", false, VerbList, "", func() error {
		all, err := s.engine.List(ctx)
		if err != nil {
			return err
		}
		for chunk := range slices.Chunk(all, listChunk) {
			out := &rsyncv1.ListResponse{}
			for _, summary := range chunk {
				out.AppContexts = append(out.AppContexts, &rsyncv1.Summary{
					Id: summary.ID, State: string(summary.State),
				})
			}
			if err := stream.Send(out); err != nil {
				return errors.Join(context.Canceled, err) // the client has gone
			}
		}
		return nil
	})
}

func (s *service) Enqueue(ctx context.Context, r *rsyncv1.EnqueueRequest) (*rsyncv1.EnqueueResponse, error) {
	out := &rsyncv1.EnqueueResponse{}
	return out, s.call(ctx, "Enqueue", false, func() error {
		ref, err := s.enqueue(ctx, r)
		if err == nil {
			out.Ref = refMessage(ref)
		}
		return err
	})
}

func (s *service) enqueue(ctx context.Context, r *rsyncv1.EnqueueRequest) (rsync.EventRef, error) {
	options := []rsync.CallOption{rsync.IdempotencyKey(r.GetIdempotencyKey())}
	if rollout := rolloutOf(r.GetRollout()); rollout != nil {
		options = append(options, rsync.WithRollout(*rollout))
	}
	update := r.GetEvent() == string(rsync.Update) || r.GetEvent() == rollback
	if r.GetFromId() != "" && !update {
		return rsync.EventRef{}, fmt.Errorf("%w: from_id: only %s and %s have one, and the event is %q",
			rsync.ErrInvalidInput, rsync.Update, rollback, r.GetEvent())
	}
	queue := func(verb Verb, f func(context.Context, string, ...rsync.CallOption) (rsync.EventRef,
		error)) (rsync.EventRef, error) {
		if err := s.authorize(ctx, verb, r.GetId()); err != nil {
			return rsync.EventRef{}, err
		}
		if r.GetRollout().GetRollbackOnFailure() { // of an Instantiate: the rollback is a Terminate
			if err := s.authorize(ctx, VerbTerminate, r.GetId()); err != nil {
				return rsync.EventRef{}, err
			}
		}
		return f(ctx, r.GetId(), options...)
	}
	lead := func(f func(context.Context, string, string, ...rsync.CallOption) (rsync.EventRef, error)) (rsync.EventRef,
		error) {
		if err := s.authorize(ctx, VerbUpdate, r.GetFromId(), r.GetId()); err != nil {
			return rsync.EventRef{}, err
		}
		return f(ctx, r.GetFromId(), r.GetId(), options...)
	}
	switch r.GetEvent() {
	case string(rsync.Instantiate):
		return queue(VerbInstantiate, s.engine.Instantiate)
	case string(rsync.Terminate):
		return queue(VerbTerminate, s.engine.Terminate)
	case string(rsync.Read):
		return queue(VerbRead, s.engine.Read)
	case string(rsync.Update):
		return lead(s.engine.Update)
	case rollback:
		return lead(s.engine.Rollback)
	}
	return rsync.EventRef{}, fmt.Errorf("%w: event %q: must be Instantiate, Terminate, Read, Update or Rollback",
		rsync.ErrInvalidInput, r.GetEvent())
}

// rollback is the event of Enqueue for Rollback, which the engine queues as an Update.
const rollback = "Rollback"

func (s *service) Stop(ctx context.Context, r *rsyncv1.StopRequest) (*rsyncv1.StopResponse, error) {
	return &rsyncv1.StopResponse{}, s.allowed(ctx, "Stop", false, VerbStop, r.GetId(),
		func() error { return s.engine.Stop(ctx, r.GetId()) })
}

func (s *service) ClearStop(ctx context.Context, r *rsyncv1.ClearStopRequest) (*rsyncv1.ClearStopResponse, error) {
	return &rsyncv1.ClearStopResponse{}, s.allowed(ctx, "ClearStop", false, VerbStop, r.GetId(),
		func() error { return s.engine.ClearStop(ctx, r.GetId()) })
}

func (s *service) GetStatus(ctx context.Context, r *rsyncv1.GetStatusRequest) (*rsyncv1.GetStatusResponse, error) {
	out := &rsyncv1.GetStatusResponse{}
	return out, s.allowed(ctx, "GetStatus", false, VerbRead, r.GetId(), func() error {
		status, err := s.engine.Status(ctx, r.GetId())
		out.Status = statusMessage(status)
		return err
	})
}

func (s *service) Wait(ctx context.Context, r *rsyncv1.WaitRequest) (*rsyncv1.WaitResponse, error) {
	out := &rsyncv1.WaitResponse{}
	return out, s.allowed(ctx, "Wait", true, VerbRead, r.GetRef().GetId(), func() error {
		if r.GetRef() == nil {
			return fmt.Errorf("%w: ref: must be set", rsync.ErrInvalidInput)
		}
		ctx, cancel := s.during(ctx)
		defer cancel()
		status, err := s.engine.Wait(ctx, refOf(r.GetRef()))
		var failure *rsync.EventError
		if errors.As(err, &failure) {
			out.Failure = &rsyncv1.EventFailure{
				Ref: refMessage(failure.Ref), Event: string(failure.Event), Status: string(failure.Status),
				Reason: string(failure.Reason), Message: failure.Message,
			}
			err = nil
		}
		out.Status = statusMessage(status)
		return ended(ctx, err)
	})
}
