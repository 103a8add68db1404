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
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/codec"
)

// inventoryLocked returns the completeness of the source's works, for one cluster.
func (s *Source) inventoryLocked(c *sourceCluster) protocol.Inventory {
	_, rival := s.presence.NewestLocked()
	return protocol.Inventory{Complete: s.complete, Outdated: c.outdated, Replaced: s.replaced, Rival: rival}
}

// deletesLocked reports whether a work of the cluster is unknown and must be deleted. w is nil for
// an unknown work.
func (s *Source) deletesLocked(c *sourceCluster, w *sourceWork, id string) bool {
	return w == nil && s.inventoryLocked(c).Whole() && s.clearsLocked(c, id)
}

// clearsLocked reports whether no other process with this ID can have made the version that a
// cluster reports of a work: a check for rivals has ended since the version was first seen.
// Otherwise it returns false, and the work is requested again after the check.
func (s *Source) clearsLocked(c *sourceCluster, id string) bool {
	if !s.presence.WorksLocked() {
		return true
	}
	one, seen := c.suspects[id]
	if seen && one.clearAt.IsZero() {
		return false
	}
	if since := s.options.Clock.Now().Sub(one.clearAt); seen && 0 <= since && since < clearTime {
		return true
	}
	if !seen && !c.account.Charge(suspectSize(id)) {
		err := peer.Unusable(peer.RefusedBudget, "record the unknown work %s of cluster %q: %w",
			id, c.name, c.account.ErrFull())
		s.refuseEntryLocked(err)
		return false
	}
	if c.suspects == nil {
		c.suspects = map[string]suspect{}
	}
	c.suspects[id] = suspect{check: s.presence.NextLocked()}
	return false
}

// mayRaiseLocked reports whether the version of a work may now be raised above the version that its
// agent reports, and counts the raise. A deleted work must be clear of rivals first: a newer
// process may have created it again. Raises of a live work are limited: a rival whose presences the
// broker drops may raise it too.
func (s *Source) mayRaiseLocked(w *sourceWork) bool {
	if w.phase.IsDeleting() {
		return s.clearsLocked(w.cluster, w.id)
	}
	now := s.options.Clock.Now()
	switch since := now.Sub(w.raisedAt); {
	case since > 2*raiseInterval || since < 0:
		w.raises = 0
	case w.raises >= quickRaises && since < raiseInterval:
		return false
	}
	w.raises, w.raisedAt = min(w.raises+1, quickRaises), now
	return true
}

// After quickRaises raises in a row, a work is raised once in a raiseInterval.
const (
	quickRaises   = 4
	raiseInterval = time.Minute
)

// suspect is a work that another process with this ID may have made.
type suspect struct {
	check   uint64    // number of the check that detects that process
	clearAt time.Time // when that check ended
}

// clearTime is how long the result of a check is valid after its end. The suspects are requested
// again at the end of the check.
const clearTime = time.Minute

func suspectSize(id string) int64 { return int64(peer.SuspectCost + len(id)) }

func (c *sourceCluster) forgetSuspect(id string) {
	if _, ok := c.suspects[id]; ok {
		c.account.Set(suspectSize(id), 0)
		delete(c.suspects, id)
	}
	if len(c.suspects) == 0 {
		c.suspects = nil // maps do not shrink
	}
}

func (c *sourceCluster) forgetSuspects(choose func(id string) bool) {
	for id := range c.suspects {
		if choose(id) {
			c.forgetSuspect(id)
		}
	}
}

