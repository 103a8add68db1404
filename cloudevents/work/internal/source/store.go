// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/internal/engine"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/journal"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
)

// storedSourceWork is the record of a work, or of a tombstone, which has no object.
type storedSourceWork struct {
	Name       string               `json:"name,omitempty"`
	UID        types.UID            `json:"uid"`
	Session    string               `json:"agentSession,omitempty"`
	Version    int64                `json:"version"`
	CreateV    int64                `json:"createVersion"`
	DeleteV    int64                `json:"deleteVersion,omitempty"`
	Seq        int64                `json:"sequence,omitempty"`
	StatusTime time.Time            `json:"statusTime,omitzero"`
	Hash       string               `json:"statusHash,omitempty"`
	Deleting   bool                 `json:"deleting,omitempty"`
	Deleted    *metav1.Time         `json:"deleted,omitempty"`
	Gone       bool                 `json:"gone,omitempty"`
	Confirmed  bool                 `json:"confirmed,omitempty"`
	Problem    *problem             `json:"problem,omitempty"`
	Bundle     *storedBundleWork    `json:"strict,omitempty"`
	Object     *workv1.ManifestWork `json:"object,omitempty"`
}

type storedBundleWork struct {
	Floor       int64 `json:"floor,omitempty"`
	Unversioned bool  `json:"unversioned,omitempty"`
	Created     bool  `json:"created,omitempty"`
	Reported    bool  `json:"reported,omitempty"`
}

// storedPast is the record of a removed work, in the profile ManifestBundle.
type storedPast struct {
	Version int64     `json:"version"`
	Seq     int64     `json:"sequence,omitempty"`
	At      time.Time `json:"at"`
}

// storedCluster is the record of a cluster.
type storedCluster struct {
	Highest     int64         `json:"highest"`
	Extended    bool          `json:"modern,omitempty"`
	Enhancement bool          `json:"strict,omitempty"`
	Outdated    bool          `json:"doubted,omitempty"`
	Gap         *protocol.Gap `json:"gap,omitempty"`
	// Forgotten is whether [Source.Forget] was called after the last message of the cluster.
	Forgotten bool `json:"forgotten,omitempty"`
}

var (
	_ journal.Record = &sourceWork{}
	_ journal.Record = &sourceCluster{}
	_ journal.Record = &forgottenCluster{}
	_ journal.Record = pastWork{}
	_ journal.Record = &sourceMeta{}
)

// keepLocked notes that the record of a work has changed.
func (s *Source) keepLocked(w *sourceWork) {
	if s.journal == nil || !s.leadingLocked() {
		return
	}
	w.saving.Change()
	s.journal.MarkLocked(journal.WorkKey(w.cluster.name, w.id), w)
}

func (s *Source) keepCluster(c *sourceCluster) {
	if s.journal != nil && s.leadingLocked() {
		s.journal.MarkLocked(journal.PrefixCluster+c.name, c)
	}
}

func (c *sourceCluster) keepPast(id string) {
	if s := c.source; s.journal != nil && s.leadingLocked() {
		s.journal.MarkLocked(journal.PastKey(c.name, id), pastWork{c, id})
	}
}

func (s *Source) keepMeta() {
	if s.journal != nil && s.leadingLocked() {
		s.journal.MarkLocked(journal.KeyMeta, (*sourceMeta)(s))
	}
}

func (w *sourceWork) Content() any {
	s := w.source
	if s.works[workID{w.cluster.name, w.id}] != w {
		return nil
	}
	out := &storedSourceWork{
		Name: w.name, UID: w.uid, Session: w.session, Version: w.version, CreateV: w.createV, DeleteV: w.deleteV,
		Seq: w.seq, StatusTime: w.statusTime, Hash: w.hash,
		Deleting: w.phase.IsDeleting(), Gone: w.phase == protocol.SourceGone, Confirmed: w.confirmed, Problem: w.problem,
		Object: w.Object,
	}
	if w.phase.IsDeleting() {
		deleted := w.deleted
		out.Deleted = &deleted
	}
	if s.traits.Bundle {
		out.Bundle = &storedBundleWork{
			Floor: w.bundle.floor, Unversioned: w.bundle.unversioned, Created: w.bundle.created, Reported: w.bundle.reported,
		}
	}
	return out
}

// Saved publishes the work, and the answers with it, if they waited until the record was durable.
func (w *sourceWork) Saved() {
	if w.saving.Save() {
		w.source.engine.Enqueue(engine.LaneLive, w)
	}
	w.resume()
}

func (c *sourceCluster) Content() any {
	out := &storedCluster{Highest: c.highest, Extended: c.dialect == peer.DialectExtended,
		Enhancement: c.dialect == peer.DialectEnhancement, Outdated: c.outdated}
	if c.gap.Kept() {
		out.Gap = c.gap
	}
	if c.source.clusters[c.name] != c || *out == (storedCluster{}) {
		return nil
	}
	return out
}

func (c *sourceCluster) Saved() {}

// pastWork is a removed work as a record for the Store.
type pastWork struct {
	cluster *sourceCluster
	id      string
}

