// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/codec"
)

// inventoryLocked returns the completeness of the source's works, for one cluster.
func (c *sourceCluster) inventoryLocked() protocol.Inventory {
	r := c.records
	_, rival := r.presence.NewestLocked()
	return protocol.Inventory{Complete: r.complete, Outdated: c.outdated, Replaced: r.replaced, Rival: rival}
}

// deletesLocked reports whether a work of the cluster is unknown and must be deleted. w is nil for
// an unknown work.
func (c *sourceCluster) deletesLocked(w *sourceWork, id string) bool {
	return w == nil && c.inventoryLocked().Whole() && c.suspects.clearsLocked(id)
}

// detectOutdatedLocked compares a version that a cluster has reported of a work with the versions
// that this Store has assigned. If this Store cannot have assigned the version, the cluster is
// marked as outdated. The version must be recorded after this call.
func (c *sourceCluster) detectOutdatedLocked(w *sourceWork, id string, version int64) {
	if c.gap == nil || c.outdated {
		return
	}
	gap := c.gap
	if w != nil && version <= w.version {
		return
	}
	if c.traits.Bundle { // versions are counted for each work
		gap = &protocol.Gap{}
		if past := c.reported.byID[id]; past.past {
			gap.From = past.version
		}
		if w != nil {
			gap.From = max(w.version, w.bundle.Floor)
		}
	}
	if !gap.Has(version) {
		return
	}
	c.outdated = true
	c.keepLocked()
	c.logger.Info("Detected a Store that is older than the works of an agent: unknown works stay until "+
		"InventoryComplete is called", "cluster", c.name, "resourceID", id, "version", version)
}

// openGapsLocked begins to check the reported versions of all clusters of a Store with a complete
// inventory.
func (r *records) openGapsLocked() {
	r.inherited = r.complete
	if !r.inherited {
		return
	}
	for _, w := range r.works {
		w.cluster.highest = max(w.cluster.highest, w.version)
	}
	for _, c := range r.clusters {
		c.gap = c.gap.Next(c.highest)
	}
	for _, f := range r.forgotten.byName {
		f.Gap = f.Gap.Next(f.Highest)
	}
}

// checkedLocked ends the check of a cluster after its agent has listed all its works.
func (c *sourceCluster) checkedLocked() {
	if c.gap == nil || c.outdated || c.dialect != peer.DialectExtended {
		return
	}
	kept := c.gap.Kept()
	c.gap = nil
	if kept {
		c.keepLocked()
	}
}

// declareLocked makes the inventory complete and clears the outdated clusters. If the inventory of
// the Store was complete, the checks of the other clusters go on: a program may declare at each
// start, without regard to a restored backup.
func (r *records) declareLocked() {
	r.complete, r.asked, r.replaced = true, false, false
	r.forgotten.declareLocked()
	for _, c := range r.clusters {
		if c.outdated || c.gap != nil && !r.inherited {
			c.outdated, c.gap = false, nil
			c.keepLocked()
		}
	}
}

// inventoryProblems returns why unknown works are kept although the inventory is complete.
func (r *records) inventoryProblems() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, first := 0, ""
	for _, c := range r.clusters {
		if !c.outdated {
			continue
		}
		if n++; first == "" || c.name < first {
			first = c.name
		}
	}
	var errs []error
	if n > 0 {
		errs = append(errs, fmt.Errorf("the Store is older than the works of %d clusters (first: %s): a backup was "+
			"restored; unknown works stay until InventoryComplete is called", n, first))
	}
	if r.replaced && !r.presence.OutrankedLocked() {
		errs = append(errs, errors.New("a newer process with the same ID was connected and may have created works: "+
			"unknown works stay until InventoryComplete is called"))
	}
	return errors.Join(errs...)
}

// rivals reacts to other processes with this source's ID, which the presence on the link detects:
// only the newest process writes. The source's mutex guards it.
type rivals struct {
	*records
	exchange *exchange
	withheld bool // unknown works were kept, because a rival may have created them
}

// changedLocked is called when rivals were added or removed.
func (v *rivals) changedLocked() {
	outranked := v.presence.OutrankedLocked()
	switch _, rival := v.presence.NewestLocked(); {
	case outranked && !v.outranked:
		v.outranked, v.replaced = true, true
		v.exchange.giveUpLocked()
		v.logger.Info("Stopped writing: a newer process with the same ID is connected")
	case !outranked && v.outranked:
		v.outranked, v.withheld = false, false
		v.logger.Info("Resumed writing: no newer process with the same ID is connected")
		if v.engine.Connected() {
			v.exchange.beginLocked()
			for _, c := range v.clusters {
				sendUnconfirmedLocked(c.worksLocked())
			}
		}
	case rival:
		v.withheld = true
	case v.withheld:
		v.withheld = false
		v.exchange.askLists()
	}
}

