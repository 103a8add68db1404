// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package simulation_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/internal/testing/worktest"
)

// watcher is the client of a watch. It checks the order of events and stores the resulting state.
// A process has one from its start.
type watcher struct {
	mu      sync.Mutex
	have    map[string]*workv1.ManifestWork // by namespace and name
	highest uint64
	// check checks an event against the users' operations. before is nil for a new object.
	check func(kind watch.EventType, before, obj *workv1.ManifestWork) error
}

func (f *fleet) startWatch(who string, start func(context.Context, metav1.ListOptions) (watch.Interface, error),
	check func(watch.EventType, *workv1.ManifestWork, *workv1.ManifestWork) error) *watcher {
	w, err := start(f.t.Context(), metav1.ListOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	c := &watcher{have: map[string]*workv1.ManifestWork{}, check: check}
	go func() {
		for e := range w.ResultChan() {
			obj, ok := e.Object.(*workv1.ManifestWork)
			if !ok {
				f.t.Errorf("the watch of %s got %v", who, e)
				continue
			}
			if err := c.take(e.Type, obj); err != nil {
				f.t.Errorf("the watch of %s at %s: %s of %s/%s: %v",
					who, time.Now().Format("15:04:05.000"), e.Type, obj.Namespace, obj.Name, err)
			}
		}
	}()
	return c
}

func (c *watcher) take(kind watch.EventType, obj *workv1.ManifestWork) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	version, err := strconv.ParseUint(obj.ResourceVersion, 10, 64)
	if err != nil {
		return err
	}
	key := obj.Namespace + "/" + obj.Name
	before := c.have[key]
	switch {
	case kind != watch.Added && version <= c.highest:
		return fmt.Errorf("version %d after %d", version, c.highest)
	case (kind == watch.Added) == (before != nil):
		return fmt.Errorf("there before: %t", before != nil)
	}
	c.highest = max(c.highest, version)
	c.have[key] = obj
	if kind == watch.Deleted {
		delete(c.have, key)
	}
	if kind == watch.Modified && unchangedBut(before, obj) {
		return fmt.Errorf("nothing has changed: %+v", obj)
	}
	return c.check(kind, before, obj)
}

// unchangedBut reports whether two states of an object are equal except for their resourceVersion.
func unchangedBut(a, b *workv1.ManifestWork) bool {
	same := *b
	same.ResourceVersion = a.ResourceVersion
	return apiequality.Semantic.DeepEqual(a, &same)
}

// versions returns the resourceVersions of the objects that the watch has sent.
func (c *watcher) versions() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]string{}
	for key, obj := range c.have {
		out[key] = obj.ResourceVersion
	}
	return out
}

// watchSource watches the works of a source. A status must be about the incarnation that shows it
// and must never turn back. A work must not be removed while its cluster has it.
func (f *fleet) watchSource(o *owner) {
	o.watcher = f.startWatch(o.id, o.works("").Watch, func(kind watch.EventType, before, obj *workv1.ManifestWork) error {
		l := f.lifeOf(worktest.Value(f.t, obj))
		if l == nil || l.owner != o.id || l.key() != obj.Namespace+"/"+obj.Name {
			return fmt.Errorf("its value is not its owner's: %+v", l)
		}
		if before != nil && before.UID == obj.UID && obj.Generation < before.Generation {
			return fmt.Errorf("generation %d after %d", obj.Generation, before.Generation)
		}
		if kind == watch.Deleted {
			return f.checkGone(o, l)
		}
		if err := f.checkObserved(l, obj); err != nil {
			return err
		}
		return f.checkStatus(l, before, obj)
	})
}

// checkObserved checks the observed generation of a report against the value that it reports.
// Enhancement sources count generations from the messages of their agents, so reports of a
// enhancement agent are not checked.
func (f *fleet) checkObserved(l *life, obj *workv1.ManifestWork) error {
	value, _ := reported(obj)
	spec := worktest.Value(f.t, obj)
	if value == "" || f.bundle() || l.cluster == enhancementCluster {
		return nil
	}
	var observed int64
	for _, c := range obj.Status.Conditions {
		if c.Type == workv1.WorkApplied {
			observed = c.ObservedGeneration
		}
	}
	if value == spec && observed < obj.Generation && f.steppedBack(&f.ownerOf(l).host) {
		// An old spec was applied in between, so the report is about an earlier spec with the same
		// value.
		f.count.add("excused: report of before an old spec, after a source's clock step", 1)
		return nil
	}
	current := value == spec && obj.DeletionTimestamp == nil
	if current != (observed == obj.Generation) || observed > obj.Generation {
		return fmt.Errorf("status %q is of generation %d, and value %q has generation %d",
			value, observed, spec, obj.Generation)
	}
	return nil
}

func (f *fleet) checkGone(o *owner, l *life) error {
	there := f.clusterOf(l).deployed(l.name)
	f.mu.Lock()
	wanted, has := l.ended.IsZero(), f.lives[there.value] == l && o.forgot[l.cluster].Before(l.ended)
	f.mu.Unlock()
	switch {
	case wanted:
		return fmt.Errorf("its owner did not delete it")
	case has && !f.bundle() && !f.excusesApplied(there):
		return fmt.Errorf("its cluster still has it")
	}
	return nil
}

