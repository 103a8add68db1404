// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

// TestErrorTexts compares errors with their exact texts.
func TestErrorTexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		ctx := t.Context()
		s.create("v1", "web@c1 x=1")
		s.create("v2", "web@c1 x=2")
		s.done(s.engine.Instantiate(ctx, "v1"))
		ignore := func(_ any, err error) error { return err }
		_, update := s.engine.Wait(ctx, s.ref(s.engine.Update(ctx, "v2", "v1")))

		idle, err := rsync.New(memstore.New(memstore.Options{}), s.clusters, rsync.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := idle.Create(ctx, parse(t, "v1", "web@c1 x=1")); err != nil {
			t.Fatal(err)
		}
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, wait := idle.Wait(short, s.ref(idle.Instantiate(ctx, "v1")))
		if !errors.Is(wait, context.DeadlineExceeded) {
			t.Errorf("Wait returned %v", wait)
		}
		for _, test := range []struct {
			name string
			err  error
			want string
		}{
			{"an empty ID", ignore(s.engine.Instantiate(ctx, "")),
				`invalid input: ID "": must be 1 to 253 bytes of letters, digits and . _ - : @ +`},
			{"an ID that exists", s.engine.Create(ctx, parse(t, "v1", "web@c1 x=3")),
				`app context "v1" exists: use a new ID for each version, or call Delete first: ` +
					"the app context already exists, or was changed at the same time"},
			{"a difference in the wrong direction", ignore(s.engine.Diff(ctx, rsync.Update, "v1", "v2")),
				`the update is from app context "v2", which is Created: must be one of [Instantiated ` +
					"InstantiateFailed UpdateFailed]: the state of the app context does not allow this"},
			{"an update in the wrong direction", update,
				`Update of app context v1 (event 2): Error, InvalidState: the update is from app context "v2", ` +
					"which is Created: must be one of [Instantiated InstantiateFailed UpdateFailed]"},
			{"a wait without a start", wait, "this engine is not started: context deadline exceeded: " +
				`Instantiate of app context "v1" (event 1) is Pending`},
		} {
			if test.err == nil || test.err.Error() != test.want {
				t.Errorf("%s:\ngot  %v\nwant %s", test.name, test.err, test.want)
			}
		}
	})
}

// TestInvalidInput: each invalid call returns its error and writes nothing.
func TestInvalidInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := memstore.New(memstore.Options{MaxTxnBytes: 10_000})
		s := newScene(t, memory, rsync.Options{})
		ctx := t.Context()
		s.create("a", "web@c1 x=1")
		s.create("stopped", "web@c1 x=1")
		if err := s.engine.Stop(ctx, "stopped"); err != nil {
			t.Fatal(err)
		}
		large := appcontext.NewBuilder("large")
		large.App("web").Resource("edge", "c1", manifest("ConfigMap", "x", "1")).
			Resource("edge", "c1", append(manifest("ConfigMap", "z", "1"), "#"+strings.Repeat("x", 10_000)...))
		tooLarge, err := large.Build()
		if err != nil {
			t.Fatal(err)
		}
		ref := func(_ rsync.EventRef, err error) error { return err }
		synctest.Wait()
		keys := memory.Len()
		for name, test := range map[string]struct {
			got, want error
		}{
			"a cycle": {s.engine.Create(ctx, &appcontext.AppContext{ID: "cycle", Apps: []appcontext.App{
				{Name: "a", DependsOn: []appcontext.Dependency{{App: "a", Status: appcontext.OpStatusReady}}}}}),
				appcontext.ErrInvalid},
			"no ID":                   {s.engine.Create(ctx, &appcontext.AppContext{}), appcontext.ErrInvalid},
			"an ID that exists":       {s.engine.Create(ctx, parse(t, "a", "web@c1 x=2")), rsync.ErrConflict},
			"a value over the limit":  {s.engine.Create(ctx, tooLarge), store.ErrTooLarge},
			"instantiate what is not": {ref(s.engine.Instantiate(ctx, "b")), rsync.ErrNotFound},
			"terminate what is not":   {ref(s.engine.Terminate(ctx, "b")), rsync.ErrNotFound},
			"read what is not":        {ref(s.engine.Read(ctx, "b")), rsync.ErrNotFound},
			"update to what is not":   {ref(s.engine.Update(ctx, "a", "b")), rsync.ErrNotFound},
			"update from what is not": {ref(s.engine.Update(ctx, "b", "a")), rsync.ErrNotFound},
			"update to itself":        {ref(s.engine.Update(ctx, "a", "a")), rsync.ErrInvalidInput},
			"an ID with a slash":      {ref(s.engine.Instantiate(ctx, "a/state")), rsync.ErrInvalidInput},
			"an empty ID":             {ref(s.engine.Instantiate(ctx, "")), rsync.ErrInvalidInput},
			"a key that is too long": {ref(s.engine.Read(ctx, "a", rsync.IdempotencyKey(strings.Repeat("k", 300)))),
				rsync.ErrInvalidInput},
			"a stopped context":     {ref(s.engine.Instantiate(ctx, "stopped")), rsync.ErrStopped},
			"read of a stopped one": {ref(s.engine.Read(ctx, "stopped")), rsync.ErrStopped},
			"stop what is not":      {s.engine.Stop(ctx, "b"), rsync.ErrNotFound},
			"clear what is not":     {s.engine.ClearStop(ctx, "b"), rsync.ErrNotFound},
			"delete what is not":    {s.engine.Delete(ctx, "b"), rsync.ErrNotFound},
			"wait for what is not": {func() error {
				_,
					err := s.engine.Wait(ctx, rsync.EventRef{AppContextID: "a", Seq: 7})
				return err
			}(), rsync.ErrNotFound},
			"the status of what is not": {func() error { _, err := s.engine.Status(ctx, "b"); return err }(), rsync.ErrNotFound},
			"start a second time":       {s.engine.Start(ctx), rsync.ErrInvalidInput},
		} {
			if !errors.Is(test.got, test.want) {
				t.Errorf("%s: got %v, want %v", name, test.got, test.want)
			}
		}
		for _, err := range s.engine.Watch(ctx, "b", 0) {
			if !errors.Is(err, rsync.ErrNotFound) {
				t.Errorf("watch what is not: %v", err)
			}
		}
		if memory.Len() != keys {
			t.Errorf("there were %d keys and are %d", keys, memory.Len())
		}
		s.done(s.engine.Instantiate(ctx, "a"))
		if err := s.engine.Delete(ctx, "a"); !errors.Is(err, rsync.ErrInvalidState) {
			t.Errorf("delete what is instantiated: %v", err)
		}
	})
}

