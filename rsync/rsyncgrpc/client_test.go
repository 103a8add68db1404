// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc"
	"github.com/spokewire/sdk-go/rsync/store"
)

// same compares the results of a client and its engine.
func same(t *testing.T, what string, remote, local any, remoteErr, localErr error) {
	t.Helper()
	if diff := cmp.Diff(local, remote, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s: the client has something else (-engine +client):\n%s", what, diff)
	}
	if fmt.Sprint(remoteErr) != fmt.Sprint(localErr) {
		t.Errorf("%s: the client's error is %v, the engine's %v", what, remoteErr, localErr)
	}
}

// TestClientIsAnEngine: each method of a client has the same effect and result as the method of the
// engine, over the whole life of contexts.
func TestClientIsAnEngine(t *testing.T) {
	s, client := remote(t, rsyncgrpc.ServerOptions{})
	ctx := limited(t)
	b := appcontext.NewBuilder("full").Meta(appcontext.Meta{Project: "p", ChildContextIDs: []string{"x", "y"},
		LogicalCloudLevel: "0"})
	policies := []appcontext.HookDeletePolicy{appcontext.HookDeletePolicyBeforeCreation, appcontext.HookDeletePolicyFailed}
	b.App("db").Add("edge", "c1",
		appcontext.Resource{Hook: appcontext.HookPreInstall, Wave: -2, DeletePolicies: policies,
			Manifest: configMap("hook", "1")})
	b.App("db").Add("edge", "c1",
		appcontext.Resource{Wave: 1 << 30, Manifest: configMap("later", "1")}).Resource("edge", "c1",
		[]byte("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: db}\n# as it was written"))
	b.App("web").DependsOn("db", appcontext.OpStatusReady, 5*time.Millisecond).Resource("edge", "c1",
		configMap("web", "1")).Cluster("core", "empty")
	full := must[*appcontext.AppContext](t)(b.Build())
	check(t, client.Create(ctx, full))
	check(t, client.Create(ctx, shop(t, "next", "2", "c1")))

	remoteContext, remoteErr := client.AppContext(ctx, "full")
	localContext, localErr := s.engine.AppContext(ctx, "full")
	same(t, "AppContext", remoteContext, localContext, remoteErr, localErr)
	same(t, "AppContext as created", remoteContext, full, remoteErr, nil)

	ref := must[rsync.EventRef](t)(client.Instantiate(ctx, "full"))
	remoteStatus, remoteErr := client.Wait(ctx, ref)
	localStatus, localErr := s.engine.Wait(ctx, ref)
	same(t, "Wait", remoteStatus, localStatus, remoteErr, localErr)
	if remoteStatus.State != rsync.Instantiated || len(remoteStatus.Clusters) != 3 ||
		remoteStatus.Queue[0].Finished.IsZero() {
		t.Errorf("after Instantiate: %+v", remoteStatus)
	}
	for _, step := range []func() (rsync.EventRef, error){
		func() (rsync.EventRef, error) { return client.Read(ctx, "full") },
		func() (rsync.EventRef, error) {
			return client.Update(ctx, "full", "next", rsync.IdempotencyKey("mine"))
		},
		func() (rsync.EventRef, error) { return client.Rollback(ctx, "next", "full") },
		func() (rsync.EventRef, error) { return client.Terminate(ctx, "full") },
	} {
		ref := must[rsync.EventRef](t)(step())
		must[*rsync.Status](t)(client.Wait(ctx, ref))
		for _, id := range []string{"full", "next"} {
			remoteStatus, remoteErr := client.Status(ctx, id)
			localStatus, localErr := s.engine.Status(ctx, id)
			same(t, "Status", remoteStatus, localStatus, remoteErr, localErr)
		}
	}
	if status := must[*rsync.Status](t)(client.Status(ctx, "next")); status.Queue[0].IdempotencyKey != "mine" ||
		status.Queue[0].UCID != "full" || status.Queue[0].Next == nil {
		t.Errorf("the update: %+v", status.Queue[0])
	}
	remoteList, remoteErr := client.List(ctx)
	localList, localErr := s.engine.List(ctx)
	same(t, "List", remoteList, localList, remoteErr, localErr)
	check(t, client.Stop(ctx, "full"))
	if status := must[*rsync.Status](t)(client.Status(ctx, "full")); !status.Stopped {
		t.Error("Stop did not")
	}
	check(t, client.ClearStop(ctx, "full"))
	check(t, client.Delete(ctx, "full"))
	if _, err := s.engine.Status(ctx, "full"); !errors.Is(err, rsync.ErrNotFound) {
		t.Errorf("after Delete: %v", err)
	}
}

