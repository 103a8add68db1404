// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"errors"
	"fmt"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/codec"
)

// inventory returns what is known of the completeness of works, for one cluster. The store's lock is held, as with all
// that follows.
func (s *Source) inventory(c *sourceCluster) protocol.Inventory {
	_, rival := s.presence.newest()
	return protocol.Inventory{Complete: s.complete, Doubted: c.doubted, Replaced: s.replaced, Rival: rival}
}

// deletes reports whether a work of the cluster is to go if it is unknown. Right after a connection rivals have not answered yet:
// what is left alone then is asked for again.
func (s *Source) deletes(c *sourceCluster, w *sourceWork) bool {
	inventory := s.inventory(c)
	unsettled := s.presence != nil && !s.presence.settled
	s.withheld = s.withheld || w == nil && inventory.Complete && (inventory.Rival || unsettled)
	return inventory.Whole() && !unsettled
}

// doubt checks a version that a cluster has shown of a work against what this store gave. It is called before the version
// is remembered.
func (s *Source) doubt(c *sourceCluster, w *sourceWork, id string, version int64) {
	if c.gap == nil || c.doubted {
		return
	}
	gap := c.gap
	if s.traits.Strict { // versions are counted for each work
		gap = &protocol.Gap{}
		if past := c.reported.byID[id]; past.past {
			gap.From = past.version
		}
		if w != nil {
			gap.From = max(w.version, w.strict.seen)
		}
	}
	if !gap.Has(version) {
		return
	}
	c.doubted = true
	s.keepCluster(c)
	s.logger.Info("The store is older than what an agent holds: unknown works of its cluster stay until InventoryComplete is called",
		"cluster", c.name, "resourceID", id, "version", version)
}

// openGap begins to check what the cluster shows: the inventory is complete because the store says so.
func (c *sourceCluster) openGap() {
	if c.gap == nil {
		c.gap = &protocol.Gap{From: max(c.highest, c.source.forgotten)}
	}
}

// openGaps is openGap for all that the store has.
func (s *Source) openGaps() {
	s.inherited = s.complete
	if !s.inherited {
		return
	}
	for _, w := range s.works {
		w.cluster.highest = max(w.cluster.highest, w.version)
	}
	for _, c := range s.clusters {
		c.openGap()
	}
}

// checked ends the check of a cluster that has listed all that it holds.
func (c *sourceCluster) checked() {
	if c.gap == nil || c.doubted || !c.modern {
		return
	}
	kept := c.gap.Before != 0
	c.gap = nil
	if kept {
		c.source.keepCluster(c)
	}
}

// declareLocked makes the inventory complete and ends the doubts that are known. Where a Store had it complete, the checks of the
// other clusters go on: the caller may be a program that declares at each start, and not know that a backup was restored.
func (s *Source) declareLocked() {
	s.complete, s.asked, s.replaced = true, false, false
	for _, c := range s.clusters {
		if c.doubted || c.gap != nil && !s.inherited {
			c.doubted, c.gap = false, nil
			s.keepCluster(c)
		}
	}
}

// doubts returns why the inventory does not count although it is complete.
func (s *Source) doubts() error {
	s.store.Lock()
	defer s.store.Unlock()
	n, first := 0, ""
	for _, c := range s.clusters {
		if !c.doubted {
			continue
		}
		if n++; first == "" || c.name < first {
			first = c.name
		}
	}
	var errs []error
	if n > 0 {
		errs = append(errs, fmt.Errorf("the store is older than what %d clusters hold (%s is the first): a backup was restored; "+
			"unknown works stay until InventoryComplete is called", n, first))
	}
	if s.replaced && !s.presence.outranked() {
		errs = append(errs, errors.New("a newer process with the same ID was connected and may have made works: "+
			"unknown works stay until InventoryComplete is called"))
	}
	return errors.Join(errs...)
}

// rival returns an error while another process with this source's ID is connected. outranked has it of a newer one only.
func (s *Source) rival(outranked bool) error {
	s.store.Lock()
	defer s.store.Unlock()
	if outranked && !s.presence.outranked() {
		return nil
	}
	return s.rivalLocked()
}

func (s *Source) rivalLocked() error {
	return s.presence.describe("this one does not write; "+useReplicas, "this one deletes no unknown works; "+useReplicas)
}

const useReplicas = "end one of them, or give both a SharedStore and a SharedGroup"

// rivalsChanged is called when rivals came, went, or had the time to answer.
func (s *Source) rivalsChanged() {
	outranked := s.presence.outranked()
	switch _, rival := s.presence.newest(); {
	case outranked && !s.outranked:
		s.outranked, s.replaced = true, true
		s.giveUpAnswers()
		s.logger.Info("This process does not write any more: a newer one with the same ID is connected")
	case !outranked && s.outranked:
		s.outranked, s.withheld = false, false
		s.logger.Info("This process writes again: no newer one with the same ID is connected")
		if s.engine.Connected() {
			s.resyncLocked()
			for _, c := range s.clusters {
				s.sendUnconfirmed(s.worksOf(c))
			}
		}
	case rival:
		s.withheld = true
	case s.withheld && s.presence.settled:
		s.withheld = false
		s.askLists()
	}
}

// giveUpAnswers ends the answers and lists that are under way.
func (s *Source) giveUpAnswers() {
	s.round++
	for _, c := range s.clusters {
		clear(c.lists)
	}
}

// askLists asks all agents for what they hold.
func (s *Source) askLists() {
	if s.traits.Strict { // statuses tell as well what the agents have
		s.askAll()
		return
	}
	s.request(&codec.StatusResync{
		Header:    codec.Header{Source: s.options.SourceID, ResyncID: uuid.NewString()},
		Scope:     codec.ScopeLists,
		Broadcast: true,
	})
}

// errOutranked is what a write gets while a newer process has the ID of this source.
func (s *Source) errOutranked() error {
	return apierrors.NewServiceUnavailable(s.rivalLocked().Error())
}

// detectRivals has the source find other processes with its ID. Replicas have it in common on purpose.
func (s *Source) detectRivals() {
	if s.options.SharedGroup != "" {
		return
	}
	s.presence = newPresence(presence{
		lock: s.store, profile: s.options.Profile, clock: s.options.Clock, ids: s.ids,
		header:   codec.Header{Source: s.options.SourceID},
		self:     protocol.Process{Session: uuid.NewString()},
		interval: sourceInterval,
		changed:  s.rivalsChanged,
	})
}
