// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/clientset"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/journal"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/codec"
)

// Forget implements the method of work.Source.
func (s *Source) Forget(ctx context.Context, cluster string) error {
	if err := codec.ValidateName("cluster", cluster); err != nil {
		return fmt.Errorf("work.Source.Forget: %w", err)
	}
	return s.write(ctx, func() error {
		if c := s.clusters[cluster]; c != nil {
			s.forgetLocked(c)
		} else {
			s.keepMetaLocked() // changes nothing, but is rejected if another replica is the leader
		}
		return nil
	})
}

// forgetLocked ends the deletions of a cluster, and its record if no works remain.
func (r *records) forgetLocked(c *sourceCluster) {
	deleting := slices.DeleteFunc(c.worksLocked(), func(w *sourceWork) bool {
		return w.Object != nil && !w.phase.IsDeleting()
	})
	for _, w := range deleting {
		w.finishLocked()
	}
	r.asked = r.asked && len(deleting) == 0 // the agent may still have them
	if len(c.worksLocked()) > 0 {
		return
	}
	c.resetLocked()
	c.reported.clearLocked()
	r.removeClusterLocked(c)
	last := storedCluster{Highest: c.highest, Outdated: c.outdated, Forgotten: true}
	if c.gap != nil {
		last.Gap = c.gap.Next(c.highest)
	}
	r.forgotten.putLocked(&forgottenCluster{records: r, name: c.name, storedCluster: last})
}

// Abandon implements the method of work.Source.
func (s *Source) Abandon(ctx context.Context, cluster, name string) error {
	if err := codec.ValidateName("cluster", cluster); err != nil {
		return fmt.Errorf("work.Source.Abandon: %w", err)
	}
	refresher := clientset.NewRefresher(s.replica.refresh, false)
	for {
		err := s.write(ctx, func() error { return s.abandonLocked(cluster, name) })
		if !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return err
		}
		if again, failed := refresher.Again(ctx); failed != nil || !again {
			return cmp.Or(failed, err)
		}
	}
}

func (s *Source) abandonLocked(cluster, name string) error {
	w := s.cache.Get(cluster, name)
	switch {
	case w == nil:
		return apierrors.NewNotFound(clientset.Resource, name)
	case !w.phase.IsDeleting():
		return apierrors.NewConflict(clientset.Resource, name,
			errors.New("the work is not being deleted; delete it before you abandon it"))
	}
	w.finishLocked()
	s.asked = false // the agent may still have it
	return nil
}

// forgottenCluster is the remaining record of a forgotten cluster. Without it, the versions that
// its agent reports after a return would prove that the Store is an older copy.
type forgottenCluster struct {
	records *records
	name    string
	storedCluster
}

func (f *forgottenCluster) Content() any {
	if f.records.forgotten.byName[f.name] != f {
		return nil
	}
	out := f.storedCluster
	if !out.Gap.Kept() {
		out.Gap = nil
	}
	return &out
}

func (f *forgottenCluster) Saved() {}

func (f *forgottenCluster) keepLocked() { f.records.markLocked(f, journal.PrefixCluster, f.name) }

func (f *forgottenCluster) size() int { return forgottenCost + len(f.name) }

const (
	// forgottenCost is the estimated bytes of a forgotten cluster without its name, maxForgotten
	// the bound for all.
	forgottenCost = 256
	maxForgotten  = 2 << 20
)

// forgottenClusters are the forgotten clusters that have not returned.
type forgottenClusters struct {
	byName map[string]*forgottenCluster
	bytes  int
}

// putLocked adds a forgotten cluster. If there is no room, it removes the clusters with the lowest
// versions. If such a cluster returns, the source treats its Store as an older copy, and deletes no
// unknown works there before InventoryComplete.
func (o *forgottenClusters) putLocked(f *forgottenCluster) {
	o.takeLocked(f.name)
	if o.byName == nil {
		o.byName = map[string]*forgottenCluster{}
	}
	o.byName[f.name] = f
	o.bytes += f.size()
	f.keepLocked()
	for o.bytes > maxForgotten {
		oldest := f
		for _, one := range o.byName {
			if one.Highest < oldest.Highest {
				oldest = one
			}
		}
		o.takeLocked(oldest.name)
		oldest.keepLocked()
	}
}

// takeLocked removes a forgotten cluster and returns it, or nil if the cluster was not forgotten.
func (o *forgottenClusters) takeLocked(name string) *forgottenCluster {
	f := o.byName[name]
	if f != nil {
		delete(o.byName, name)
		o.bytes -= f.size()
	}
	return f
}

// declareLocked clears the outdated clusters, as [records.declareLocked] does.
func (o *forgottenClusters) declareLocked() {
	for _, f := range o.byName {
		if f.Outdated || f.Gap != nil && !f.records.inherited {
			f.Outdated, f.Gap = false, nil
			f.keepLocked()
		}
	}
}