// TestIdempotencyKey: a call that is repeated with its key queues no second event.
func TestIdempotencyKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{HistoryLimit: 3})
		s.create("a", "web@c1 x=1")
		key := rsync.IdempotencyKey("a key/with a slash")
		first := s.ref(s.engine.Instantiate(t.Context(), "a", key))
		if again := s.ref(s.engine.Instantiate(t.Context(), "a", key)); again != first {
			t.Errorf("%v and then %v", first, again)
		}
		s.done(first, nil)
		if again := s.ref(s.engine.Instantiate(t.Context(), "a", key)); again != first {
			t.Errorf("%v and, when it is done, %v", first, again)
		}
		for range 10 {
			s.done(s.engine.Read(t.Context(), "a"))
		}
		if again := s.ref(s.engine.Instantiate(t.Context(), "a", key)); again == first {
			t.Error("the history has forgotten the event but not its key")
		} else {
			s.done(again, nil)
		}
		status, err := s.engine.Status(t.Context(), "a")
		if err != nil || len(status.Queue) != 3 {
			t.Errorf("the history has %d elements: %v", len(status.Queue), err)
		}
	})
}

// TestIdempotencyKeyOfAnotherCall: a call with the key of a different call is rejected, and queues
// nothing. Otherwise the caller of Terminate would assume that the objects are deleted.
func TestIdempotencyKeyOfAnotherCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{HistoryLimit: 3})
		ctx, key := t.Context(), rsync.IdempotencyKey("request-1")
		for _, id := range []string{"a", "b", "c"} {
			s.create(id, "web@c1 x=1")
		}
		refused := func(what string, ref rsync.EventRef, err error) {
			t.Helper()
			if !errors.Is(err, rsync.ErrInvalidInput) || ref != (rsync.EventRef{}) ||
				!strings.Contains(fmt.Sprint(err), `"request-1"`) {
				t.Errorf("%s: got %v, %v; want ErrInvalidInput with the key", what, ref, err)
			}
		}
		first := s.ref(s.engine.Instantiate(ctx, "a", key))
		s.done(first, nil)
		ref, err := s.engine.Terminate(ctx, "a", key)
		refused("Terminate", ref, err)
		ref, err = s.engine.Update(ctx, "b", "a", key)
		refused("Update", ref, err)
		if again := s.ref(s.engine.Instantiate(ctx, "a", key)); again != first {
			t.Errorf("%v and then %v", first, again)
		}
		update := s.ref(s.engine.Update(ctx, "a", "b", key)) // another context: the key is new there
		ref, err = s.engine.Update(ctx, "c", "b", key)
		refused("Update from another context", ref, err)
		if again := s.ref(s.engine.Rollback(ctx, "a", "b", key)); again != update {
			t.Errorf("%v and then %v", update, again)
		}
		s.done(update, nil)
		status, err := s.engine.Status(ctx, "a")
		if err != nil || len(status.Queue) != 2 { // the second element is the UpdateDelete
			t.Errorf("%v, %v", status, err)
		}
		for range 10 {
			s.done(s.engine.Read(ctx, "b"))
		}
		s.done(s.engine.Terminate(ctx, "b", key)) // the key was deleted with its event
	})
}
