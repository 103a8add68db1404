// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

// seedRows is the table of the source document, in the spelling of the document.
var seedRows = []struct{ event, from, desired, current, failed string }{
	{"Instantiate", "Created, Terminated, TerminationFailed, Instantiated, Instantiating, InstantiationFailed, Update, " +
		"Updating, UpdateFailed", "Instantiated", "Instantiating", "InstantiateFailed"},
	{"Terminate", "Terminating, TerminationFailed, Instantiated, Instantiating, InstantiationFailed, Updated, Updating, " +
		"UpdateFailed", "Terminated", "Terminating", "TerminationFailed"},
	{"Update", "Created, Updated", "Updated", "Updating", "UpdateFailed"},
	{"UpdateDelete", "Instantiated", "Instantiated", "Instantiating", "InstantiateFailed"},
}

var eventTypes = []rsync.EventType{
	rsync.Instantiate, rsync.Terminate, rsync.Update, rsync.UpdateDelete, rsync.Read, rsync.Heal,
}

// TestTransitionsSeed: TransitionsSeed equals the table of the document. In TransitionsDefault each
// event can also begin in all states of that table.
func TestTransitionsSeed(t *testing.T) {
	for i, row := range seedRows {
		got := rsync.TransitionsSeed[i]
		if string(got.Event) != row.event || string(got.Desired) != row.desired || string(got.Current) != row.current ||
			string(got.Error) != row.failed {
			t.Errorf("row %d is %+v, want %+v", i, got, row)
		}
		var from []rsync.State
		for _, word := range strings.Split(row.from, ", ") {
			state, ok := rsync.ParseState(word)
			if !ok {
				t.Errorf("%q is no state", word)
			}
			from = append(from, state)
		}
		if !slices.Equal(from, got.From) {
			t.Errorf("%s begins in %v, want %v", got.Event, got.From, from)
		}
		for _, state := range from {
			if !slices.Contains(rsync.TransitionsDefault[i].From, state) {
				t.Errorf("by default %s does not begin in %s", got.Event, state)
			}
		}
	}
	for word, want := range map[string]rsync.State{"TerminateFailed": rsync.TerminationFailed,
		"UpdatedFailed": rsync.UpdateFailed} {
		if got, _ := rsync.ParseState(word); got != want {
			t.Errorf("%s is read as %q", word, got)
		}
	}
	if _, ok := rsync.ParseState("Confused"); ok {
		t.Error("Confused is a state")
	}
}

// TestStateMachine checks each pair of a state and an event, in both tables, with events that
// succeed and events that fail.
func TestStateMachine(t *testing.T) {
	for name, table := range map[string]rsync.Transitions{"seed": rsync.TransitionsSeed,
		"default": rsync.TransitionsDefault} {
		for _, state := range rsync.States() {
			for _, event := range eventTypes {
				for _, mode := range []fake.Mode{fake.ModeWorks, fake.ModeRefusing} {
					t.Run(fmt.Sprintf("%s/%s/%s/%d", name, state, event, mode), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { walk(t, table, state, event, mode) })
					})
				}
			}
		}
	}
}