// clearSuspectsLocked requests the suspects of the check that has ended. A list does not have the
// works that an agent has deleted, so a known work is sent again: the agent answers with its
// version.
func (s *Source) clearSuspectsLocked() {
	for _, c := range s.clusters {
		var ids []string
		for id, one := range c.suspects {
			if one.check <= s.presence.EndedLocked() && one.clearAt.IsZero() {
				c.suspects[id] = suspect{one.check, s.options.Clock.Now()}
				ids = append(ids, id)
				if w := s.works[workID{c.name, id}]; w != nil {
					s.sendLocked(w)
				}
			}
		}
		switch {
		case len(ids) == 0:
		case c.dialect == peer.DialectExtended:
			s.request(&codec.StatusResync{
				Header: codec.Header{Cluster: c.name, ResyncID: uuid.NewString()},
				Scope:  codec.ScopeLists,
				Part:   partOf(ids, protocol.Buckets(s.cache.Count(c.name)+len(c.tombstones)+len(ids))),
			})
		default:
			s.askUnknownLocked(c, ids)
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

// detectOutdatedLocked compares a version that a cluster has reported of a work with the versions
// that this Store has assigned. If this Store cannot have assigned the version, the cluster is
// marked as outdated. The version must be recorded after this call.
func (s *Source) detectOutdatedLocked(c *sourceCluster, w *sourceWork, id string, version int64) {
	if c.gap == nil || c.outdated {
		return
	}
	gap := c.gap
	if w != nil && version <= w.version {
		return
	}
	if s.traits.Bundle { // versions are counted for each work
		gap = &protocol.Gap{}
		if past := c.reported.byID[id]; past.past {
			gap.From = past.version
		}
		if w != nil {
			gap.From = max(w.version, w.bundle.floor)
		}
	}
	if !gap.Has(version) {
		return
	}
	c.outdated = true
	s.keepCluster(c)
	s.logger.Info("Detected a Store that is older than the works of an agent: unknown works stay until "+
		"InventoryComplete is called", "cluster", c.name, "resourceID", id, "version", version)
}

// openGap begins to check the reported versions of the cluster, because the inventory is complete
// only by the record in the Store.
func (c *sourceCluster) openGap() {
	if c.gap == nil {
		c.gap = c.gap.Next(c.highest)
	}
}

// openGapsLocked is openGap for all clusters of a Store with a complete inventory.
func (s *Source) openGapsLocked() {
	s.inherited = s.complete
	if !s.inherited {
		return
	}
	for _, w := range s.works {
		w.cluster.highest = max(w.cluster.highest, w.version)
	}
	for _, c := range s.clusters {
		c.gap = c.gap.Next(c.highest)
	}
	for _, f := range s.forgotten.byName {
		f.gap = f.gap.Next(f.highest)
	}
}

// checked ends the check of a cluster after its agent has listed all its works.
func (c *sourceCluster) checked() {
	if c.gap == nil || c.outdated || c.dialect != peer.DialectExtended {
		return
	}
	kept := c.gap.Kept()
	c.gap = nil
	if kept {
		c.source.keepCluster(c)
	}
}

// declareLocked makes the inventory complete and clears the outdated clusters. If the inventory of
// the Store was complete, the checks of the other clusters go on: a program may declare at each
// start, without regard to a restored backup.
func (s *Source) declareLocked() {
	s.complete, s.asked, s.replaced = true, false, false
	s.forgotten.declare()
	for _, c := range s.clusters {
		if c.outdated || c.gap != nil && !s.inherited {
			c.outdated, c.gap = false, nil
			s.keepCluster(c)
		}
	}
}

// inventoryProblems returns why unknown works are kept although the inventory is complete.
func (s *Source) inventoryProblems() error {
	s.cache.Lock()
	defer s.cache.Unlock()
	n, first := 0, ""
	for _, c := range s.clusters {
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
	if s.replaced && !s.presence.OutrankedLocked() {
		errs = append(errs, errors.New("a newer process with the same ID was connected and may have created works: "+
			"unknown works stay until InventoryComplete is called"))
	}
	return errors.Join(errs...)
}

// rival returns an error while another process with this source's ID is connected. With outranked,
// it returns an error only if that process is newer.
func (s *Source) rival(outranked bool) error {
	s.cache.Lock()
	defer s.cache.Unlock()
	if outranked && !s.presence.OutrankedLocked() {
		return nil
	}
	return s.rivalLocked()
}

func (s *Source) rivalLocked() error {
	return s.presence.DescribeLocked("this one does not write; "+useReplicas,
		"this one deletes no unknown works; "+useReplicas)
}

const useReplicas = "end one of them, or give both a SharedStore and a SharedGroup"

// rivalsChangedLocked is called when rivals were added or removed.
func (s *Source) rivalsChangedLocked() {
	outranked := s.presence.OutrankedLocked()
	switch _, rival := s.presence.NewestLocked(); {
	case outranked && !s.outranked:
		s.outranked, s.replaced = true, true
		s.giveUpAnswersLocked()
		s.logger.Info("Stopped writing: a newer process with the same ID is connected")
	case !outranked && s.outranked:
		s.outranked, s.withheld = false, false
		s.logger.Info("Resumed writing: no newer process with the same ID is connected")
		if s.engine.Connected() {
			s.resyncLocked()
			for _, c := range s.clusters {
				s.sendUnconfirmed(s.worksOf(c))
			}
		}
	case rival:
		s.withheld = true
	case s.withheld:
		s.withheld = false
		s.askLists()
	}
}

// giveUpAnswersLocked drops the answers and lists that are in progress.
func (s *Source) giveUpAnswersLocked() {
	s.round++
	for _, c := range s.clusters {
		c.dropLists()
	}
}

// askLists requests lists from all agents.
func (s *Source) askLists() {
	if s.traits.Bundle { // statuses show the agents' works as well
		s.askAll()
		return
	}
	header := codec.Header{ResyncID: uuid.NewString()}
	s.request(&codec.StatusResync{Header: header, Scope: codec.ScopeLists, Broadcast: true})
}

// errOutrankedLocked returns the error of a write while a newer process has the ID of this source.
func (s *Source) errOutrankedLocked() error {
	return apierrors.NewServiceUnavailable(s.rivalLocked().Error())
}

// detectRivals makes the source detect other processes with its ID. Replicas share the ID on
// purpose.
func (s *Source) detectRivals() {
	if s.options.SharedGroup != "" {
		return
	}
	s.presence = peer.NewPresence(peer.Presence{
		Lock: s.cache, Profile: s.options.Profile, Clock: s.options.Clock, IDs: s.ids,
		Header:   codec.Header{Source: s.options.SourceID},
		Self:     protocol.Process{Session: uuid.NewString()},
		Interval: peer.SourceInterval,
		Changed:  s.rivalsChangedLocked, Checked: s.clearSuspectsLocked,
	})
}
