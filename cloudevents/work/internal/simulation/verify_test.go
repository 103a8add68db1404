// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package simulation_test

import (
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/internal/testing/worktest"
)

func (f *fleet) bundle() bool { return f.profile.Traits().Bundle }

// endFaults ends the faults: owners have all their works, most inventories are complete, and silent
// losses are repaired.
func (f *fleet) endFaults() {
	f.faults.on.Store(false)
	time.Sleep(20 * time.Second)
	for _, o := range f.owners {
		o.link.setCut(false)
		o.recreate(len(o.absent))
		if !f.config.Open && (!o.complete || f.bundle()) { // without incarnations a late message may revive a work
			o.completeInventory()
		}
	}
	for _, c := range f.clusters {
		c.link.setCut(false)
	}
	f.waitRepair()
	synctest.Wait()
}

// waitRepair waits for the repair of lost messages. No process reconnects, and no user calls
// anything.
func (f *fleet) waitRepair() {
	if f.bundle() {
		time.Sleep(2*work.DefaultResyncInterval + time.Minute)
		return
	}
	time.Sleep(repairTime)
}

// repairTime is less than five minutes. Digests arrive every minute. After a comparison that failed
// because its messages were lost as well, some digests are skipped.
const repairTime = 4*time.Minute + 30*time.Second

// serveAll runs the work controllers, and the source users with finalizers, in enough rounds to end
// all their work.
func (f *fleet) serveAll() {
	for range 8 {
		f.settle()
		for _, c := range f.clusters {
			c.serve(false)
		}
		for _, o := range f.owners {
			list, err := o.works("").List(f.t.Context(), metav1.ListOptions{})
			if err != nil {
				f.t.Fatal(err)
			}
			for i := range list.Items {
				if w := &list.Items[i]; w.DeletionTimestamp != nil {
					o.release(w.Namespace, w.Name)
				}
			}
		}
	}
	f.settle()
	f.inspect()
}

// verify ends the faults, runs serveAll, and compares the expected with the actual state.
func (f *fleet) verify() {
	f.endFaults()
	f.serveAll()
	for _, c := range f.clusters {
		f.verifyCluster(c)
		if err := c.CheckBudget(); err != nil {
			f.t.Errorf("%s: %v", c.name, err)
		}
		f.verifyStore(c.name, c.store, c.KeptRecords)
	}
	for _, o := range f.owners {
		f.verifySource(o)
		f.verifyStore(o.id, o.store, o.KeptRecords)
	}
}

// wanted returns the expected works of a cluster, by name.
func (f *fleet) wanted(c *cluster) map[string]*wish {
	out := map[string]*wish{}
	for _, o := range append(slices.Clone(f.owners), f.enhancementOwner) {
		if o == nil {
			continue
		}
		for _, w := range o.wants {
			if w.cluster == c.name {
				out[w.name] = w
			}
		}
	}
	return out
}

// shown is the state of a work that one side shows.
type shown struct{ Value, Label, Status string }

// verifyCluster compares the works of an agent, and the values applied on the cluster, with the
// owners' wishes. Each unwanted work or value must be explained by an anomaly of the protocol.
func (f *fleet) verifyCluster(c *cluster) {
	want, got := map[string]shown{}, map[string]shown{}
	wishes := f.wanted(c)
	for name, w := range wishes {
		if !w.unsure() {
			want[name] = shown{Value: w.Value, Label: w.Label}
		}
	}
	for _, w := range f.verifyWatch(c.name, c.watcher, c.works()) {
		value := worktest.Value(f.t, w)
		if wish := wishes[w.Name]; wish != nil && wish.unsure() || wish == nil && f.excusesWork(value) {
			continue
		}
		got[w.Name] = shown{Value: value, Label: w.Labels["label"]}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		f.t.Errorf("%s has other works than its owners want (-want +got):\n%s", c.name, diff)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	applied := map[string]shown{}
	for name, there := range c.applied {
		wish := wishes[name]
		if wish != nil && wish.unsure() || wish == nil && (f.excusesWork(there.value) || f.excusesApplied(there)) {
			continue
		}
		applied[name] = shown{Value: there.value, Label: want[name].Label}
	}
	if diff := cmp.Diff(want, applied); diff != "" {
		f.t.Errorf("on %s is applied what its owners do not want (-want +got):\n%s", c.name, diff)
	}
}

// excusesWork reports whether an anomaly explains an unwanted work. It is the third anomaly if the
// source lost its record and never had a complete inventory. It is the second anomaly if the
// source's clock went back: a message of an earlier process may have revived the work, also one
// that ended later. For enhancement sources it is the fourth anomaly.
func (f *fleet) excusesWork(value string) bool {
	l := f.lifeOf(value)
	o := f.ownerOf(l)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case o == f.enhancementOwner:
		if excused := f.clusterOf(l).restartedSince(l.began) || !o.lost[l.cluster].Before(l.ended) || l.reused; !excused {
			return false
		}
		f.count.add("excused: deleted work of an enhancement source revived, or its deletion lost", 1)
		return true
	case o.lost[l.cluster].Before(l.ended):
		revived := o.back && !o.complete && l.began.Before(o.lost[l.cluster])
		if revived {
			f.count.add("excused: work revived by a late message of a dead process with a clock ahead", 1)
		}
		return revived
	case !o.complete:
		f.count.add("excused: unknown work, inventory never complete", 1)
		return true
	case o.back:
		f.count.add("excused: work revived by a late message of a dead process with a clock ahead", 1)
		return true
	}
	return false
}

