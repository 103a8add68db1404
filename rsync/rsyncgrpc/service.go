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
// for invalid options. Call [Service.Drain] before the server's GracefulStop, which waits for
// watches.
func Register(server grpc.ServiceRegistrar, engine Engine, options Options) (*Service, error) {
	if server == nil || engine == nil {
		return nil, fmt.Errorf("%w: rsyncgrpc.Register needs a server and an engine", rsync.ErrInvalidInput)
	}
	if err := options.validate(); err != nil {
		return nil, err
	}
	s, err := newService(engine, options.withDefaults())
	if err != nil {
		return nil, err
	}
	s.register(server)
	return &Service{s}, nil
}

// Drain ends all waits and watches, rejects later ones, and unregisters the metrics. A second call
// does nothing.
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

// newService returns a service with valid options.
func newService(engine Engine, options Options) (*service, error) {
	m, err := newMetrics(&options)
	if err != nil {
		return nil, err
	}
	s := &service{engine: engine, options: options, metrics: m, turns: turns.New(workBytes), long: turns.New(longAnswers)}
	s.stopping, s.drain = context.WithCancel(context.Background())
	return s, nil
}

func (s *service) register(server grpc.ServiceRegistrar) {
	server = requests{server, s}
	rsyncv1.RegisterEngineServer(server, s)
	if !s.options.WithoutEMCO {
		e := &emco{service: s, alerts: map[topic]map[*alert]struct{}{}}
		emcopb.RegisterInstallappServer(server, e)
		emcopb.RegisterUpdateappServer(server, e)
		emcopb.RegisterReadyNotifyServer(server, e)
	}
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

// ended returns errStopping in place of err if the service has ended.
func ended(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errStopping) {
		return errStopping
	}
	return err
}

// allowed is call after an authorization.
func (s *service) allowed(ctx context.Context, method string, verb Verb, id string, f func() error) error {
	return s.call(ctx, method, func() error {
		if err := s.authorize(ctx, verb, id); err != nil {
			return err
		}
		return f()
	})
}