// loadForgottenLocked loads the record of a forgotten cluster.
func (r *records) loadForgottenLocked(name string, stored *storedCluster) {
	if c := r.clusters[name]; c != nil { // another replica has forgotten it
		if len(c.worksLocked()) > 0 {
			return
		}
		r.removeClusterLocked(c)
	}
	r.forgotten.putLocked(&forgottenCluster{records: r, name: name, storedCluster: *stored})
}

// removeClusterLocked ends the record of a cluster without works.
func (r *records) removeClusterLocked(c *sourceCluster) {
	delete(r.clusters, c.name)
	r.unknown.Set(peer.ClusterCost+int64(len(c.name)), 0)
}

// tombstones are the records of removed works, in the order of their expiry. The source's mutex
// guards them.
type tombstones struct{ order list.List }

// addLocked adds a record to the tombstones, as the newest.
func (t *tombstones) addLocked(w *sourceWork) {
	w.cluster.tombstones[w.id] = w
	if w.place == nil {
		w.place = t.order.PushBack(w)
	}
}

// removeLocked undoes addLocked.
func (t *tombstones) removeLocked(w *sourceWork) {
	if w.cluster.tombstones[w.id] == w {
		delete(w.cluster.tombstones, w.id)
	}
	if w.place != nil {
		t.order.Remove(w.place)
		w.place = nil
	}
}

func (r *records) expireTombstonesLocked() {
	for now := r.now(); r.tombstones.order.Len() > 0; {
		w := r.tombstones.order.Front().Value.(*sourceWork)
		if now.Sub(w.deleted.Time) < r.options.TombstoneTTL {
			return
		}
		w.dropLocked(nil)
	}
}

// finishLocked ends the deletion of a work: its agent is done, or was given up.
func (w *sourceWork) finishLocked() {
	if w.Object == nil {
		w.dropLocked(nil)
		return
	}
	if w.phase == protocol.SourceGone {
		return // reported again while other finalizers hold the object
	}
	w.phase = protocol.SourceGone
	w.confirmLocked()
	rest := slices.DeleteFunc(slices.Clone(w.Object.Finalizers), func(f string) bool {
		return f == workv1.ManifestWorkFinalizer
	})
	if len(rest) > 0 {
		obj := *w.Object
		obj.Finalizers = rest
		w.putLocked(&obj)
		return
	}
	w.dropLocked(nil)
}

// dropLocked removes a record, and its object from the cache. last is the last state that watches
// deliver; nil is the current state.
func (w *sourceWork) dropLocked(last *workv1.ManifestWork) {
	c, r := w.cluster, w.cluster.records
	r.cache.Remove(w, last)
	c.delivery.unlinkLocked(w)
	w.phase = protocol.SourceAbsent
	if key := (workID{c.name, w.id}); r.works[key] == w {
		delete(r.works, key)
		c.suspects.forgetLocked(w.id)
		w.accountLocked()
		w.keepLocked()
		w.resumeLocked() // if a later work has this key, its record is saved instead
	}
	if c.traits.Bundle { // a later work of this name needs higher numbers
		past := report{version: max(w.version, w.bundle.Floor), seq: w.seq}
		c.reported.sawLocked(w.id, datedReport{report: past, at: c.now(), past: true})
	}
	r.tombstones.removeLocked(w)
}

// deleteUnknownLocked makes a tombstone for an unknown work of an agent. It returns an error if the
// tombstone does not fit the budget; the next list with the work tries again.
func (c *sourceCluster) deleteUnknownLocked(id, name string) (*sourceWork, error) {
	now := c.now()
	c.records.expireTombstonesLocked()
	if name == id {
		name = "" // the codec's placeholder: the event has no name
	}
	w := &sourceWork{
		cluster: c, id: id, name: name, uid: types.UID(uuid.NewString()), session: c.session,
		phase: protocol.SourceDeleting, deleted: metav1.NewTime(now).Rfc3339Copy(),
	}
	if !c.account.Charge(w.tombstoneSize()) {
		return nil, peer.Unusable(peer.RefusedBudget,
			"delete the unknown work %s of cluster %q, which must delete %d others: %w",
			id, c.name, len(c.tombstones), c.account.ErrFull())
	}
	w.charged = w.tombstoneSize()
	c.suspects.forgetLocked(id)
	w.numberLocked(nil)
	w.createV, w.deleteV = w.version, w.version
	c.records.works[workID{c.name, id}] = w
	c.records.tombstones.addLocked(w)
	c.delivery.unconfirmLocked(w)
	c.records.unknownWorks.Error(c.logger, fmt.Errorf(
		"the agent has work %q, but this source does not: it was not created again after a restart, or another source has "+
			"the same ID", cmp.Or(name, id)), "unknown", c.name)
	return w, nil
}
