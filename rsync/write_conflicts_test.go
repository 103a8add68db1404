// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
	"github.com/spokewire/sdk-go/rsync/store/storetest"
)

// race is a store that runs a function just before a transaction of an engine: between the reads of
// the engine and its write.
type race struct {
	*scene
	user   *rsync.Engine // on the store without faults
	faults *storetest.Faults
}

// newRace returns a race with a store, clusters and a user. It starts no engine.
func newRace(t *testing.T) *race {
	t.Helper()
	r := &race{scene: &scene{t: t, memory: memstore.New(memstore.Options{}), clusters: fake.New()}}
	var err error
	if r.user, err = rsync.New(r.memory, r.clusters, rsync.Options{Name: "user"}); err != nil {
		t.Fatal(err)
	}
	r.engine = r.user
	return r
}

// before starts an engine. It calls act just before the first transaction of that engine with
// matching ops.
func (r *race) before(match func(ops string) bool, act func(), after storetest.Verdict) {
	r.t.Helper()
	done := false
	r.faults = storetest.NewFaults(r.memory, func(_ int, ops []store.Op) storetest.Verdict {
		if done || !match(words(ops)) {
			return storetest.VerdictPass
		}
		done = true
		act()
		return after
	})
	_, stop := startEngine(r.t, r.faults, r.clusters, rsync.Options{LeaseTTL: time.Second})
	r.t.Cleanup(stop)
	r.t.Cleanup(func() {
		if !done {
			r.t.Error("the moment never came")
		}
	})
}

// words returns ops as text.
func words(ops []store.Op) string {
	out := ""
	for _, op := range ops {
		out += fmt.Sprintf("%d %s %s\n", op.Kind, op.Key, op.Value)
	}
	return out
}

func has(parts ...string) func(string) bool {
	return func(ops string) bool {
		return !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(ops, p) })
	}
}

// queue returns the queue of a context as "Instantiate Done, Read Skip Stopped".
func (r *race) queue(id string) string {
	r.t.Helper()
	status, err := r.user.Status(r.t.Context(), id)
	if err != nil {
		r.t.Fatal(err)
	}
	var out []string
	for _, e := range status.Queue {
		out = append(out, strings.TrimSpace(fmt.Sprint(e.Event, " ", e.Status, " ", e.Reason)))
	}
	return strings.Join(out, ", ")
}

func (r *race) wants(id, queue string, state rsync.State) {
	r.t.Helper()
	time.Sleep(5 * time.Minute)
	if got := r.queue(id); got != queue {
		r.t.Errorf("the queue of %s is %q, want %q", id, got, queue)
	}
	r.state(id, state)
}

// TestEnqueueWhileLastEventEnds: an event that is queued while the last event ends keeps the active
// record. The event is not lost if the engine then crashes.
func TestEnqueueWhileLastEventEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRace(t)
		r.create("a", "web@c1 x=1")
		r.ref(r.user.Instantiate(t.Context(), "a"))
		r.before(has("1 /activecontext/a/"), func() { r.ref(r.user.Read(t.Context(), "a")) }, storetest.VerdictCrashAfter)
		time.Sleep(time.Minute)
		_, stop := startEngine(t, r.memory, r.clusters, rsync.Options{})
		defer stop()
		r.wants("a", "Instantiate Done, Read Done", rsync.Instantiated)
	})
}

// TestEnqueueWritesActiveRecord: an event is processed even if its user crashes right after the
// call that queues it.
func TestEnqueueWritesActiveRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRace(t)
		r.create("a", "web@c1 x=1")
		_, stop := startEngine(t, r.memory, r.clusters, rsync.Options{})
		defer stop()
		crashing, err := rsync.New(storetest.NewFaults(r.memory,
			func(int, []store.Op) storetest.Verdict { return storetest.VerdictCrashAfter }), r.clusters, rsync.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := crashing.Instantiate(t.Context(), "a"); !errors.Is(err, storetest.ErrCrashed) {
			t.Fatalf("got %v", err)
		}
		r.wants("a", "Instantiate Done", rsync.Instantiated)
	})
}