// call runs a method with the metrics, errors and panics that all methods have in common.
func (s *service) call(ctx context.Context, method string, f func() error) (err error) {
	done := s.metrics.begin(method)
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
	return &rsyncv1.CreateResponse{}, s.call(ctx, "Create", func() error {
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
	return out, s.allowed(ctx, "GetAppContext", VerbRead, r.GetId(), func() error {
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

// readAppContext reads an app context in the client's turn, which lasts until end is called.
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
	return &rsyncv1.DeleteResponse{}, s.allowed(ctx, "Delete", VerbDelete, r.GetId(),
		func() error { return s.engine.Delete(ctx, r.GetId()) })
}

func (s *service) List(_ *rsyncv1.ListRequest, stream grpc.ServerStreamingServer[rsyncv1.ListResponse]) error {
	ctx := stream.Context()
	return s.allowed(ctx, "List", VerbList, "", func() error {
		all, err := s.engine.List(ctx)
		if err != nil {
			return err
		}
		for chunk := range slices.Chunk(all, listChunk) {
			if err := stream.Send(&rsyncv1.ListResponse{AppContexts: messagesOf(chunk, summaryMessage)}); err != nil {
				return errors.Join(context.Canceled, err) // the client has gone
			}
		}
		return nil
	})
}

func (s *service) Enqueue(ctx context.Context, r *rsyncv1.EnqueueRequest) (*rsyncv1.EnqueueResponse, error) {
	out := &rsyncv1.EnqueueResponse{}
	return out, s.call(ctx, "Enqueue", func() error {
		ref, err := s.enqueue(ctx, r)
		if err == nil {
			out.Ref = refMessage(&ref)
		}
		return err
	})
}

func (s *service) enqueue(ctx context.Context, r *rsyncv1.EnqueueRequest) (rsync.EventRef, error) {
	verb := eventVerbs[r.GetEvent()]
	if r.GetFromId() != "" && verb != VerbUpdate {
		return rsync.EventRef{}, fmt.Errorf("%w: from_id: only %s and %s have one, and the event is %q",
			rsync.ErrInvalidInput, rsync.Update, rollback, r.GetEvent())
	}
	if verb == "" {
		return rsync.EventRef{}, fmt.Errorf("%w: event %q: must be Instantiate, Terminate, Read, Update or Rollback",
			rsync.ErrInvalidInput, r.GetEvent())
	}
	if err := s.authorizeEvent(ctx, verb, r.GetFromId(), r.GetId()); err != nil {
		return rsync.EventRef{}, err
	}
	if r.GetRollout().GetRollbackOnFailure() && verb != VerbUpdate { // the rollback of an Instantiate is a Terminate
		if err := s.authorize(ctx, VerbTerminate, r.GetId()); err != nil {
			return rsync.EventRef{}, err
		}
	}
	option := rsync.CallOption{IdempotencyKey: r.GetIdempotencyKey(), Rollout: rolloutOf(r.GetRollout())}
	return s.queue(ctx, r.GetEvent(), r.GetFromId(), r.GetId(), option)
}

// rollback is the event of Enqueue for Rollback, which the engine queues as an Update.
const rollback = "Rollback"

// eventVerbs has the verb that each event needs for its app contexts.
var eventVerbs = map[string]Verb{
	string(rsync.Instantiate): VerbInstantiate, string(rsync.Terminate): VerbTerminate, string(rsync.Read): VerbRead,
	string(rsync.Update): VerbUpdate, rollback: VerbUpdate,
}

func (s *service) authorizeEvent(ctx context.Context, verb Verb, from, id string) error {
	if verb == VerbUpdate {
		return s.authorize(ctx, verb, from, id)
	}
	return s.authorize(ctx, verb, id)
}

// queue queues an event of eventVerbs.
func (s *service) queue(
	ctx context.Context, event, from, id string, options ...rsync.CallOption,
) (rsync.EventRef, error) {
	switch event {
	case string(rsync.Instantiate):
		return s.engine.Instantiate(ctx, id, options...)
	case string(rsync.Terminate):
		return s.engine.Terminate(ctx, id, options...)
	case string(rsync.Read):
		return s.engine.Read(ctx, id, options...)
	case rollback:
		return s.engine.Rollback(ctx, from, id, options...)
	}
	return s.engine.Update(ctx, from, id, options...)
}

func (s *service) Stop(ctx context.Context, r *rsyncv1.StopRequest) (*rsyncv1.StopResponse, error) {
	return &rsyncv1.StopResponse{}, s.allowed(ctx, "Stop", VerbStop, r.GetId(),
		func() error { return s.engine.Stop(ctx, r.GetId()) })
}

func (s *service) ClearStop(ctx context.Context, r *rsyncv1.ClearStopRequest) (*rsyncv1.ClearStopResponse, error) {
	return &rsyncv1.ClearStopResponse{}, s.allowed(ctx, "ClearStop", VerbStop, r.GetId(),
		func() error { return s.engine.ClearStop(ctx, r.GetId()) })
}

func (s *service) GetStatus(ctx context.Context, r *rsyncv1.GetStatusRequest) (*rsyncv1.GetStatusResponse, error) {
	out := &rsyncv1.GetStatusResponse{}
	return out, s.allowed(ctx, "GetStatus", VerbRead, r.GetId(), func() error {
		status, err := s.engine.Status(ctx, r.GetId())
		out.Status = statusMessage(status)
		return err
	})
}

func (s *service) Wait(ctx context.Context, r *rsyncv1.WaitRequest) (*rsyncv1.WaitResponse, error) {
	out := &rsyncv1.WaitResponse{}
	return out, s.allowed(ctx, "Wait", VerbRead, r.GetRef().GetId(), func() error {
		if r.GetRef() == nil {
			return fmt.Errorf("%w: ref: must be set", rsync.ErrInvalidInput)
		}
		ctx, cancel := s.during(ctx)
		defer cancel()
		status, err := s.engine.Wait(ctx, refOf(r.GetRef()))
		var failure *rsync.EventError
		if errors.As(err, &failure) {
			out.Failure = &rsyncv1.EventFailure{
				Ref: refMessage(&failure.Ref), Event: string(failure.Event), Status: string(failure.Status),
				Reason: string(failure.Reason), Message: failure.Message,
			}
			err = nil
		}
		out.Status = statusMessage(status)
		return ended(ctx, err)
	})
}
