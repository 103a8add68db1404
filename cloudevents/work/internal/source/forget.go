// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"fmt"

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
	if err := s.lead(ctx); err != nil {
		return err
	}
	term, err := s.forget(cluster)
	if err != nil {
		return err
	}
	return s.stored(ctx, term)
}

func (s *Source) forget(cluster string) (term uint64, err error) {
	s.cache.Lock()
	defer s.cache.Unlock()
	if err := s.writableLocked(false); err != nil {
		return 0, err
	}
	c := s.clusters[cluster]
	if c == nil {
		s.keepMeta() // changes nothing, but is rejected if another replica is the leader
		return s.termLocked(), nil
	}
	deleting := make([]*sourceWork, 0, len(c.tombstones))
	s.cache.All(cluster, func(w *sourceWork) {
		if w.phase.IsDeleting() {
			deleting = append(deleting, w)
		}
	})
	for _, w := range c.tombstones {
		deleting = append(deleting, w)
	}
	for _, w := range deleting {
		s.finishLocked(w)
	}
	s.asked = s.asked && len(deleting) == 0 // the agent may still have them
	if len(s.worksOf(c)) == 0 {
		c.dropLists()
		c.answers.open, c.answers.queued = nil, nil
		c.answers.recount()
		c.reported.clear()
		c.forgetSuspects(func(string) bool { return true })
		s.removeCluster(c)
		f := &forgottenCluster{source: s, name: cluster, highest: c.highest, outdated: c.outdated}
		if c.gap != nil {
			f.gap = c.gap.Next(c.highest)
		}
		s.forgotten.put(f)
	}
	return s.termLocked(), nil
}

// removeCluster ends the record of a cluster without works.
func (s *Source) removeCluster(c *sourceCluster) {
	delete(s.clusters, c.name)
	s.unknown.Set(peer.ClusterCost+int64(len(c.name)), 0)
}

// forgottenCluster is the remaining record of a forgotten cluster. Without it, the versions that
// its agent reports after a return would prove that the Store is an older copy.
type forgottenCluster struct {
	source   *Source
	name     string
	highest  int64
	outdated bool
	gap      *protocol.Gap
}

func (f *forgottenCluster) Content() any {
	if f.source.forgotten.byName[f.name] != f {
		return nil
	}
	out := &storedCluster{Highest: f.highest, Outdated: f.outdated, Forgotten: true}
	if f.gap.Kept() {
		out.Gap = f.gap
	}
	return out
}

func (f *forgottenCluster) Saved() {}

func (f *forgottenCluster) keep() {
	if s := f.source; s.journal != nil && s.leadingLocked() {
		s.journal.MarkLocked(journal.PrefixCluster+f.name, f)
	}
}

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

// put adds a forgotten cluster. If there is no room, it removes the clusters with the lowest
// versions. If such a cluster returns, the source treats its Store as an older copy, and deletes no
// unknown works there before InventoryComplete.
func (o *forgottenClusters) put(f *forgottenCluster) {
	o.take(f.name)
	if o.byName == nil {
		o.byName = map[string]*forgottenCluster{}
	}
	o.byName[f.name] = f
	o.bytes += f.size()
	f.keep()
	for o.bytes > maxForgotten {
		oldest := f
		for _, one := range o.byName {
			if one.highest < oldest.highest {
				oldest = one
			}
		}
		o.take(oldest.name)
		oldest.keep()
	}
}

// take removes a forgotten cluster and returns it, or nil if the cluster was not forgotten.
func (o *forgottenClusters) take(name string) *forgottenCluster {
	f := o.byName[name]
	if f != nil {
		delete(o.byName, name)
		o.bytes -= f.size()
	}
	return f
}

// declare clears the outdated clusters, as [Source.declareLocked] does.
func (o *forgottenClusters) declare() {
	for _, f := range o.byName {
		if f.outdated || f.gap != nil && !f.source.inherited {
			f.outdated, f.gap = false, nil
			f.keep()
		}
	}
}

// remember restores the record of a forgotten cluster that has returned.
func (s *Source) remember(c *sourceCluster) {
	if f := s.forgotten.take(c.name); f != nil {
		c.highest, c.outdated, c.gap = f.highest, f.outdated, f.gap
		s.keepCluster(c)
	}
}

// loadForgotten loads the record of a forgotten cluster.
func (s *Source) loadForgotten(name string, stored *storedCluster) {
	if c := s.clusters[name]; c != nil { // another replica has forgotten it
		if len(s.worksOf(c)) > 0 {
			return
		}
		s.removeCluster(c)
	}
	s.forgotten.put(&forgottenCluster{
		source: s, name: name, highest: stored.Highest, outdated: stored.Outdated, gap: stored.Gap,
	})
}