// excusesApplied reports whether the first anomaly explains an applied value. After the value was
// applied, the agent restarted empty, and the source had lost its record or lost it later. No
// process has a record of the work then. The profile ManifestBundle has no sessions, so there the
// restart is enough.
func (f *fleet) excusesApplied(there deployed) bool {
	l := f.lifeOf(there.value)
	o, c := f.ownerOf(l), f.clusterOf(l)
	f.mu.Lock()
	defer f.mu.Unlock()
	lost := o.lost[l.cluster]
	excused := slices.ContainsFunc(c.restarts, func(restart time.Time) bool {
		return !restart.Before(there.at) &&
			(f.bundle() || !lost.Before(there.at) || !lost.Before(l.ended) || !l.created.Before(restart))
	})
	if excused {
		f.count.add("excused: record lost and agent restarted empty", 1)
	}
	return excused
}

// record is what a source and an agent must both know about a work.
type record struct {
	UID     string
	Version int64
	Phase   protocol.AgentState
}

// verifySource compares the works of a source, and their statuses, with the wishes of its owner and
// the reports of the clusters.
func (f *fleet) verifySource(o *owner) {
	want, got := map[string]shown{}, map[string]shown{}
	records, numbers := map[string]record{}, map[string]record{}
	for id, r := range o.State().Records {
		numbers[id] = record{r.UID, r.Version, protocol.Held}
		if r.Deleting {
			numbers[id] = record{r.UID, r.Version, protocol.Deleting}
		}
	}
	for _, c := range o.clusters {
		held := c.State().Records
		for name, w := range f.wanted(c) {
			if w.owner != o.id {
				continue
			}
			s := shown{Value: w.Value, Label: w.Label}
			if w.bad() {
				s.Status = "True InvalidSpec"
			} else if obj, err := c.works().Get(f.t.Context(), name, metav1.GetOptions{}); err == nil {
				s.Status = worktest.Applied(obj)
			}
			id := f.profile.ResourceID(o.id, c.name, name)
			want[w.key()], records[id] = s, record{held[id].UID, held[id].Version, held[id].Phase}
		}
	}
	for _, w := range f.verifyWatch(o.id, o.watcher, o.works("")) {
		s := shown{Value: worktest.Value(f.t, w), Label: w.Labels["label"], Status: worktest.Applied(w)}
		if c := meta.FindStatusCondition(w.Status.Conditions, workv1.WorkDegraded); c != nil {
			s.Status = string(c.Status) + " " + c.Reason
		}
		got[w.Namespace+"/"+w.Name] = s
	}
	if diff := cmp.Diff(want, got); diff != "" {
		f.t.Errorf("%s sees other works or statuses than there are (-want +got):\n%s", o.id, diff)
	}
	if diff := cmp.Diff(numbers, records); diff != "" && !f.bundle() {
		f.t.Errorf("%s and its agents know other versions (-%s +agents):\n%s", o.id, o.id, diff)
	}
	for key, s := range got {
		if value, _, _ := strings.Cut(s.Status, " "); !wishBad(o, key) && value != s.Value {
			f.t.Errorf("%s sees status %q of %s, whose value is %q", o.id, s.Status, key, s.Value)
		}
	}
}

func wishBad(o *owner, key string) bool { return o.wants[key] != nil && o.wants[key].bad() }

// verifyWatch compares the works that a process lists with the events of its watch, and returns the
// list.
func (f *fleet) verifyWatch(who string, c *watcher, works worktyped.ManifestWorkInterface) []*workv1.ManifestWork {
	list, err := works.List(f.t.Context(), metav1.ListOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	var out []*workv1.ManifestWork
	versions := map[string]string{}
	for i := range list.Items {
		w := &list.Items[i]
		out = append(out, w)
		versions[w.Namespace+"/"+w.Name] = w.ResourceVersion
	}
	if diff := cmp.Diff(versions, c.versions()); diff != "" {
		f.t.Errorf("the watch of %s sent other versions than are listed (-listed +sent):\n%s", who, diff)
	}
	return out
}

// verifyQuiet reconnects all processes once more. When all agree, no spec is sent, and statuses are
// sent only to sources with unknown works.
func (f *fleet) verifyQuiet() {
	if f.t.Failed() {
		return
	}
	f.mu.Lock()
	f.specs, f.statuses = 0, map[string]int{}
	f.mu.Unlock()
	f.reconnect()
	time.Sleep(15 * time.Second)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.specs > 0 {
		f.t.Errorf("a reconnect of peers that agree sent %d specs", f.specs)
	}
	for _, o := range f.owners {
		if n := f.statuses[o.id]; n > 0 && o.complete && len(o.wants) > 0 {
			f.t.Errorf("a reconnect of peers that agree sent %d statuses to %s", n, o.id)
		}
	}
}

// verifyMemory deletes all works. After their TTL, no process has a record of them.
func (f *fleet) verifyMemory() {
	if f.t.Failed() || f.seed%4 != 0 || f.config.Open {
		return
	}
	for _, o := range f.owners {
		for _, w := range o.wants {
			o.delete(w)
		}
	}
	f.serveAll()
	time.Sleep(tombstoneTTL + 4*time.Hour)
	f.reconnect()
	time.Sleep(15 * time.Second)
	for _, o := range f.owners {
		if state := o.State(); state.Works+state.Tombstones+state.Lists+state.Expiring > 0 {
			f.t.Errorf("%s has %d works, %d tombstones, %d lists and %d expiring tombstones",
				o.id, state.Works, state.Tombstones, state.Lists, state.Expiring)
		}
	}
	for _, c := range f.clusters {
		state := c.State()
		if state.Works+state.Expiring > 0 {
			f.t.Errorf("%s has %d works, %d expiring tombstones", c.name, state.Works, state.Expiring)
		}
		if state.Bytes != state.NameBytes {
			f.t.Errorf("%s counts %d bytes, and %d of them for sources", c.name, state.Bytes, state.NameBytes)
		}
	}
}