// TestStopWhileEventBegins: an event does not begin after Stop has returned.
func TestStopWhileEventBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRace(t)
		r.create("a", "web@c1 x=1")
		r.ref(r.user.Instantiate(t.Context(), "a"))
		r.before(has("InProgress"), func() {
			if err := r.user.Stop(t.Context(), "a"); err != nil {
				t.Error(err)
			}
		}, storetest.VerdictPass)
		r.wants("a", "Instantiate Skip Stopped", rsync.Created)
		r.shows("c1", "")
	})
}

// TestClearStopWhileEventIsSkipped: an event is not skipped after ClearStop has returned.
func TestClearStopWhileEventIsSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRace(t)
		r.create("a", "web@c1 x=1")
		r.ref(r.user.Instantiate(t.Context(), "a"))
		if err := r.user.Stop(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		r.before(has(`"Skip"`), func() {
			if err := r.user.ClearStop(t.Context(), "a"); err != nil {
				t.Error(err)
			}
		}, storetest.VerdictPass)
		r.wants("a", "Instantiate Done", rsync.Instantiated)
	})
}

// TestReplacedContextChangesWhileUpdateBegins: an Update does not begin if the state of the
// replaced context changes just before the begin.
func TestReplacedContextChangesWhileUpdateBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRace(t)
		r.create("a", "web@c1 x=1")
		r.create("b", "web@c1 x=2")
		force(t, r.memory, "a", rsync.Instantiated)
		r.ref(r.user.Update(t.Context(), "a", "b"))
		r.before(has("/context/b/queue/", "InProgress"), func() { force(t, r.memory, "a", rsync.Terminating) },
			storetest.VerdictPass)
		r.wants("b", "Update Error InvalidState", rsync.Created)
		r.shows("c1", "")
	})
}

// TestEnqueueInReplacedContextDuringUpdate: an event is queued in the replaced context while the
// first phase of the update ends. Neither this event nor the UpdateDelete is lost.
func TestEnqueueInReplacedContextDuringUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRace(t)
		r.create("a", "web@c1 x=1 gone=1")
		r.create("b", "web@c1 x=2")
		r.ref(r.user.Instantiate(t.Context(), "a"))
		_, stop := startEngine(t, r.memory, r.clusters, rsync.Options{})
		time.Sleep(time.Minute)
		stop()
		r.ref(r.user.Update(t.Context(), "a", "b"))
		r.before(has("UpdateDelete"), func() { r.ref(r.user.Read(t.Context(), "a")) }, storetest.VerdictPass)
		r.wants("a", "Instantiate Done, Read Done, UpdateDelete Done", rsync.Updated)
		r.shows("c1", "x=2")
	})
}

// TestInvalidTerminateSkipsNothing: a Terminate that is not valid yet does not skip the events
// before it.
func TestInvalidTerminateSkipsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRace(t)
		r.create("a", "web@c1 x=1")
		r.ref(r.user.Instantiate(t.Context(), "a"))
		r.ref(r.user.Terminate(t.Context(), "a"))
		_, stop := startEngine(t, r.memory, r.clusters, rsync.Options{})
		defer stop()
		r.wants("a", "Instantiate Done, Terminate Done", rsync.Terminated)
	})
}

// TestInvalidTerminateEndsNoWait: a Terminate that is not valid does not end the waits of the event
// in progress.
func TestInvalidTerminateEndsNoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRace(t)
		r.create("a", "web@c1 x=1")
		r.clusters.Cluster("edge", "c1").SetMode(fake.ModeUnreachable)
		r.ref(r.user.Read(t.Context(), "a"))
		_, stop := startEngine(t, r.memory, r.clusters, rsync.Options{})
		defer stop()
		time.Sleep(time.Minute)
		r.ref(r.user.Terminate(t.Context(), "a"))
		time.Sleep(time.Minute)
		r.clusters.Cluster("edge", "c1").SetMode(fake.ModeWorks)
		r.wants("a", "Read Done, Terminate Error InvalidState", rsync.Created)
	})
}