func (p pastWork) Content() any {
	r := p.cluster.reported.byID[p.id]
	if !r.past {
		return nil
	}
	return &storedPast{Version: r.version, Seq: r.seq, At: r.at.UTC()}
}

func (p pastWork) Saved() {}

func (c *sourceCluster) loadPast(id string, stored *storedPast) {
	c.reported.saw(id, datedReport{report: report{stored.Version, stored.Seq}, at: stored.At, past: true})
}

// sourceMeta is the source as a record for the Store, besides those of works and clusters.
type sourceMeta Source

func (m *sourceMeta) Content() any {
	out := (*Source)(m).ownMeta()
	out.ResourceVersion, out.Complete, out.Asked = m.cache.LastVersion(), m.complete, m.asked
	return &out
}

func (m *sourceMeta) Saved() {}

func (s *Source) ownMeta() journal.Meta {
	return journal.Meta{
		Format: journal.Format, Kind: "source", Name: s.options.SourceID, Profile: s.options.Profile.Name(),
	}
}

// load loads the records of an earlier process from the Store.
func (s *Source) load(ctx context.Context) error {
	s.cache.Lock()
	defer s.cache.Unlock()
	err := s.options.Store.Load(ctx, func(key string, value []byte) error {
		if err := s.loadRecord(key, value); err != nil {
			return fmt.Errorf("record %q: %w", key, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	var tombstones []*sourceWork
	for _, c := range s.clusters {
		tombstones = slices.AppendSeq(tombstones, maps.Values(c.tombstones))
	}
	slices.SortFunc(tombstones, func(a, b *sourceWork) int { return a.deleted.Compare(b.deleted.Time) })
	for _, w := range tombstones {
		s.addTombstoneLocked(w)
	}
	s.openGapsLocked()
	return nil
}

func (s *Source) loadRecord(key string, value []byte) error {
	cluster, id, ok := journal.ParseKey(journal.PrefixWork, key)
	if !ok {
		return s.loadOther(key, value)
	}
	var stored storedSourceWork
	if err := json.Unmarshal(value, &stored); err != nil {
		return err
	}
	c := s.clusterLocked(cluster)
	w := &sourceWork{source: s, cluster: c, id: id}
	w.load(&stored)
	s.works[workID{cluster, id}] = w
	defer w.accountLocked()
	if stored.Object != nil {
		s.cache.Restore(w, stored.Object)
		return nil
	}
	c.tombstones[id] = w // load sorts the tombstones
	return nil
}

// loadOther loads a record that is not the record of a work.
func (s *Source) loadOther(key string, value []byte) error {
	name, isCluster := strings.CutPrefix(key, journal.PrefixCluster)
	cluster, id, isPast := journal.ParseKey(journal.PrefixPast, key)
	switch {
	case key == journal.KeyMeta:
		var m journal.Meta
		if err := json.Unmarshal(value, &m); err != nil {
			return err
		}
		if err := m.Check(s.ownMeta()); err != nil {
			return err
		}
		s.complete, s.asked, s.restored = m.Complete, m.Asked, true
		s.cache.Begin(m.ResourceVersion)
	case isCluster:
		var stored storedCluster
		if err := json.Unmarshal(value, &stored); err != nil {
			return err
		}
		if stored.Forgotten {
			s.loadForgotten(name, &stored)
			return nil
		}
		c := s.clusterLocked(name)
		if stored.Highest > c.highest { // otherwise this process has the gap already
			c.gap = stored.Gap
		}
		c.outdated = stored.Outdated
		c.highest, c.dialect = max(c.highest, stored.Highest), peer.DialectUnknown
		if stored.Extended || stored.Enhancement {
			c.dialect = peer.DialectOf(stored.Extended)
		}
	case isPast:
		var stored storedPast
		if err := json.Unmarshal(value, &stored); err != nil {
			return err
		}
		s.clusterLocked(cluster).loadPast(id, &stored)
	case key == journal.KeyLeader, strings.HasPrefix(key, journal.PrefixInbox): // of replicas, which read them in Follow
	default:
		return journal.ErrUnknownRecord
	}
	return nil
}

func phaseOf(stored *storedSourceWork) protocol.SourcePhase {
	switch {
	case stored.Gone:
		return protocol.SourceGone
	case stored.Deleting:
		return protocol.SourceDeleting
	}
	return protocol.SourceActive
}

// load sets the fields of a work from its record.
func (w *sourceWork) load(stored *storedSourceWork) {
	w.name, w.uid, w.session = stored.Name, stored.UID, stored.Session
	w.version, w.createV, w.deleteV = stored.Version, stored.CreateV, stored.DeleteV
	w.seq, w.statusTime, w.hash = stored.Seq, stored.StatusTime, stored.Hash
	w.phase, w.confirmed = phaseOf(stored), stored.Confirmed
	if w.confirmed {
		w.cluster.delivery.unlink(w)
	}
	w.setProblem(stored.Problem)
	w.deleted, w.bundle = metav1.Time{}, bundleWork{}
	if stored.Deleted != nil {
		w.deleted = *stored.Deleted
	}
	if stored := stored.Bundle; stored != nil {
		w.bundle = bundleWork{
			floor: stored.Floor, unversioned: stored.Unversioned, created: stored.Created, reported: stored.Reported,
		}
	}
}