// TestLongList: a list that needs several messages arrives complete.
func TestLongList(t *testing.T) {
	s, client := remote(t, rsyncgrpc.ServerOptions{})
	ctx := limited(t)
	for i := range 1234 {
		check(t, s.engine.Create(ctx, shop(t, fmt.Sprintf("c%04d", i), "x")))
	}
	all := must[[]rsync.Summary](t)(client.List(ctx))
	if len(all) != 1234 ||
		!slices.IsSortedFunc(all, func(a, b rsync.Summary) int { return strings.Compare(a.ID, b.ID) }) ||
		all[1233].State != rsync.Created {
		t.Errorf("%d contexts, the last is %+v", len(all), all[len(all)-1])
	}
}

// TestErrors: each error of the engine is the same for a client: its text, and for errors.Is and
// errors.As.
func TestErrors(t *testing.T) {
	s, client := remote(t, rsyncgrpc.ServerOptions{})
	ctx := limited(t)
	check(t, s.engine.Create(ctx, shop(t, "here", "1", "c1")))
	check(t, s.engine.Create(ctx, shop(t, "stopped", "1", "c1")))
	check(t, s.engine.Stop(ctx, "stopped"))
	must[*rsync.Status](t)(
		s.engine.Wait(ctx, must[rsync.EventRef](t)(s.engine.Instantiate(ctx, "here", rsync.IdempotencyKey("mine")))))
	first := func(e rsyncgrpc.Engine, id string, from int64) error {
		for _, err := range e.Watch(ctx, id, from) {
			return err
		}
		return nil
	}
	for _, tt := range []struct {
		reason string
		call   func(rsyncgrpc.Engine) error
		want   error
	}{
		{"no such context: status", func(e rsyncgrpc.Engine) error { _, err := e.Status(ctx, "none"); return err },
			rsync.ErrNotFound},
		{"no such context: get", func(e rsyncgrpc.Engine) error { _, err := e.AppContext(ctx, "none"); return err },
			rsync.ErrNotFound},
		{"no such context: event", func(e rsyncgrpc.Engine) error { _, err := e.Instantiate(ctx, "none"); return err },
			rsync.ErrNotFound},
		{"no such context: from", func(e rsyncgrpc.Engine) error { _, err := e.Update(ctx, "none", "here"); return err },
			rsync.ErrNotFound},
		{"no such context: delete", func(e rsyncgrpc.Engine) error { return e.Delete(ctx, "none") }, rsync.ErrNotFound},
		{"no such context: stop", func(e rsyncgrpc.Engine) error { return e.Stop(ctx, "none") }, rsync.ErrNotFound},
		{"no such context: clear", func(e rsyncgrpc.Engine) error { return e.ClearStop(ctx, "none") }, rsync.ErrNotFound},
		{"no such context: watch", func(e rsyncgrpc.Engine) error { return first(e, "none", 0) }, rsync.ErrNotFound},
		{"no such event", func(e rsyncgrpc.Engine) error {
			_, err := e.Wait(ctx, rsync.EventRef{AppContextID: "here", Seq: 99})
			return err
		}, rsync.ErrNotFound},
		{"a bad ID", func(e rsyncgrpc.Engine) error { _, err := e.Status(ctx, "a/b"); return err }, rsync.ErrInvalidInput},
		{"a bad ID: list of events", func(e rsyncgrpc.Engine) error { _, err := e.Read(ctx, ""); return err },
			rsync.ErrInvalidInput},
		{"a bad ID: wait", func(e rsyncgrpc.Engine) error { _, err := e.Wait(ctx, rsync.EventRef{}); return err },
			rsync.ErrInvalidInput},
		{"a key that is too long", func(e rsyncgrpc.Engine) error {
			_, err := e.Terminate(ctx, "here", rsync.IdempotencyKey(strings.Repeat("k", 300)))
			return err
		}, rsync.ErrInvalidInput},
		{"a key of another call", func(e rsyncgrpc.Engine) error {
			_, err := e.Terminate(ctx, "here", rsync.IdempotencyKey("mine"))
			return err
		}, rsync.ErrInvalidInput},
		{"from and to are one", func(e rsyncgrpc.Engine) error { _, err := e.Rollback(ctx, "here", "here"); return err },
			rsync.ErrInvalidInput},
		{"there is one", func(e rsyncgrpc.Engine) error { return e.Create(ctx, shop(t, "here", "other", "c1")) },
			rsync.ErrConflict},
		{"its objects are out there", func(e rsyncgrpc.Engine) error { return e.Delete(ctx, "here") }, rsync.ErrInvalidState},
		{"it is stopped", func(e rsyncgrpc.Engine) error { _, err := e.Terminate(ctx, "stopped"); return err },
			rsync.ErrStopped},
		{"a context that is not valid",
			func(e rsyncgrpc.Engine) error { return e.Create(ctx, &appcontext.AppContext{ID: "a b"}) }, appcontext.ErrInvalid},
		{"no app context", func(e rsyncgrpc.Engine) error { return e.Create(ctx, nil) }, appcontext.ErrInvalid},
		{"no app context: input", func(e rsyncgrpc.Engine) error { return e.Create(ctx, nil) }, rsync.ErrInvalidInput},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			remote, local := tt.call(client), tt.call(s.engine)
			if !errors.Is(local, tt.want) || !errors.Is(remote, tt.want) || remote.Error() != local.Error() {
				t.Errorf("the client has %v, the engine %v; want %v", remote, local, tt.want)
			}
		})
	}
	t.Run("an event that the state does not allow", func(t *testing.T) {
		_, err := client.Wait(ctx, must[rsync.EventRef](t)(client.Update(ctx, "stopped", "here")))
		var failure *rsync.EventError
		if !errors.As(err, &failure) || failure.Reason != rsync.ReasonInvalidState || failure.Ref.Seq != 2 ||
			!errors.Is(err, rsync.ErrInvalidState) {
			t.Errorf("%v", err)
		}
		_, local := s.engine.Wait(ctx, rsync.EventRef{AppContextID: "here", Seq: 2})
		same(t, "Wait", nil, nil, err, local)
	})
	t.Run("a revision that is too long ago", func(t *testing.T) {
		s.store.Compact()
		if err := first(client, "here", 1); !errors.Is(err, store.ErrCompacted) {
			t.Errorf("%v", err)
		}
	})
	t.Run("a revision that the store has not reached", func(t *testing.T) {
		if err := first(client, "here", 1<<40); !errors.Is(err, store.ErrCompacted) ||
			!strings.Contains(err.Error(), "is in the future") {
			t.Errorf("%v", err)
		}
	})
	t.Run("a negative revision", func(t *testing.T) {
		if err := first(client, "here", -1); !errors.Is(err, rsync.ErrInvalidInput) {
			t.Errorf("%v", err)
		}
	})
	t.Run("a context that was deleted long ago", func(t *testing.T) {
		if err := first(client, "none", 1<<40); !errors.Is(err, rsync.ErrNotFound) {
			t.Errorf("%v", err)
		}
	})
	t.Run("text that a message cannot have", func(t *testing.T) {
		bad := "a\xff"
		_, status := client.Status(ctx, bad)
		_, wait := client.Wait(ctx, rsync.EventRef{AppContextID: bad})
		_, queue := client.Instantiate(ctx, "here", rsync.IdempotencyKey(bad))
		c := shop(t, "meta", "1")
		c.Meta.Project = bad
		for _, err := range []error{status, wait, queue, client.Delete(ctx, bad), first(client, bad, 0),
			client.Create(ctx, c), client.Create(ctx, nil)} {
			if !errors.Is(err, rsync.ErrInvalidInput) {
				t.Errorf("%v, want ErrInvalidInput", err)
			}
		}
	})
}

