// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"cmp"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/google/uuid"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/codec"
)

const (
	// digestDelay is how long a source waits for late events after a digest that differs.
	digestDelay = 5 * time.Second
	// silentAfter is how long a source waits for the next digest before it requests one, and then
	// for the answer.
	silentAfter = 75 * time.Second
	// silentSpread bounds the jitter that shortens the next wait: clusters that became silent
	// together are not asked together.
	silentSpread = 15 * time.Second
	// mostSkipped bounds how many digests are skipped in a row while comparisons change nothing.
	mostSkipped = 9
)

// suspicion is the state of the comparison of digests with a cluster.
type suspicion struct {
	last  time.Time // when the last digest arrived, or was requested
	askAt time.Time // when to request the sums of buckets; zero if nothing differs, or after the request
	asked bool
	// compared are the sums of the last digest that led to a comparison. While they stay the same,
	// comparisons are skipped: for example, an unknown work is kept until the inventory is
	// complete.
	compared      [2]uint64
	skip, skipped int
}

// digestLocked computes the digest of the works of a cluster as its agent does.
func (s *Source) digestLocked(c *sourceCluster, buckets int) protocol.Digest {
	d := protocol.NewDigest(buckets)
	add := func(w *sourceWork) {
		if w.phase != protocol.SourceGone {
			d.Add(w.id, protocol.Version{V: w.version, UID: string(w.uid)}, w.seq)
		}
	}
	s.cache.All(c.name, add)
	for _, w := range c.tombstones {
		add(w)
	}
	return d
}

// A comparison with a digest or a whole list reads all works of the cluster. Agents send digests
// and whole lists less often than this limit.
const (
	comparesEachSecond = 1
	comparesAtOnce     = 4
)

// mayCompare reports whether all works of the cluster may be compared now. It uses a monotonic
// clock; see runAlarms.
func (c *sourceCluster) mayCompare() bool { return c.compares.Allow() }

// onDigestLocked compares an agent's digest with the works of the source. If a heartbeat differs,
// it schedules a request for the sums of buckets. If these differ, it requests a list of the works
// in the differing buckets.
func (s *Source) onDigestLocked(m *codec.Digest) error {
	c, err := s.clusterOfLocked(m.Cluster)
	if err != nil {
		return err
	}
	c.speaks(peer.DialectExtended)
	c.session = m.AgentSession
	d := &c.delivery.digest
	d.last = s.options.Clock.Now()
	s.wakeClusterLocked(c, d.last.Add(silentAfter))
	if late := len(m.Sums) > 1; !d.asked && (late || !c.mayCompare()) {
		return nil
	}
	own, theirs := s.digestLocked(c, len(m.Sums)), protocol.Digest{Works: m.Works, Sums: m.Sums}
	if !d.asked {
		s.onHeartbeatLocked(c, own, theirs)
		return nil
	}
	d.asked = false
	differing := own.Differing(theirs)
	if len(differing) == 0 {
		return nil
	}
	s.metrics.CountDivergence()
	s.askListLocked(c, codec.Part{Buckets: len(m.Sums), Listed: differing})
	return nil
}

// agreesLocked reports whether a message is a heartbeat that needs no action: the digests are
// equal, or the cluster sends too many.
func (s *Source) agreesLocked(m cloudevents.Message) bool {
	if !codec.IsDigest(m.Event) {
		return false
	}
	msg, err := s.options.Profile.Decode(m.Topic, m.Event)
	digest, ok := msg.(*codec.Digest)
	if err != nil || !ok || len(digest.Sums) != 1 {
		return false
	}
	c := s.clusters[digest.Cluster]
	if c == nil {
		return false
	}
	return !c.mayCompare() || s.digestLocked(c, 1).Equal(protocol.Digest{Works: digest.Works, Sums: digest.Sums})
}

