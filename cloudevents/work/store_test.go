// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/storetest"
	"github.com/spokewire/sdk-go/codec"
)

func TestMemoryStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Opener {
		s := work.NewMemoryStore()
		return func(*testing.T) (work.Store, func()) { return s, func() {} }
	})
}

// faultyStore is a store with writes that wait or fail on request.
type faultyStore struct {
	*work.MemoryStore
	mu   sync.Mutex
	fail error
	gate chan struct{} // closed while writes do not wait
}

func newFaultyStore() *faultyStore {
	s := &faultyStore{MemoryStore: work.NewMemoryStore(), gate: make(chan struct{})}
	close(s.gate)
	return s
}

func (s *faultyStore) Apply(ctx context.Context, changes []work.Change) error {
	s.mu.Lock()
	gate := s.gate
	s.mu.Unlock()
	select {
	case <-gate:
	case <-ctx.Done():
		return ctx.Err()
	}
	s.mu.Lock()
	fail := s.fail
	s.mu.Unlock()
	if fail != nil {
		return fail
	}
	return s.MemoryStore.Apply(ctx, changes)
}

func (s *faultyStore) setFail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

// stall makes writes wait until the returned function is called.
func (s *faultyStore) stall() func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	gate := make(chan struct{})
	s.gate = gate
	return func() { close(gate) }
}

// faultyShared is a faultyStore that replicas can share.
type faultyShared struct{ *faultyStore }

func newFaultyShared() *faultyShared { return &faultyShared{newFaultyStore()} }

func (s *faultyShared) ApplyIf(ctx context.Context, condition work.Change, changes []work.Change) error {
	s.mu.Lock()
	gate, fail := s.gate, s.fail
	s.mu.Unlock()
	select {
	case <-gate:
	case <-ctx.Done():
		return ctx.Err()
	}
	if fail != nil {
		return fail
	}
	return s.MemoryStore.ApplyIf(ctx, condition, changes)
}

// stalledPatch begins a patch of the work "app" at a replica, which waits in the store. The returned
// function lets the store continue, and returns the result of the patch.
func (s *scene) stalledPatch(store *faultyShared, h *hub, value string) (finish func() error) {
	release, result := store.stall(), make(chan error, 1)
	go func() { result <- patchLabel(s.t.Context(), h, "app", value) }()
	s.settle()
	return func() error {
		release()
		return <-result
	}
}

// TestSourceContinues: a source that restarts with its store has all its works immediately, as an
// API server would. The resourceVersions of its clients stay valid.
func TestSourceContinues(t *testing.T) {
	inScene(t, func(s *scene) {
		store := work.NewMemoryStore()
		h, a := s.source(work.SourceOptions{Store: store}), s.agent(work.AgentOptions{})
		w := newWork("app", "<1> & more")
		w.Labels, w.Finalizers = map[string]string{"a": "1"}, []string{"example.com/x"}
		created := h.create("cluster1", w)
		h.create("cluster1", newWork("doomed", "1"))
		s.settle()
		a.report("app", "done")
		a.setFinalizers("doomed", workv1.ManifestWorkFinalizer)
		s.settle()
		a.kill()
		h.delete("cluster1", "doomed")
		before := h.list("cluster1")
		h.kill()
		s.bus.Disconnect()

		h = s.source(work.SourceOptions{Store: store}) // without a broker
		if diff := cmp.Diff(before.Items, h.list("cluster1").Items, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("works after the restart (-before +after):\n%s", diff)
		}
		after := h.get("cluster1", "app")
		if after.UID != created.UID || applied(after) != "done" {
			t.Errorf("app after the restart: %+v", after)
		}
		if _, err := h.works("cluster1").Watch(s.t.Context(),
			metav1.ListOptions{ResourceVersion: before.ResourceVersion}); err != nil {
			t.Errorf("a watch from before the restart: %v, want an event that it is too old, or no event", err)
		}
		after.Labels["a"] = "2"
		if _, err := h.works("cluster1").Update(s.t.Context(), after, metav1.UpdateOptions{}); err != nil {
			t.Errorf("an update of what was read before the restart: %v", err)
		}
		s.bus.Reconnect()
		a = s.agent(work.AgentOptions{})
		s.settle()
		s.settle()
		if got := a.get("app"); got.Labels["a"] != "2" || valueOf(t, got) != "<1> & more" {
			t.Errorf("the agent has %v", got)
		}
		if w := a.get("doomed"); w.DeletionTimestamp == nil {
			t.Error("the deletion was forgotten")
		}
		a.setFinalizers("doomed")
		s.settle()
		if _, err := h.works("cluster1").Get(s.t.Context(), "doomed", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("after its agent is done with it: %v", err)
		}
	})
}

