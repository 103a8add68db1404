// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/cache"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/journal"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/internal/quietlog"
	"github.com/spokewire/sdk-go/internal/workdata"
)

// records are the works and clusters of a source, in memory and in its Store. The source's mutex
// guards the fields below it.
type records struct {
	*link
	cache        *cache.Cache[*sourceWork]
	journal      *journal.Journal // nil without a Store
	unknownWorks *quietlog.Log    // works that agents have and this source does not
	shared       *shared

	works      map[workID]*sourceWork      // tombstones included
	spans      map[*sourceWork]func(error) // end the spans of publications
	clusters   map[string]*sourceCluster
	unknown    peer.Account // charged for the records of clusters
	tombstones tombstones
	forgotten  forgottenClusters
	alarms     alarms

	complete  bool // the inventory is complete: unknown works may be deleted
	restored  bool // the Store was used by an earlier process
	inherited bool // the inventory was complete in the Store when it was loaded
	replaced  bool // outranked was true at some time since the inventory was declared complete
	asked     bool // ManifestBundle: all statuses were requested since the inventory was declared complete

	leads     bool   // this process writes to the Store: it is the leader, or has no other replicas
	outranked bool   // a newer process with this ID is connected
	term      uint64 // counts the changes of leads: a change that is not durable in its term is lost
	round     uint64 // counts disconnects and losses of leadership: answers of earlier rounds are dropped
}

// workID identifies a work at a source. A resource ID alone would let a cluster name works of
// others.
type workID struct{ cluster, id string }

// alarms queues clusters until the times that were passed to wakeLocked. It is nil while Start does
// not run.
type alarms = workqueue.TypedDelayingInterface[*sourceCluster]

// clusterLocked returns the record of a cluster, and makes a new one if needed.
func (r *records) clusterLocked(name string) *sourceCluster {
	c := r.clusters[name]
	if c == nil {
		c = newCluster(r, name)
		r.unknown.Set(0, peer.ClusterCost+int64(len(name)))
		r.clusters[name] = c
		if f := r.forgotten.takeLocked(name); f != nil { // it has returned
			c.highest, c.outdated, c.gap = f.Highest, f.Outdated, f.Gap
			c.keepLocked()
		}
		if r.inherited && c.gap == nil { // the inventory is complete only by the record in the Store
			c.gap = c.gap.Next(c.highest)
		}
	}
	return c
}

// clusterOfLocked is clusterLocked for an event of an agent. The cluster may have no works, so a
// new record must fit the budget.
func (r *records) clusterOfLocked(name string) (*sourceCluster, error) {
	if r.clusters[name] == nil {
		size := peer.ClusterCost + int64(len(name))
		if !r.unknown.Charge(size) {
			return nil, peer.Unusable(peer.RefusedBudget, "record cluster %q, which has no works: %w",
				name, r.unknown.ErrFull())
		}
		r.unknown.Set(size, 0) // clusterLocked charges it
	}
	c := r.clusterLocked(name)
	c.lastReport = r.now()
	return c, nil
}

// markLocked notes that a record has changed. key has the parts of its key.
func (r *records) markLocked(record journal.Record, key ...string) {
	if r.journal != nil && r.leads {
		r.journal.MarkLocked(strings.Join(key, ""), record)
	}
}

func (r *records) keepMetaLocked() { r.markLocked((*sourceMeta)(r), journal.KeyMeta) }

// writingLocked reports whether this source handles events: it is the leader, and no newer process
// has its ID.
func (r *records) writingLocked() bool { return r.leads && !r.outranked }

// stored waits until the changes of a term are durable. It returns ErrReplaced if the term has
// ended.
func (r *records) stored(ctx context.Context, term uint64) error {
	if err := peer.Durable(ctx, r.journal); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.term != term {
		return peer.ErrReplaced
	}
	return nil
}

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
	Trace      peer.Trace           `json:"trace,omitempty"`
	Bundle     *storedBundleWork    `json:"strict,omitempty"`
	Object     *workv1.ManifestWork `json:"object,omitempty"`
}