// TestUnavailable: a call to a missing server returns ErrUnavailable after RetryTimeout, or at the
// end of its context.
func TestUnavailable(t *testing.T) {
	client := dial(t, "127.0.0.1:1", rsyncgrpc.ClientOptions{RetryTimeout: -1})
	if _, err := client.Status(t.Context(), "a"); !errors.Is(err, rsyncgrpc.ErrUnavailable) ||
		!strings.Contains(err.Error(), "refused") {
		t.Errorf("%v, want ErrUnavailable and why", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	patient := dial(t, "127.0.0.1:1", rsyncgrpc.ClientOptions{})
	if _, err := patient.Wait(ctx, rsync.EventRef{AppContextID: "a", Seq: 1}); !errors.Is(err, context.DeadlineExceeded) ||
		!errors.Is(err, rsyncgrpc.ErrUnavailable) {
		t.Errorf("%v, want the end of the context, and why it lasted", err)
	}
	for change, err := range patient.Watch(ctx, "a", 0) {
		t.Errorf("a watch of a server that is not there has %+v, %v", change, err)
	}
	check(t, client.Close())
	if _, err := client.Status(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), "closing") {
		t.Errorf("after Close: %v", err)
	}
}

// TestDeadlines: the deadline of a client ends the call on the server. The error is the error of
// the context.
func TestDeadlines(t *testing.T) {
	s, client := remote(t, rsyncgrpc.ServerOptions{})
	check(t, s.engine.Create(t.Context(), shop(t, "a", "1", "c1")))
	s.clusters.Cluster("edge", "c1").SetMode(fake.ModeBlackHole)
	ref := must[rsync.EventRef](t)(client.Instantiate(t.Context(), "a"))
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := client.Wait(ctx, ref); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want DeadlineExceeded", err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client.Status(cancelled, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want Canceled", err)
	}
	for name, e := range map[string]rsyncgrpc.Engine{"client": client, "engine": s.engine} {
		for change, err := range e.Watch(cancelled, "a", 0) {
			t.Errorf("%s: a watch whose context has ended has %+v, %v", name, change, err)
		}
	}
	s.clusters.Cluster("edge", "c1").SetMode(fake.ModeWorks)
}