func walk(t *testing.T, table rsync.Transitions, state rsync.State, event rsync.EventType, mode fake.Mode) {
	memory := memstore.New(memstore.Options{})
	s := newScene(t, memory, rsync.Options{Transitions: table})
	// Context a has the event in its queue. Context b is the other context of an update.
	s.create("a", "web@c1 x=1 gone=1")
	s.create("b", "web@c1 x=2 new=1")
	force(t, memory, "a", state)
	force(t, memory, "b", rsync.Instantiated)
	s.clusters.Cluster("edge", "c1").SetMode(mode)
	var ref rsync.EventRef
	var err error
	switch event {
	case rsync.Instantiate:
		ref, err = s.engine.Instantiate(t.Context(), "a")
	case rsync.Terminate:
		ref, err = s.engine.Terminate(t.Context(), "a")
	case rsync.Read:
		ref, err = s.engine.Read(t.Context(), "a")
	case rsync.Update:
		ref, err = s.engine.Update(t.Context(), "b", "a")
	case rsync.UpdateDelete:
		ref = enqueueDelete(t, memory, "a", "b")
	case rsync.Heal:
		ref = enqueueHeal(t, memory, "a")
	}
	_, waitErr := s.wait(ref, err)
	status, err := s.engine.Status(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	element := status.Element(ref.Seq)
	row, valid := table.Of(event, state)
	wantState, wantStatus := state, rsync.Done
	switch {
	case !valid:
		wantStatus = rsync.Error
		if element.Reason != rsync.ReasonInvalidState {
			t.Errorf("the reason is %s", element.Reason)
		}
	case mode == fake.ModeWorks && row.Desired != "": // Read and Heal have no row
		wantState = row.Desired
	case mode == fake.ModeRefusing:
		wantStatus = rsync.Error
		if row.Error != "" {
			wantState = row.Error
		}
	}
	if status.State != wantState || element.Status != wantStatus || (waitErr == nil) != (element.Status == rsync.Done) {
		t.Errorf("the state is %s and the element %s (%v), want %s and %s", status.State, element.Status, waitErr, wantState,
			wantStatus)
	}
	s.stop()
	if kv, _ := memory.Get(t.Context(), "/activecontext/a/"); kv.Exists() {
		t.Error("the context is still active")
	}
}

// force sets the state of a context.
func force(t *testing.T, memory *memstore.Store, id string, state rsync.State) {
	t.Helper()
	record := fmt.Sprintf(`{"state":%q,"version":1000}`, state)
	if _, err := memory.Txn(t.Context(), nil,
		[]store.Op{store.Put("/context/"+id+"/state/", []byte(record))}); err != nil {
		t.Fatal(err)
	}
}

// enqueueDelete queues an UpdateDelete, which only engines queue.
func enqueueDelete(t *testing.T, memory *memstore.Store, id, other string) rsync.EventRef {
	t.Helper()
	return enqueueOwn(t, memory, id,
		fmt.Sprintf(`{"seq":1,"event":"UpdateDelete","uCID":%q,"status":"Pending","queued":"2000-01-01T00:00:00Z"}`, other))
}

// enqueueHeal queues a Heal with drift of the first object.
func enqueueHeal(t *testing.T, memory *memstore.Store, id string) rsync.EventRef {
	t.Helper()
	drift := `{"app":"web","cluster":{"provider":"edge","name":"c1"},"heal":1,"indexes":[0]}`
	if _, err := memory.Txn(t.Context(), nil,
		[]store.Op{store.Put("/context/"+id+"/observed/web/edge+c1/", []byte(drift))}); err != nil {
		t.Fatal(err)
	}
	return enqueueOwn(t, memory, id, `{"seq":1,"event":"Heal","status":"Pending","queued":"2000-01-01T00:00:00Z"}`)
}

// enqueueOwn queues an event that only engines queue.
func enqueueOwn(t *testing.T, memory *memstore.Store, id, element string) rsync.EventRef {
	t.Helper()
	if _, err := memory.Txn(t.Context(), nil, []store.Op{
		store.Put("/context/"+id+"/queue/0000000000000001/", []byte(element)),
		store.Put("/context/"+id+"/queue/", []byte(`{"next":2}`)), store.Put("/activecontext/"+id+"/", []byte(`"`+id+`"`)),
	}); err != nil {
		t.Fatal(err)
	}
	return rsync.EventRef{AppContextID: id, Seq: 1}
}

// TestSeedIsTransposed: with the table of the document, neither a second update nor a rollback can
// begin.
func TestSeedIsTransposed(t *testing.T) {
	for name, test := range map[string]struct {
		table rsync.Transitions
		works bool
	}{"seed": {rsync.TransitionsSeed, false}, "default": {rsync.TransitionsDefault, true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, nil, rsync.Options{Transitions: test.table})
				for id, text := range map[string]string{"a": "web@c1 x=1", "b": "web@c1 x=2", "c": "web@c1 x=3"} {
					s.create(id, text)
				}
				s.done(s.engine.Instantiate(t.Context(), "a"))
				s.done(s.engine.Update(t.Context(), "a", "b"))
				for what, ref := range map[string]rsync.EventRef{
					"a second update": s.ref(s.engine.Update(t.Context(), "b", "c")),
				} {
					if _, err := s.wait(ref, nil); (err == nil) != test.works {
						t.Errorf("%s: %v", what, err)
					}
				}
				from := "c"
				if !test.works {
					from = "b"
				}
				if _, err := s.wait(s.engine.Rollback(t.Context(), from, "a")); (err == nil) != test.works {
					t.Errorf("a rollback: %v", err)
				}
			})
		})
	}
}