func (h *hub) list(cluster string) *workv1.ManifestWorkList {
	h.t.Helper()
	list, err := h.works(cluster).List(h.t.Context(), metav1.ListOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	return list
}

// TestInventoryCompleteSurvivesRestart: a source with a complete inventory deletes unknown works,
// also after a restart with its store.
func TestInventoryCompleteSurvivesRestart(t *testing.T) {
	inScene(t, func(s *scene) {
		store := work.NewMemoryStore()
		spokeLink := &link{Transport: s.bus.Transport()}
		h, a := s.source(work.SourceOptions{Store: store}), s.agentOn(spokeLink, work.AgentOptions{ClusterName: "cluster1"})
		h.create("cluster1", newWork("known", "1"))
		s.settle()
		h.kill()
		rogue := func(name string) {
			r := s.source(work.SourceOptions{}) // for the agent, this is an earlier process
			r.create("cluster1", newWork(name, "1"))
			s.settle()
			a.setFinalizers(name, workv1.ManifestWorkFinalizer)
			r.kill()
		}
		rogue("unknown")
		h = s.source(work.SourceOptions{Store: store})
		s.settle()
		if a.get("unknown").DeletionTimestamp != nil {
			t.Fatal("deleted although the inventory is not complete")
		}
		if err := h.InventoryComplete(s.t.Context()); err != nil {
			t.Fatal(err)
		}
		s.settleProcesses()
		if a.get("unknown").DeletionTimestamp == nil {
			t.Error("kept although the inventory is complete")
		}
		h.create("cluster1", newWork("another", "1"))
		s.settle()
		a.setFinalizers("another", workv1.ManifestWorkFinalizer)
		spokeLink.setCut(true)
		h.delete("cluster1", "another")
		if err := h.Forget(s.t.Context(), "cluster1"); err != nil {
			t.Fatal(err)
		}
		h.kill()
		s.source(work.SourceOptions{Store: store})
		spokeLink.setCut(false)
		s.settleProcesses()
		if a.get("another").DeletionTimestamp == nil {
			t.Error("kept although the inventory was complete before the restart")
		}
		if a.get("known").DeletionTimestamp != nil {
			t.Error("a known work was deleted")
		}
	})
}

// TestAgentContinues: an agent that restarts with its store lists its works without a broker, and
// keeps the metadata set on the cluster. It sends reports that it could not send before.
func TestAgentContinues(t *testing.T) {
	inScene(t, func(s *scene) {
		store := work.NewMemoryStore()
		h, a := s.source(work.SourceOptions{}), s.agent(work.AgentOptions{Store: store})
		h.create("cluster1", newWork("app", "1"))
		h.create("cluster1", newWork("doomed", "1"))
		h.complete()
		s.settle()
		a.setFinalizers("app", workv1.ManifestWorkFinalizer)
		a.setFinalizers("doomed", workv1.ManifestWorkFinalizer)
		a.patch("app", []byte(`{"metadata":{"labels":{"local":"1"}}}`))
		h.delete("cluster1", "doomed")
		s.settle()
		s.bus.Disconnect()
		a.report("app", "offline")
		a.setFinalizers("doomed")
		before := a.get("app")
		a.kill()

		a = s.agent(work.AgentOptions{Store: store})
		if got := a.names(); !cmp.Equal(got, []string{"app"}) {
			t.Errorf("works after the restart: %v", got)
		}
		if diff := cmp.Diff(before, a.get("app"), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("app after the restart (-before +after):\n%s", diff)
		}
		s.bus.Reconnect()
		s.settle()
		if got := applied(h.get("cluster1", "app")); got != "offline" {
			t.Errorf("the source sees the status %q", got)
		}
		if _, err := h.works("cluster1").Get(s.t.Context(), "doomed", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the source did not receive the removal: %v", err)
		}
	})
}

// TestChangesAreStoredFirst: a change is stored before it is published, acknowledged or returned.
func TestChangesAreStoredFirst(t *testing.T) {
	inScene(t, func(s *scene) {
		hubStore, spokeStore := newFaultyStore(), newFaultyStore()
		h, a := s.source(work.SourceOptions{Store: hubStore}), s.agent(work.AgentOptions{Store: spokeStore})
		s.settle()
		resume := hubStore.stall()
		returned := make(chan struct{})
		go func() {
			defer close(returned)
			h.create("cluster1", newWork("app", "1"))
		}()
		s.settle()
		select {
		case <-returned:
			t.Error("Create returned before the work was stored")
		default:
		}
		if got := a.names(); len(got) > 0 {
			t.Errorf("the agent has %v before the source has stored it", got)
		}
		resume()
		<-returned
		s.settle()
		a.get("app")

		resume = spokeStore.stall()
		h.setValue("cluster1", "app", "2")
		reported := make(chan struct{})
		s.settle()
		go func() {
			defer close(reported)
			a.report("app", "2")
		}()
		s.settle()
		if got := applied(h.get("cluster1", "app")); got != "" {
			t.Errorf("the source sees %q before the agent has stored it", got)
		}
		resume()
		<-reported
		s.settle()
		if got := applied(h.get("cluster1", "app")); got != "2" {
			t.Errorf("the source sees %q", got)
		}
	})
}

// TestWriteFailsWhenStoreFails: a write that cannot be stored returns an error. The change is
// stored and published when the store works again.
func TestWriteFailsWhenStoreFails(t *testing.T) {
	inScene(t, func(s *scene) {
		store := newFaultyStore()
		h, a := s.source(work.SourceOptions{Store: store}), s.agent(work.AgentOptions{})
		s.settle()
		store.setFail(errors.New("no space left"))
		_, err := h.works("cluster1").Create(s.t.Context(), newWork("app", "1"), metav1.CreateOptions{})
		if !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "no space left") {
			t.Errorf("Create: %v", err)
		}
		if err := h.Healthy(); err == nil || !strings.Contains(err.Error(), "no space left") {
			t.Errorf("Healthy: %v", err)
		}
		s.settle()
		if got := a.names(); len(got) > 0 {
			t.Errorf("published without being stored: %v", got)
		}
		store.setFail(nil)
		s.settle()
		if err := h.Healthy(); err != nil {
			t.Errorf("Healthy: %v", err)
		}
		a.get("app")
	})
}