func (s *Source) onHeartbeatLocked(c *sourceCluster, own, theirs protocol.Digest) {
	d := &c.delivery.digest
	if own.Equal(theirs) {
		*d = suspicion{last: d.last}
		return
	}
	sums := [2]uint64{own.Sums[0], theirs.Sums[0]}
	if sums == d.compared {
		if d.skipped < d.skip {
			d.skipped++
			return
		}
		d.skip, d.skipped = min(2*d.skip+1, mostSkipped), 0
	} else {
		d.compared, d.skip, d.skipped = sums, 0, 0
	}
	d.askAt = s.options.Clock.Now().Add(digestDelay)
	s.wakeClusterLocked(c, d.askAt)
}

// askDigestLocked requests the sums of buckets if a digest differed or the agent is silent. It
// returns the time of its next call.
func (s *Source) askDigestLocked(c *sourceCluster, now time.Time) time.Time {
	d := &c.delivery.digest
	works := s.cache.Count(c.name) + len(c.tombstones)
	if d.last.IsZero() {
		d.last = now
	}
	silent := d.last.Add(silentAfter)
	switch {
	case !d.askAt.IsZero() && peer.IsDue(d.askAt, now, digestDelay):
	case c.dialect != peer.DialectExtended || works == 0:
		return d.askAt
	case !peer.IsDue(silent, now, silentAfter):
		return peer.Earliest(d.askAt, silent)
	}
	d.last = now.Add(-time.Duration(xxhash.Sum64String(c.name) % uint64(silentSpread)))
	s.request(&codec.StatusResync{
		Header: codec.Header{Cluster: c.name},
		Scope:  codec.ScopeDigest,
		Part:   codec.Part{Buckets: protocol.Buckets(works)},
	})
	d.askAt, d.asked = time.Time{}, true
	return d.last.Add(silentAfter)
}

// checkListsLocked requests dropped and incomplete lists again. It returns the time of its next
// call.
func (s *Source) checkListsLocked(c *sourceCluster, now time.Time) (next time.Time) {
	if d := &c.delivery; c.dropped {
		if due := d.droppedAt.Add(listTimeout); !peer.IsDue(due, now, listTimeout) {
			next = due
		} else {
			c.dropped = false
			s.askListLocked(c, codec.Part{})
		}
	}
	for id, l := range c.lists {
		if due := l.progress.Add(listTimeout); !peer.IsDue(due, now, listTimeout) {
			next = peer.Earliest(next, due)
			continue
		}
		c.dropList(id)
		s.askListLocked(c, l.part)
	}
	return next
}

// askListLocked requests a list of a part of the works of a cluster. An agent without our
// extensions sends a list only in answer to hashes.
func (s *Source) askListLocked(c *sourceCluster, part codec.Part) {
	if c.dialect == peer.DialectEnhancement || s.traits.Bundle {
		s.sendAllHashes(c, s.currentOf(c), codec.ScopeAll, "")
		return
	}
	s.request(&codec.StatusResync{
		Header: codec.Header{Cluster: c.name, ResyncID: uuid.NewString()},
		Scope:  codec.ScopeLists,
		Part:   part,
	})
}

// droppedLocked notes that a list of the cluster, or an answer to it, was dropped. The list is
// requested again after listTimeout.
func (s *Source) droppedLocked(c *sourceCluster) {
	c.dropped, c.delivery.droppedAt = true, s.options.Clock.Now()
	s.wakeClusterLocked(c, c.delivery.droppedAt.Add(listTimeout))
}

// Cluster is the Cluster of package work.
type Cluster struct {
	Name               string
	LastHeard          time.Time
	Works, Unconfirmed int
}

// Clusters implements the method of work.Source.
func (s *Source) Clusters() []Cluster {
	s.cache.Lock()
	defer s.cache.Unlock()
	out := make([]Cluster, 0, len(s.clusters))
	for name, c := range s.clusters {
		out = append(out, Cluster{
			Name: name, LastHeard: c.delivery.lastReport, Works: s.cache.Count(name), Unconfirmed: c.delivery.count,
		})
	}
	slices.SortFunc(out, func(a, b Cluster) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
