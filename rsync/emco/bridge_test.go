// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package emco_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/storetest"
)

// TestStatuses: EMCO reads the status of the context, its clusters and its resources throughout the
// life of a context.
func TestStatuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.importContext("7", shopText)
		settle()
		s.done(s.engine.Instantiate(t.Context(), "7"))
		settle()
		s.reads("7", "Instantiated; db@c1 Available d=Applied; "+
			"web@c1 Available a=Applied b=Applied; web@c2 Available a=Applied")
		if got := s.value("/context/7/rsync/state/CurrentState/"); got != `{"Status":"Instantiated"}` {
			t.Errorf("the current state is %s", got)
		}

		s.clusters.Cluster("edge", "c2").SetMode(fake.ModeUnreachable)
		ref := s.ref(s.engine.Instantiate(t.Context(), "7"))
		settle()
		s.reads("7", "Instantiating; db@c1 Available d=Applied; "+
			"web@c1 Available a=Applied b=Applied; web@c2 Retrying a=Retrying")
		if err := s.engine.Stop(t.Context(), "7"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.engine.Wait(t.Context(), ref); err == nil {
			t.Error("a stopped event is done")
		}
		settle()
		s.reads("7", "InstantiateFailed; db@c1 Available d=Applied; "+
			"web@c1 Available a=Applied b=Applied; web@c2 Available a=Failed")

		if err := s.engine.ClearStop(t.Context(), "7"); err != nil {
			t.Fatal(err)
		}
		s.clusters.Cluster("edge", "c2").SetMode(fake.ModeRefusing)
		if _, err := s.engine.Wait(t.Context(), s.ref(s.engine.Terminate(t.Context(), "7"))); err == nil {
			t.Error("a cluster that refuses has terminated")
		}
		settle()
		s.reads("7", "TerminateFailed; db@c1 Available d=Deleted; "+
			"web@c1 Available a=Deleted b=Deleted; web@c2 Available a=Failed")
		s.clusters.Cluster("edge", "c2").SetMode(fake.ModeWorks)
		s.done(s.engine.Terminate(t.Context(), "7"))
		settle()
		s.reads("7", "Terminated; db@c1 Available d=Deleted; "+
			"web@c1 Available a=Deleted b=Deleted; web@c2 Available a=Deleted")
	})
}

// TestStatusesOfUpdate: after an update, EMCO reads the statuses of resources from the first
// context, as statusappctxid requires.
func TestStatusesOfUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.importContext("7", "web@c1 a=1 b=1; old@c1 o=1")
		s.importContext("8", "web@c1 a=1 n=1; web@c2 a=1")
		s.put(write{"/context/8/statusappctxid/", `"7"`})
		s.done(s.engine.Instantiate(t.Context(), "7"))
		s.done(s.engine.Update(t.Context(), "7", "8"))
		settle()
		s.readsFrom("8", "7", "Instantiated; old@c1 Available o=Deleted; "+
			"web@c1 Available a=Applied b=Deleted n=Applied; web@c2 Available a=Applied")
		if got := s.value("/context/7/status/"); got != `{"Status":"Updated"}` {
			t.Errorf("the first context is %s", got)
		}
		s.done(s.engine.Rollback(t.Context(), "8", "7"))
		settle()
		s.readsFrom("7", "7", "Instantiated; old@c1 Available o=Applied; "+
			"web@c1 Available a=Applied b=Applied n=Deleted; web@c2 Available a=Deleted")
		s.done(s.engine.Terminate(t.Context(), "7"))
		settle()
		s.readsFrom("7", "7", "Terminated; old@c1 Available o=Deleted; "+
			"web@c1 Available a=Deleted b=Deleted n=Deleted; web@c2 Available a=Deleted")
		// Import ignores keys in the first context that exist only for the statuses of the other.
		c, err := s.bridge.Import(t.Context(), "7")
		if err != nil || len(c.Apps) != 2 || len(c.App("web").Clusters) != 1 || len(c.App("web").Clusters[0].Resources) != 2 {
			t.Errorf("%+v, %v", c, err)
		}
	})
}

// TestStatusesOfUpdateFromStopped: after an update, the statuses of resources belong to the new
// context, even if the UpdateDelete of the earlier context has not begun, here because of a stop.
func TestStatusesOfUpdateFromStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.importContext("7", "web@c1 a=1")
		s.importContext("8", "web@c1 a=2")
		s.put(write{"/context/8/statusappctxid/", `"7"`})
		s.done(s.engine.Instantiate(t.Context(), "7"))
		if err := s.engine.Stop(t.Context(), "7"); err != nil {
			t.Fatal(err)
		}
		s.ref(s.engine.Update(t.Context(), "7", "8"))
		settle()
		s.newBridge(s.keys) // it writes the status of 7 again
		settle()
		if got := s.value("/context/7/app/web/cluster/edge+c1/resource/a+ConfigMap/reference/"); got != `"8"` {
			t.Errorf("the status of the resource is from context %s", got)
		}
	})
}

// counting counts transactions and reads.
type counting struct {
	store.Store
	writes, reads atomic.Int64
}

func (c *counting) Txn(ctx context.Context, compares []store.Compare, ops []store.Op) (store.TxnResult, error) {
	c.writes.Add(1)
	return c.Store.Txn(ctx, compares, ops)
}

func (c *counting) Range(ctx context.Context, prefix string) (store.RangeResult, error) {
	c.reads.Add(1)
	return c.Store.Range(ctx, prefix)
}