// TestUnstoredEventIsSentAgain: an event that cannot be stored is not acknowledged, and the
// connection ends. The event is then sent again.
func TestUnstoredEventIsSentAgain(t *testing.T) {
	inScene(t, func(s *scene) {
		store := newFaultyStore()
		h, a := s.source(work.SourceOptions{Store: store}), s.agent(work.AgentOptions{})
		h.create("cluster1", newWork("app", "1"))
		s.settle()
		store.setFail(errors.New("no space left"))
		a.report("app", "1")
		synctest.Wait()
		if err := h.Healthy(); err == nil {
			t.Error("Healthy returns nil")
		}
		store.setFail(nil)
		s.settle()
		s.settle()
		h.kill()
		h = s.source(work.SourceOptions{Store: store})
		if got := applied(h.get("cluster1", "app")); got != "1" {
			t.Errorf("the stored status is %q", got)
		}
	})
}

// TestRecordsDoNotChange: a record that was given to the journal does not change. It is encoded
// later, while its work changes.
func TestRecordsDoNotChange(t *testing.T) {
	inScene(t, func(s *scene) {
		one, two := s.source(work.SourceOptions{SourceID: "one"}), s.source(work.SourceOptions{SourceID: "two"})
		a := s.agent(work.AgentOptions{Store: work.NewMemoryStore()})
		s.settle()
		one.create("cluster1", newWork("taken", "of one"))
		one.create("cluster1", newWork("deleting", "1"))
		s.settle()
		two.create("cluster1", newWork("taken", "waits for the name"))
		a.setFinalizers("deleting", workv1.ManifestWorkFinalizer)
		one.delete("cluster1", "deleting")
		s.settle()
		one.kill()
		one = s.source(work.SourceOptions{SourceID: "one"})
		one.create("cluster1", newWork("deleting", "waits for the deletion"))
		one.create("cluster1", newWork("taken", "of one"))
		s.settle()

		records := work.Contents(a.Agent)
		before, err := json.Marshal(records)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(string(before), "waits for"); got != 2 {
			t.Fatalf("%d specs wait in the records %s", got, before)
		}
		a.setFinalizers("deleting")
		one.delete("cluster1", "taken")
		s.settle()
		if got := valueOf(t, a.get("deleting")) + ", " +
			valueOf(t, a.get("taken")); got != "waits for the deletion, waits for the name" {
			t.Errorf("the agent shows %q", got)
		}
		after, err := json.Marshal(records)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(before), string(after)); diff != "" {
			t.Errorf("records have changed (-before +after):\n%s", diff)
		}
	})
}

func TestForeignStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scene{t: t, bus: memory.New()}
		store := work.NewMemoryStore()
		s.source(work.SourceOptions{Store: store}).kill()
		agentStore := work.NewMemoryStore()
		s.agent(work.AgentOptions{Store: agentStore}).kill()
		broken := work.NewMemoryStore()
		s.source(work.SourceOptions{Store: broken}).kill()
		apply := func(s work.Store, key, value string) work.Store {
			if err := s.Apply(t.Context(), []work.Change{{Key: key, Value: []byte(value)}}); err != nil {
				t.Fatal(err)
			}
			return s
		}
		_, otherSource := work.NewSource(s.bus.Transport(), work.SourceOptions{SourceID: "other", Store: store})
		_, otherKind := work.NewSource(s.bus.Transport(), work.SourceOptions{SourceID: "hub", Store: agentStore})
		_, otherProfile := work.NewSource(s.bus.Transport(),
			work.SourceOptions{SourceID: "hub", Store: store, Profile: codec.ManifestBundle})
		_, otherCluster := work.NewAgent(s.bus.Transport(), work.AgentOptions{ClusterName: "c2", Store: agentStore})
		_, undecodable := work.NewSource(s.bus.Transport(), work.SourceOptions{
			SourceID: "hub", Store: apply(broken, "work/cluster1/x", `{"version":"one"}`)})
		_, unknown := work.NewSource(s.bus.Transport(), work.SourceOptions{
			SourceID: "hub", Store: apply(work.NewMemoryStore(), "rows/1", "x")})
		_, later := work.NewSource(s.bus.Transport(), work.SourceOptions{
			SourceID: "hub", Store: apply(work.NewMemoryStore(), "meta",
				`{"format":9,"kind":"source","name":"hub","profile":"ManifestWork"}`)})
		for name, c := range map[string]struct {
			err  error
			want string
		}{
			"another source":  {otherSource, `to source "hub", not to source "other"`},
			"an agent's":      {otherKind, `to agent "cluster1", not to source "hub"`},
			"another profile": {otherProfile, "ManifestWork, not ManifestBundle"},
			"another cluster": {otherCluster, `to agent "cluster1", not to agent "c2"`},
			"undecodable":     {undecodable, `record "work/cluster1/x"`},
			"unknown record":  {unknown, `record "rows/1"`},
			"a later format":  {later, "format 9"},
		} {
			if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
				t.Errorf("%s: %v, want an error with %q", name, c.err, c.want)
			}
		}
	})
}