// checkedLocked is called when a check for rivals has ended.
func (v *rivals) checkedLocked() {
	for _, c := range v.clusters {
		c.askSuspectsLocked()
	}
}

// check returns an error while another process with this source's ID is connected. With outranked,
// it returns an error only if that process is newer.
func (v *rivals) check(outranked bool) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if outranked && !v.presence.OutrankedLocked() {
		return nil
	}
	return v.describeLocked()
}

func (v *rivals) describeLocked() error {
	const useReplicas = "end one of them, or give both a SharedStore and a SharedGroup"
	return v.presence.DescribeLocked("this one does not write; "+useReplicas,
		"this one deletes no unknown works; "+useReplicas)
}

// detect makes the presence detect other processes with this ID. Replicas share the ID on purpose.
func (v *rivals) detect() {
	if v.options.SharedGroup != "" {
		return
	}
	v.presence = peer.NewPresence(peer.Presence{
		Lock: v.mu, Profile: v.options.Profile, Clock: v.options.Clock, IDs: v.ids,
		Header:   codec.Header{Source: v.options.SourceID},
		Self:     protocol.Process{Session: uuid.NewString()},
		Interval: peer.SourceInterval,
		Changed:  v.changedLocked, Checked: v.checkedLocked,
	})
}

// suspects are the works of one cluster that another process with this ID may have made. The
// source's mutex guards them.
type suspects struct {
	cluster *sourceCluster
	byID    map[string]suspect // by resource ID
}

// suspect is a work that another process with this ID may have made.
type suspect struct {
	check   uint64    // number of the check that detects that process
	clearAt time.Time // when that check ended
}

// clearTime is how long the result of a check is valid after its end. The suspects are requested
// again at the end of the check.
const clearTime = time.Minute

func suspectSize(id string) int64 { return int64(peer.SuspectCost + len(id)) }

// clearsLocked reports whether no other process with this ID can have made the version that a
// cluster reports of a work: a check for rivals has ended since the version was first seen.
// Otherwise it returns false, and the work is requested again after the check.
func (u *suspects) clearsLocked(id string) bool {
	c := u.cluster
	if !c.presence.WorksLocked() {
		return true
	}
	one, seen := u.byID[id]
	if seen && one.clearAt.IsZero() {
		return false
	}
	if since := c.now().Sub(one.clearAt); seen && 0 <= since && since < clearTime {
		return true
	}
	if !seen && !c.account.Charge(suspectSize(id)) {
		err := peer.Unusable(peer.RefusedBudget, "record the unknown work %s of cluster %q: %w",
			id, c.name, c.account.ErrFull())
		c.refuseEntryLocked(err)
		return false
	}
	if u.byID == nil {
		u.byID = map[string]suspect{}
	}
	u.byID[id] = suspect{check: c.presence.NextLocked()}
	return false
}

func (u *suspects) forgetLocked(id string) {
	if _, ok := u.byID[id]; ok {
		u.cluster.account.Set(suspectSize(id), 0)
		delete(u.byID, id)
	}
	if len(u.byID) == 0 {
		u.byID = nil // maps do not shrink
	}
}

func (u *suspects) forgetIfLocked(choose func(id string) bool) {
	for id := range u.byID {
		if choose(id) {
			u.forgetLocked(id)
		}
	}
}

// partOf returns the part of a list that has all given works.
func partOf(ids []string, buckets int) codec.Part {
	listed := map[int]struct{}{}
	for _, id := range ids {
		listed[protocol.Bucket(id, buckets)] = struct{}{}
	}
	return codec.Part{Buckets: buckets, Listed: slices.Sorted(maps.Keys(listed))}
}

// checkedLocked returns the suspects of the check that has ended.
func (u *suspects) checkedLocked() (ids []string) {
	for id, one := range u.byID {
		if one.check <= u.cluster.presence.EndedLocked() && one.clearAt.IsZero() {
			u.byID[id] = suspect{one.check, u.cluster.now()}
			ids = append(ids, id)
		}
	}
	return ids
}
