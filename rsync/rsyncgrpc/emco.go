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

// emcoServer is the name of the server in notifications.
const emcoServer = "rsync"

var errUnsubscribed = errors.New("unsubscribed")

// emco implements EMCO's services. An answer reports whether the event is queued. The gRPC status
// is OK, except for a denied call.
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

// alert is one stream of a topic.
type alert struct{ end context.CancelCauseFunc }

func newEMCO(s *service) *emco { return &emco{service: s, alerts: map[topic]map[*alert]struct{}{}} }

// queue makes a call that queues an event, and returns its answer. Only a denied call returns an
// error. The event is queued for the app context with the last ID.
func (e *emco) queue(
	ctx context.Context, method string, verb Verb, ids []string, f func() (rsync.EventRef, error),
) (ok bool, message string, err error) {
	err = e.service.call(ctx, method, false, func() error {
		var err error
		if verb == VerbInstantiate || verb == VerbUpdate {
			err = e.ensure(ctx, verb, ids[len(ids)-1])
		}
		if err == nil {
			err = e.service.authorize(ctx, verb, ids...)
		}
		if importer := e.service.options.EMCOImporter; err == nil && importer != nil {
			err = importer.FollowStop(ctx, ids[len(ids)-1])
		}
		switch {
		case errors.Is(err, ErrDenied):
			return err
		case err != nil:
			message = err.Error()
			return nil
		}
		ref, err := f()
		switch {
		case err != nil:
			message = err.Error()
		default:
			ok, message = true, fmt.Sprintf("queued as event %d of app context %s", ref.Seq, ref.AppContextID)
		}
		return nil
	})
	switch status.Code(err) {
	case codes.OK, codes.PermissionDenied:
		return ok, message, err
	}
	return false, errPanic.Error(), nil
}

// ensure creates an app context that the importer has and the engine does not.
func (e *emco) ensure(ctx context.Context, verb Verb, id string) error {
	importer := e.service.options.EMCOImporter
	if importer == nil {
		return nil
	}
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
		// The error contains names of the app context. The authorizer may read the app context,
		// which takes a turn.
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
	ok, message, err := e.queue(ctx, "InstallApp", VerbInstantiate, []string{r.GetAppContext()},
		func() (rsync.EventRef, error) {
			return e.service.engine.Instantiate(ctx, r.GetAppContext())
		})
	return &emcopb.InstallAppResponse{AppContextInstalled: ok, AppContextInstallMessage: message}, err
}

// UninstallApp implements EMCO's installapp.
func (e *emco) UninstallApp(ctx context.Context, r *emcopb.UninstallAppRequest) (*emcopb.UninstallAppResponse, error) {
	ok, message, err := e.queue(ctx, "UninstallApp", VerbTerminate, []string{r.GetAppContext()},
		func() (rsync.EventRef, error) {
			return e.service.engine.Terminate(ctx, r.GetAppContext())
		})
	return &emcopb.UninstallAppResponse{AppContextUninstalled: ok, AppContextUninstallMessage: message}, err
}

// ReadAppContext implements EMCO's installapp.
func (e *emco) ReadAppContext(
	ctx context.Context, r *emcopb.ReadAppContextRequest,
) (*emcopb.ReadAppContextResponse, error) {
	ok, message, err := e.queue(ctx, "ReadAppContext", VerbRead, []string{r.GetAppContext()},
		func() (rsync.EventRef, error) {
			return e.service.engine.Read(ctx, r.GetAppContext())
		})
	return &emcopb.ReadAppContextResponse{AppContextReadSuccessful: ok, AppContextReadMessage: message}, err
}

// UpdateApp implements EMCO's updateapp.
func (e *emco) UpdateApp(ctx context.Context, r *emcopb.UpdateAppRequest) (*emcopb.UpdateAppResponse, error) {
	ok, message, err := e.queue(ctx, "UpdateApp", VerbUpdate,
		[]string{r.GetUpdateFromAppContext(), r.GetUpdateToAppContext()}, func() (rsync.EventRef, error) {
			return e.service.engine.Update(ctx, r.GetUpdateFromAppContext(), r.GetUpdateToAppContext())
		})
	return &emcopb.UpdateAppResponse{AppContextUpdated: ok, AppContextUpdateMessage: message}, err
}

// RollbackApp implements EMCO's updateapp.
func (e *emco) RollbackApp(ctx context.Context, r *emcopb.RollbackAppRequest) (*emcopb.RollbackAppResponse, error) {
	ok, message, err := e.queue(ctx, "RollbackApp", VerbUpdate,
		[]string{r.GetRollbackFromAppContext(), r.GetRollbackToAppContext()}, func() (rsync.EventRef, error) {
			return e.service.engine.Rollback(ctx, r.GetRollbackFromAppContext(), r.GetRollbackToAppContext())
		})
	return &emcopb.RollbackAppResponse{AppContextRolledback: ok, AppContextRollbackMessage: message}, err
}

// Alert implements EMCO's readyNotify.
func (e *emco) Alert(r *emcopb.Topic, stream grpc.ServerStreamingServer[emcopb.Notification]) error {
	return e.service.allowed(stream.Context(), "Alert", true, VerbWatch, r.GetAppContext(), func() error {
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

// notifications returns a notification for each app on each cluster where an Instantiate or an
// Update is done.
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
	return &emcopb.UnsubscribeResponse{}, e.service.allowed(ctx, "Unsubscribe", false, VerbWatch, r.GetAppContext(),
		func() error {
			e.mu.Lock()
			defer e.mu.Unlock()
			for a := range e.alerts[topic{r.GetClientName(), r.GetAppContext()}] {
				a.end(errUnsubscribed)
			}
			return nil
		})
}