// TestUnchangedStatusesAreNotWritten: the number of writes does not depend on the number of
// resources or retries. An unchanged context causes no writes.
func TestUnchangedStatusesAreNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var count *counting
		s := newScene(t, func(of store.Store) store.Store {
			count = &counting{Store: of}
			return count
		})
		text := "web@c1"
		for i := range 40 {
			text += " x" + string(rune('a'+i%26)) + string(rune('a'+i/26)) + "=1"
		}
		s.importContext("7", text)
		settle()
		s.clusters.Cluster("edge", "c1").SetMode(fake.ModeUnreachable)
		ref := s.ref(s.engine.Instantiate(t.Context(), "7"))
		settle()
		before := count.writes.Load()
		if before > 12 {
			t.Errorf("%d writes", before)
		}
		time.Sleep(10 * time.Hour)
		if n := count.writes.Load() - before; n > 0 {
			t.Errorf("%d writes while the cluster does not answer", n)
		}
		if n := count.reads.Load(); n > 20 {
			t.Errorf("%d reads", n)
		}
		s.clusters.Cluster("edge", "c1").SetMode(fake.ModeWorks)
		s.done(ref, nil)
		settle()
		if n := count.writes.Load() - before; n > 12 {
			t.Errorf("%d writes of the end", n)
		}
		before = count.writes.Load()
		s.newBridge(count)
		settle()
		if n := count.writes.Load() - before; n > 0 {
			t.Errorf("a bridge that starts again writes %d times", n)
		}
	})
}

// TestCrashAtEveryWriteOfStatuses: a bridge crashes before or after each of its writes, or the
// write fails. Another bridge then continues.
func TestCrashAtEveryWriteOfStatuses(t *testing.T) {
	for _, v := range []storetest.Verdict{storetest.VerdictCrashBefore, storetest.VerdictCrashAfter,
		storetest.VerdictFailBefore, storetest.VerdictFailAfter} {
		for n, last := 1, 2; n <= last; n++ {
			synctest.Test(t, func(t *testing.T) {
				var faults *storetest.Faults
				s := newScene(t, func(of store.Store) store.Store {
					faults = storetest.NewFaults(of, func(i int, _ []store.Op) storetest.Verdict {
						return map[int]storetest.Verdict{n: v}[i]
					})
					return faults
				})
				// Otherwise the bridge may crash at a status of 7 before 8 is imported through it.
				synctest.Wait()
				s.importContext("7", "web@c1 a=1 b=1; old@c1 o=1")
				s.importContext("8", "web@c1 a=1 n=1; web@c2 a=1")
				s.put(write{"/context/8/statusappctxid/", `"7"`})
				s.done(s.engine.Instantiate(t.Context(), "7"))
				settle()
				s.done(s.engine.Update(t.Context(), "7", "8"))
				settle()
				s.done(s.engine.Terminate(t.Context(), "8"))
				settle()
				last = max(last, min(faults.Writes(), 30))
				if v == storetest.VerdictCrashBefore || v == storetest.VerdictCrashAfter {
					s.newBridge(s.keys)
					settle()
				}
				s.readsFrom("8", "7", "Terminated; old@c1 Available o=Deleted; "+
					"web@c1 Available a=Deleted b=Deleted n=Deleted; web@c2 Available a=Deleted")
			})
		}
	}
}

// TestTwoBridges: a bridge with a slow store does not replace newer statuses of another bridge.
func TestTwoBridges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, func(of store.Store) store.Store {
			slow := storetest.NewFaults(of, nil)
			slow.Delay = 700 * time.Millisecond
			return slow
		})
		s.newBridge(s.keys)
		s.importContext("7", shopText)
		for range 5 {
			s.done(s.engine.Instantiate(t.Context(), "7"))
			time.Sleep(300 * time.Millisecond)
			s.done(s.engine.Terminate(t.Context(), "7"))
			time.Sleep(1100 * time.Millisecond)
		}
		settle()
		s.reads("7", "Terminated; db@c1 Available d=Deleted; "+
			"web@c1 Available a=Deleted b=Deleted; web@c2 Available a=Deleted")
	})
}

// TestContextIsDeletedByEMCO: the bridge writes no statuses for a context that EMCO has deleted, or
// for a context that is not EMCO's.
func TestContextIsDeletedByEMCO(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.importContext("7", shopText)
		s.done(s.engine.Instantiate(t.Context(), "7"))
		settle()
		if _, err := s.keys.Txn(t.Context(), nil, []store.Op{store.DeletePrefix("/context/7/")}); err != nil {
			t.Fatal(err)
		}
		s.done(s.engine.Terminate(t.Context(), "7"))
		settle()
		if n := s.keys.Len(); n != 0 {
			t.Errorf("%d keys", n)
		}
		s.done(s.engine.Instantiate(t.Context(), "7"))
		settle()
		if n := s.keys.Len(); n != 0 {
			t.Errorf("%d keys", n)
		}
	})
}

// TestStatusOfDetached: EMCO reads a detached cluster as unknown.
func TestStatusOfDetached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.importContext("7", shopText)
		s.clusters.Cluster("edge", "c2").SetMode(fake.ModeBlackHole)
		ref := s.ref(s.engine.Instantiate(t.Context(), "7"))
		settle()
		status, err := s.engine.Status(t.Context(), "7")
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range status.Clusters {
			if c.Phase == rsync.PhaseRetrying {
				if err := s.engine.Detach(t.Context(), "7", c.Cluster); err != nil {
					t.Fatal(err)
				}
			}
		}
		s.done(ref, nil)
		settle()
		s.reads("7", "Instantiated; db@c1 Available d=Applied; "+
			"web@c1 Available a=Applied b=Applied; web@c2 Unknown a=Failed")
	})
}