func (f *fleet) checkStatus(l *life, before, obj *workv1.ManifestWork) error {
	f.mu.Lock()
	known := f.reports[report{string(obj.UID), worktest.Applied(obj)}]
	f.mu.Unlock()
	if worktest.Applied(obj) != "" && !known && !f.bundle() && l.cluster != enhancementCluster {
		return fmt.Errorf("status %q was not reported for incarnation %s", worktest.Applied(obj), obj.UID)
	}
	if before == nil || before.UID != obj.UID {
		return nil
	}
	_, number := reported(obj)
	if _, last := reported(before); number > 0 && number < last {
		if f.steppedBack(&f.clusterOf(l).host) {
			f.count.add("excused: old status after an agent's clock step", 1)
			return nil
		}
		return fmt.Errorf("status %q after %q", worktest.Applied(obj), worktest.Applied(before))
	}
	return nil
}

// reported splits the report of a work controller into the applied value and the number of the
// report.
func reported(w *workv1.ManifestWork) (value string, number int) {
	value, n, _ := strings.Cut(worktest.Applied(w), " ")
	number, _ = strconv.Atoi(n)
	return value, number
}

func (f *fleet) steppedBack(p *host) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return p.back
}

// watchAgent watches the works of an agent. They must be works of their owners, must not be
// deleted while their owners want them, and must have generations as on an API server.
func (f *fleet) watchAgent(c *cluster) {
	c.watcher = f.startWatch(c.name, c.works().Watch, func(kind watch.EventType, before, obj *workv1.ManifestWork) error {
		if err := f.checkGeneration(before, obj); err != nil {
			return err
		}
		if len(obj.Spec.Workload.Manifests) == 0 {
			if kind == watch.Added && obj.DeletionTimestamp == nil {
				return fmt.Errorf("it has no manifests")
			}
			return nil // only its deletion was received
		}
		value := worktest.Value(f.t, obj)
		l := f.lifeOf(value)
		if l == nil || l.key() != obj.Namespace+"/"+obj.Name || l.cluster != c.name {
			return fmt.Errorf("its value is not its owner's: %+v", l)
		}
		if strings.HasPrefix(value, badValue) {
			return fmt.Errorf("value %q cannot be decoded", value)
		}
		leaves := kind == watch.Deleted && before.DeletionTimestamp == nil ||
			kind == watch.Modified && before.DeletionTimestamp == nil && obj.DeletionTimestamp != nil
		if leaves && f.lasts(l) {
			return f.excuse(l, "deleted, and its owner wants it")
		}
		return nil
	})
}

// checkGeneration checks that the generation of an object increases only when its spec changes or
// its deletion begins: no source here sets a spec to an earlier value. There are two exceptions. In
// the profile ManifestBundle the generation may increase as versions do. If clocks are set, it may
// increase with a late message of a dead process, which had a higher count.
func (f *fleet) checkGeneration(before, obj *workv1.ManifestWork) error {
	if before == nil || before.UID != obj.UID {
		return nil
	}
	changed := !apiequality.Semantic.DeepEqual(before.Spec, obj.Spec) ||
		(before.DeletionTimestamp == nil) != (obj.DeletionTimestamp == nil)
	up := obj.Generation > before.Generation
	if changed != up && (changed || !f.bundle() && !f.config.Clocks) || obj.Generation < before.Generation {
		return fmt.Errorf("generation %d after %d, changed: %t", obj.Generation, before.Generation, changed)
	}
	return nil
}

// excuse returns nil if the second anomaly of the protocol explains a violation: a late message of
// a dead process may act once, if the source's clock went back. In the profile ManifestBundle a
// restart is enough, because the next process counts its versions from the beginning.
func (f *fleet) excuse(l *life, what string) error {
	o := f.ownerOf(l)
	f.mu.Lock()
	defer f.mu.Unlock()
	if (o.back || f.bundle()) && !o.lost[l.cluster].IsZero() {
		f.count.add("excused: late message of a dead process with greater versions", 1)
		return nil
	}
	return fmt.Errorf("%s: %+v", what, l)
}

// inspect checks the agents' records: versions never decrease in a process, and no work is being
// deleted in an incarnation that its owner has not deleted.
func (f *fleet) inspect() {
	if f.profile.Traits().Bundle {
		return
	}
	for _, c := range f.clusters {
		records := c.State().Records
		f.mu.Lock()
		for key, r := range records {
			// Enhancement sources, which have no UIDs, count from the beginning.
			if old, ok := c.records[key]; ok && r.Version < old.Version && r.UID != "" {
				f.t.Errorf("%s: version %d of %s after %d", c.name, r.Version, key, old.Version)
			}
			if l := f.uids[r.UID]; l != nil && r.Phase != protocol.Held && l.ended.IsZero() {
				f.t.Errorf("%s: %s is deleted in an incarnation that its owner wants: %+v, %+v", c.name, key, r, l)
			}
		}
		f.mu.Unlock()
		c.records = records
	}
}