// TestStoredResultStaysAfterCrash: the result of a cluster that an engine stored before a crash
// does not change.
func TestStoredResultStaysAfterCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRace(t)
		r.create("a", "web@c1 x=1; web@c2 x=1")
		r.clusters.Cluster("edge", "c1").SetMode(fake.ModeRefusing)
		r.clusters.Cluster("edge", "c2").SetMode(fake.ModeUnreachable)
		r.ref(r.user.Instantiate(t.Context(), "a"))
		r.before(has("Refused"), func() {}, storetest.VerdictCrashAfter)
		time.Sleep(time.Minute)
		r.clusters.Cluster("edge", "c1").SetMode(fake.ModeWorks)
		r.clusters.Cluster("edge", "c2").SetMode(fake.ModeWorks)
		_, stop := startEngine(t, r.memory, r.clusters, rsync.Options{})
		defer stop()
		r.wants("a", "Instantiate Error Refused", rsync.InstantiateFailed)
		r.shows("c1", "")
		r.shows("c2", "x=1")
	})
}

// TestDeleteWithQueuedEvent: a context with an event in its queue is not deleted.
func TestDeleteWithQueuedEvent(t *testing.T) {
	r := newRace(t)
	r.create("a", "web@c1 x=1")
	r.ref(r.user.Instantiate(t.Context(), "a"))
	if err := r.user.Delete(t.Context(), "a"); !errors.Is(err, rsync.ErrInvalidState) {
		t.Errorf("got %v", err)
	}
}

// TestLateWritesAfterLeaseAreRejected: writes of an engine are rejected after its lease has ended,
// even if no other engine has taken over.
func TestLateWritesAfterLeaseAreRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRace(t)
		r.clusters.Cluster("edge", "c1").SetDelay(time.Second)
		for i := range 10 {
			r.create(fmt.Sprint("id", i), fmt.Sprintf("web@c1 x%d=1", i))
			r.ref(r.user.Instantiate(t.Context(), fmt.Sprint("id", i)))
		}
		view := storetest.NewFaults(r.memory, nil)
		_, stop := startEngine(t, view, r.clusters, rsync.Options{LeaseTTL: 3 * time.Second})
		defer stop()
		time.Sleep(500 * time.Millisecond)
		view.Hold()
		time.Sleep(10 * time.Second)
		view.Release()
		time.Sleep(time.Minute)
		late := 0
		for _, w := range view.Log() {
			if w.Held && !sessionStart(w.Ops) {
				late++
				if w.Result.Succeeded {
					t.Errorf("a write after the lease was accepted: %s", words(w.Ops))
				}
			}
		}
		if late == 0 {
			t.Error("nothing was written late")
		}
		for i := range 10 {
			r.state(fmt.Sprint("id", i), rsync.Instantiated)
		}
	})
}

// blind is a store that hides all engines, except those with a name.
type blind struct {
	store.Store
	name string
}

func (b *blind) Range(ctx context.Context, prefix string) (store.RangeResult, error) {
	result, err := b.Store.Range(ctx, prefix)
	if prefix == "/rsync/engine/" {
		result.KVs = slices.DeleteFunc(result.KVs, func(kv store.KeyValue) bool { return !strings.Contains(kv.Key, b.name) })
	}
	return result, err
}

func (b *blind) Watch(ctx context.Context, prefix string, from int64) <-chan store.Watched {
	if prefix == "/rsync/engine/" {
		prefix += b.name
	}
	return b.Store.Watch(ctx, prefix, from)
}

