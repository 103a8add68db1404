// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc/emcopb"
)

const emcoServer = "rsync"

var errUnsubscribed = errors.New("unsubscribed")

// emco implements EMCO's services.
type emco struct {
	emcopb.UnimplementedInstallappServer
	emcopb.UnimplementedUpdateappServer
	emcopb.UnimplementedReadyNotifyServer

	service *service

	mu     sync.Mutex
	alerts map[topic]map[*alert]struct{}
}

// topic identifies alerts: the name of the client and the app context.
type topic struct{ client, appContext string }

type alert struct{ end context.CancelCauseFunc }

// queue queues an event, or returns the reason. It returns an error only for a denied call.
func (e *emco) queue(ctx context.Context, method, event, from, id string) (ok bool, message string, err error) {
	err = e.service.call(ctx, method, func() error {
		err := e.prepare(ctx, eventVerbs[event], from, id)
		if errors.Is(err, ErrDenied) {
			return err
		}
		var ref rsync.EventRef
		if err == nil {
			ref, err = e.service.queue(ctx, event, from, id)
		}
		if err != nil {
			message = err.Error()
			return nil
		}
		ok, message = true, fmt.Sprintf("queued as event %d of app context %s", ref.Seq, ref.AppContextID)
		return nil
	})
	switch status.Code(err) {
	case codes.OK, codes.PermissionDenied:
		return ok, message, err
	}
	return false, errPanic.Error(), nil
}

// prepare imports the app context of an event, authorizes the event, and follows EMCO's stop.
func (e *emco) prepare(ctx context.Context, verb Verb, from, id string) error {
	importer := e.service.options.EMCOImporter
	if importer != nil && (verb == VerbInstantiate || verb == VerbUpdate) {
		if err := e.ensure(ctx, importer, verb, id); err != nil {
			return err
		}
	}
	if err := e.service.authorizeEvent(ctx, verb, from, id); err != nil || importer == nil {
		return err
	}
	return importer.FollowStop(ctx, id)
}

// ensure creates an app context that the importer has and the engine does not.
func (e *emco) ensure(ctx context.Context, importer Importer, verb Verb, id string) error {
	if _, err := e.service.engine.Status(ctx, id); !errors.Is(err, rsync.ErrNotFound) {
		return err
	}
	end, err := e.service.turns.Take(ctx, clientIn(ctx), workBytes)
	if err != nil {
		return err
	}
	defer end()
	c, err := importer.Import(ctx, id)
	switch {
	case errors.Is(err, rsync.ErrNotFound):
		return nil // the engine's error follows
	case err != nil:
		// The error has names of the app context. The authorizer may read it, which takes a turn.
		end()
		if denied := e.service.authorize(ctx, verb, id); errors.Is(denied, ErrDenied) {
			return denied
		}
		return err
	}
	if err := e.service.authorizeNew(ctx, verb, c); err != nil {
		return err
	}
	if err := e.service.engine.Create(ctx, c); !errors.Is(err, rsync.ErrConflict) {
		return err
	}
	return nil // another server has created it
}

// InstallApp implements EMCO's installapp.
func (e *emco) InstallApp(ctx context.Context, r *emcopb.InstallAppRequest) (*emcopb.InstallAppResponse, error) {
	ok, message, err := e.queue(ctx, "InstallApp", string(rsync.Instantiate), "", r.GetAppContext())
	return &emcopb.InstallAppResponse{AppContextInstalled: ok, AppContextInstallMessage: message}, err
}

// UninstallApp implements EMCO's installapp.
func (e *emco) UninstallApp(ctx context.Context, r *emcopb.UninstallAppRequest) (*emcopb.UninstallAppResponse, error) {
	ok, message, err := e.queue(ctx, "UninstallApp", string(rsync.Terminate), "", r.GetAppContext())
	return &emcopb.UninstallAppResponse{AppContextUninstalled: ok, AppContextUninstallMessage: message}, err
}

