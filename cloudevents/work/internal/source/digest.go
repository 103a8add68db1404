// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"time"

	"github.com/cespare/xxhash/v2"

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

// digests compares the digests of one cluster's agent with the works of the source. The source's
// mutex guards it.
type digests struct {
	cluster *sourceCluster
	last    time.Time // when the last digest arrived, or was requested
	askAt   time.Time // when to request the sums of buckets; zero if nothing differs, or after the request
	asked   bool
	// compared are the sums of the last digest that led to a comparison. While they stay the same,
	// comparisons are skipped: for example, an unknown work is kept until the inventory is
	// complete.
	compared      [2]uint64
	skip, skipped int
}

// ownLocked computes the digest of the works of a cluster as its agent does.
func (d *digests) ownLocked(buckets int) protocol.Digest {
	c := d.cluster
	own := protocol.NewDigest(buckets)
	add := func(w *sourceWork) {
		if w.phase != protocol.SourceGone {
			own.Add(w.identityLocked(), w.version, w.seq)
		}
	}
	c.records.cache.All(c.name, add)
	for _, w := range c.tombstones {
		add(w)
	}
	return own
}

// receiveLocked compares an agent's digest with the works of the source. If a heartbeat differs,
// it schedules a request for the sums of buckets. If these differ, it requests a list of the works
// in the differing buckets.
func (d *digests) receiveLocked(m *codec.Digest) {
	c := d.cluster
	c.speaksLocked(peer.DialectExtended)
	c.session = m.AgentSession
	d.last = c.now()
	c.wakeLocked(d.last.Add(silentAfter))
	if late := len(m.Sums) > 1; !d.asked && (late || !c.mayCompare()) {
		return
	}
	own, theirs := d.ownLocked(len(m.Sums)), protocol.Digest{Works: m.Works, Sums: m.Sums}
	if !d.asked {
		d.heartbeatLocked(own, theirs)
		return
	}
	d.asked = false
	if differing := own.Differing(theirs); len(differing) > 0 {
		c.metrics.CountDivergence()
		c.lists.askLocked(codec.Part{Buckets: len(m.Sums), Listed: differing})
	}
}

func (d *digests) heartbeatLocked(own, theirs protocol.Digest) {
	if own.Equal(theirs) {
		*d = digests{cluster: d.cluster, last: d.last}
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
	d.askAt = d.cluster.now().Add(digestDelay)
	d.cluster.wakeLocked(d.askAt)
}

// askLocked requests the sums of buckets if a digest differed or the agent is silent. It
// returns the time of its next call.
func (d *digests) askLocked(now time.Time) time.Time {
	c := d.cluster
	works := c.sizeLocked()
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
	c.request(codec.ScopeDigest, codec.Part{Buckets: protocol.Buckets(works)}, "")
	d.askAt, d.asked = time.Time{}, true
	return d.last.Add(silentAfter)
}