// TestTwoEnginesCompete: two engines that do not see each other compete for each context. Each
// event begins once. No engine takes over a context from a live owner.
func TestTwoEnginesCompete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRace(t)
		for _, name := range []string{"one", "two"} {
			slow := storetest.NewFaults(r.memory, nil)
			slow.Delay = time.Millisecond // both engines read before either writes
			_, stop := startEngine(t, &blind{slow, name}, r.clusters, rsync.Options{Name: name})
			t.Cleanup(stop)
		}
		const contexts = 20
		for i := range contexts {
			r.create(fmt.Sprint("id", i), fmt.Sprintf("web@c1 x%d=1", i))
		}
		for range 3 {
			var refs []rsync.EventRef
			for i := range contexts {
				refs = append(refs, r.ref(r.user.Instantiate(t.Context(), fmt.Sprint("id", i))))
			}
			for _, ref := range refs {
				r.done(ref, nil)
			}
		}
		writers := map[string]bool{}
		for i := range contexts {
			history := r.memory.Watch(t.Context(), fmt.Sprintf("/context/id%d/", i), 1)
			owner, begun, ended := "", 0, 0
			for ended < 3 {
				for _, e := range (<-history).Events {
					var value struct {
						Owner, Writer string
						Status        rsync.ElementStatus
					}
					if json.Unmarshal(e.KV.Value, &value) != nil {
						continue
					}
					switch {
					case strings.HasSuffix(e.KV.Key, "/state/"):
						writers[value.Writer] = true
						if owner != "" && value.Writer != owner {
							t.Errorf("context %d: %s wrote while %s was the owner", i, value.Writer, owner)
						}
						owner = value.Owner
					case value.Status == rsync.InProgress:
						begun++
					case value.Status == rsync.Done:
						ended++
					}
				}
			}
			if begun != 3 {
				t.Errorf("context %d: 3 events have begun %d times", i, begun)
			}
		}
		if len(writers) != 3 { // including Create, which has no writer
			t.Errorf("written by %v", writers)
		}
	})
}

// TestStatusShowsReasonOfWait: the status shows the current reason why an app waits on a cluster.
// Long waits cause no writes.
func TestStatusShowsReasonOfWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil,
			rsync.Options{PollInterval: time.Second, Backoff: rsync.Backoff{Base: time.Second, Max: time.Second}})
		c := s.clusters.Cluster("edge", "c1")
		c.SetUnready(func(o appcontext.Object) bool { return o.Name == "y" })
		s.create("a", "db@c1 x=1 y=1; web<db:Ready@c1 z=1")
		shown := func(reason rsync.Reason, message string) {
			t.Helper()
			synctest.Wait()
			status, err := s.engine.Status(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			got := status.Cluster("db", appcontext.ClusterID{Provider: "edge", Name: "c1"})
			if reason == "" && got != nil || reason != "" && (got == nil || got.Phase != rsync.PhaseRetrying ||
				got.Reason != reason || !strings.Contains(got.Message, message)) {
				t.Errorf("it shows %+v, want %s with %q", got, reason, message)
			}
		}
		c.SetMode(fake.ModeFailing)
		ref := s.ref(s.engine.Instantiate(t.Context(), "a"))
		time.Sleep(10 * time.Second)
		shown(rsync.ReasonRefusedForNow, "refused for now")
		c.SetMode(fake.ModeUnreachable)
		time.Sleep(10 * time.Second)
		shown(rsync.ReasonUnreachable, "does not answer")
		c.SetMode(fake.ModeWorks)
		time.Sleep(time.Minute)
		shown(rsync.ReasonNotReady, "ConfigMap default/y is not ready yet")
		before, err := s.engine.Status(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		after, err := s.engine.Status(t.Context(), "a")
		if err != nil || after.Revision != before.Revision {
			t.Errorf("an hour of waiting wrote %d times, %v", after.Revision-before.Revision, err)
		}
		c.SetReady(object("ConfigMap", "y"), true, false)
		status := s.done(ref, nil)
		if got := status.Cluster("db", appcontext.ClusterID{Provider: "edge", Name: "c1"}); got.Phase != rsync.PhaseDone ||
			got.Reason != "" || got.Message != "" {
			t.Errorf("in the end it shows %+v", got)
		}
		c.SetFinalizer(true)
		ref = s.ref(s.engine.Terminate(t.Context(), "a"))
		time.Sleep(time.Minute)
		c.Finalize() // of web, which is deleted first
		time.Sleep(time.Minute)
		shown(rsync.ReasonNotReady, "is not gone yet")
		c.Finalize()
		s.done(ref, nil)
	})
}