// ReadAppContext implements EMCO's installapp.
func (e *emco) ReadAppContext(
	ctx context.Context, r *emcopb.ReadAppContextRequest,
) (*emcopb.ReadAppContextResponse, error) {
	ok, message, err := e.queue(ctx, "ReadAppContext", string(rsync.Read), "", r.GetAppContext())
	return &emcopb.ReadAppContextResponse{AppContextReadSuccessful: ok, AppContextReadMessage: message}, err
}

// UpdateApp implements EMCO's updateapp.
func (e *emco) UpdateApp(ctx context.Context, r *emcopb.UpdateAppRequest) (*emcopb.UpdateAppResponse, error) {
	ok, message, err := e.queue(ctx, "UpdateApp", string(rsync.Update), r.GetUpdateFromAppContext(),
		r.GetUpdateToAppContext())
	return &emcopb.UpdateAppResponse{AppContextUpdated: ok, AppContextUpdateMessage: message}, err
}

// RollbackApp implements EMCO's updateapp.
func (e *emco) RollbackApp(ctx context.Context, r *emcopb.RollbackAppRequest) (*emcopb.RollbackAppResponse, error) {
	ok, message, err := e.queue(ctx, "RollbackApp", rollback, r.GetRollbackFromAppContext(), r.GetRollbackToAppContext())
	return &emcopb.RollbackAppResponse{AppContextRolledback: ok, AppContextRollbackMessage: message}, err
}

// Alert implements EMCO's readyNotify.
func (e *emco) Alert(r *emcopb.Topic, stream grpc.ServerStreamingServer[emcopb.Notification]) error {
	return e.service.allowed(stream.Context(), "Alert", VerbWatch, r.GetAppContext(), func() error {
		ctx, cancel := e.service.during(stream.Context())
		defer cancel()
		ctx, end := context.WithCancelCause(ctx)
		defer end(nil)
		defer e.subscribe(topic{r.GetClientName(), r.GetAppContext()}, &alert{end})()
		err := pump(ctx, e.service, e.notifications(ctx, r), stream.Send)
		if errors.Is(err, errUnsubscribed) {
			return nil
		}
		return err
	})
}

func (e *emco) notifications(ctx context.Context, t *emcopb.Topic) iter.Seq2[*emcopb.Notification, error] {
	return func(yield func(*emcopb.Notification, error) bool) {
		for change, err := range e.service.engine.Watch(ctx, t.GetAppContext(), 0) {
			if err != nil {
				yield(nil, err)
				return
			}
			c := change.Cluster
			if c == nil || c.Phase != rsync.PhaseDone || c.Event != rsync.Instantiate && c.Event != rsync.Update {
				continue
			}
			n := &emcopb.Notification{
				ClientName: t.GetClientName(), ServerName: emcoServer, AppContext: t.GetAppContext(), App: c.App,
				Cluster: c.Cluster.String(),
			}
			if !yield(n, nil) {
				return
			}
		}
	}
}

// subscribe registers an alert for Unsubscribe, until forget is called.
func (e *emco) subscribe(t topic, a *alert) (forget func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.alerts[t] == nil {
		e.alerts[t] = map[*alert]struct{}{}
	}
	e.alerts[t][a] = struct{}{}
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.alerts[t], a)
		if len(e.alerts[t]) == 0 {
			delete(e.alerts, t)
		}
	}
}

// Unsubscribe implements EMCO's readyNotify. Without an alert it does nothing.
func (e *emco) Unsubscribe(ctx context.Context, r *emcopb.Topic) (*emcopb.UnsubscribeResponse, error) {
	return &emcopb.UnsubscribeResponse{}, e.service.allowed(ctx, "Unsubscribe", VerbWatch, r.GetAppContext(),
		func() error {
			e.mu.Lock()
			defer e.mu.Unlock()
			for a := range e.alerts[topic{r.GetClientName(), r.GetAppContext()}] {
				a.end(errUnsubscribed)
			}
			return nil
		})
}