var sourceWorkMembers = workdata.Object[storedSourceWork]{
	{Name: "name", At: func(w *storedSourceWork) any { return &w.Name }},
	{Name: "uid", At: func(w *storedSourceWork) any { return &w.UID }},
	{Name: "agentSession", At: func(w *storedSourceWork) any { return &w.Session }},
	{Name: "version", At: func(w *storedSourceWork) any { return &w.Version }},
	{Name: "createVersion", At: func(w *storedSourceWork) any { return &w.CreateV }},
	{Name: "deleteVersion", At: func(w *storedSourceWork) any { return &w.DeleteV }},
	{Name: "sequence", At: func(w *storedSourceWork) any { return &w.Seq }},
	{Name: "statusTime", At: func(w *storedSourceWork) any { return &w.StatusTime }},
	{Name: "statusHash", At: func(w *storedSourceWork) any { return &w.Hash }},
	{Name: "deleting", At: func(w *storedSourceWork) any { return &w.Deleting }},
	{Name: "deleted", At: func(w *storedSourceWork) any { return &w.Deleted }},
	{Name: "gone", At: func(w *storedSourceWork) any { return &w.Gone }},
	{Name: "confirmed", At: func(w *storedSourceWork) any { return &w.Confirmed }},
	{Name: "problem", At: func(w *storedSourceWork) any { return &w.Problem }},
	{Name: "trace", At: func(w *storedSourceWork) any { return &w.Trace }},
	{Name: "strict", At: func(w *storedSourceWork) any { return &w.Bundle }},
	{Name: "object", At: func(w *storedSourceWork) any { return &w.Object }},
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

// sourceMeta is the record for the Store besides those of works and clusters.
type sourceMeta records

func (m *sourceMeta) Content() any {
	out := (*records)(m).ownMeta()
	out.ResourceVersion, out.Complete, out.Asked = m.cache.LastVersion(), m.complete, m.asked
	return &out
}

func (m *sourceMeta) Saved() {}

func (r *records) ownMeta() journal.Meta {
	return journal.Meta{
		Format: journal.Format, Kind: "source", Name: r.options.SourceID, Profile: r.options.Profile.Name(),
	}
}

// load loads the records of an earlier process. All processors decode: of a million works, the JSON
// takes most of the time of a start.
func (r *records) load(ctx context.Context, from journal.Loader) error {
	type record struct {
		key, cluster, id string
		value            []byte
	}
	queue := make(chan record, 64)
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var decoding sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		decoding.Go(func() {
			for rec := range queue {
				var stored storedSourceWork
				if err := workdata.Decode(rec.value, &stored, sourceWorkMembers); err != nil {
					fail(fmt.Errorf("record %q: %w", rec.key, err))
					return
				}
				r.loadWork(rec.cluster, rec.id, &stored)
			}
		})
	}
	err := journal.Load(ctx, from, func(key string, value []byte) error {
		cluster, id, isWork := journal.ParseKey(journal.PrefixWork, key)
		if !isWork {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.loadOtherLocked(key, value)
		}
		select {
		case queue <- record{key, cluster, id, bytes.Clone(value)}:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	close(queue)
	decoding.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err != nil {
		return err
	}
	r.loaded()
	return nil
}

// loaded completes the works and clusters when all records are loaded.
func (r *records) loaded() {
	r.mu.Lock()
	defer r.mu.Unlock()
	var tombstones []*sourceWork
	for _, c := range r.clusters {
		tombstones = slices.AppendSeq(tombstones, maps.Values(c.tombstones))
	}
	slices.SortFunc(tombstones, func(a, b *sourceWork) int { return a.deleted.Compare(b.deleted.Time) })
	for _, w := range tombstones {
		r.tombstones.addLocked(w)
	}
	r.openGapsLocked()
}

func (r *records) loadWork(cluster, id string, stored *storedSourceWork) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.clusterLocked(cluster)
	w := &sourceWork{cluster: c, id: id}
	w.loadLocked(stored)
	r.works[workID{c.name, id}] = w
	defer w.accountLocked()
	if stored.Object != nil {
		r.shared.workLocked(stored.Object)
		r.cache.Restore(w, stored.Object)
		return
	}
	c.tombstones[id] = w // loaded sorts the tombstones
}

// loadOtherLocked loads a record that is not the record of a work.
func (r *records) loadOtherLocked(key string, value []byte) error {
	name, isCluster := strings.CutPrefix(key, journal.PrefixCluster)
	cluster, id, isPast := journal.ParseKey(journal.PrefixPast, key)
	switch {
	case key == journal.KeyMeta:
		var m journal.Meta
		if err := json.Unmarshal(value, &m); err != nil {
			return err
		}
		if err := m.Check(r.ownMeta()); err != nil {
			return err
		}
		r.complete, r.asked, r.restored = m.Complete, m.Asked, true
		r.cache.Begin(m.ResourceVersion)
	case isCluster:
		var stored storedCluster
		if err := json.Unmarshal(value, &stored); err != nil {
			return err
		}
		if stored.Forgotten {
			r.loadForgottenLocked(name, &stored)
			return nil
		}
		c := r.clusterLocked(name)
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
		past := report{stored.Version, stored.Seq}
		r.clusterLocked(cluster).reported.sawLocked(id, datedReport{report: past, at: stored.At, past: true})
	case key == journal.KeyLeader, strings.HasPrefix(key, journal.PrefixInbox): // of replicas, which read them in Follow
	default:
		return journal.ErrUnknownRecord
	}
	return nil
}

func (c *sourceCluster) Content() any {
	out := &storedCluster{Highest: c.highest, Extended: c.dialect == peer.DialectExtended,
		Enhancement: c.dialect == peer.DialectEnhancement, Outdated: c.outdated}
	if c.gap.Kept() {
		out.Gap = c.gap
	}
	if c.records.clusters[c.name] != c || *out == (storedCluster{}) {
		return nil
	}
	return out
}

func (c *sourceCluster) Saved() {}
