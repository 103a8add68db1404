// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/codec"
)

// In a strict profile (codec.ManifestBundle) agents compare the version of an event with the generation of their
// object, and put it into observedGeneration. So versions are counted for each work, and the generation follows.

// strictWork is what a record has in a strict profile only.
type strictWork struct {
	// floor is what the next version is above, besides the present one: what was reported, and what may be.
	floor int64
	// unversioned is whether its user wants it sent without versions.
	unversioned bool
	// created is whether nothing was written since Create, reported whether an agent has shown a status.
	created, reported bool
	// otherSent is whether the agent was sent the work because it showed another time of creation.
	otherSent bool
}

// numberLocked gives a record the version of its next state; next is the snapshot about to be shown, if there is one.
func (s *Source) numberLocked(w *sourceWork, next *workv1.ManifestWork) {
	now := s.options.Clock.Now()
	s.keepLocked(w)
	if !s.traits.Strict {
		w.version = w.cluster.next(now)
		return
	}
	if r, ok := w.cluster.reported.take(w.id); ok {
		r = r.healed(boundsOf(s.traits, s.options.Clock))
		w.strict.floor, w.seq = max(w.strict.floor, r.version), max(w.seq, r.seq)
	}
	generation := int64(0)
	if next != nil {
		generation = next.Generation
		w.strict.unversioned = next.Annotations[codec.AnnotationResourceVersion] == "0"
	}
	if w.strict.unversioned {
		w.version = 0
		return
	}
	w.version = protocol.NextGeneration(generation, max(w.version, w.strict.floor))
	if next != nil {
		next.Generation = w.version
	}
}

// sawLocked remembers a version that the cluster has shown. raise is whether the work goes above it.
func (s *Source) sawLocked(c *sourceCluster, w *sourceWork, id string, version int64, raise bool) {
	switch {
	case !s.traits.Strict:
		c.saw(version)
	case w != nil:
		if raise || version > max(w.version, w.strict.floor) {
			w.strict.floor = max(version, w.version) + protocol.Unreported
			s.keepLocked(w)
		}
	default:
		if version > c.reported.byID[id].version {
			version += protocol.Unreported
		}
		c.reported.saw(id, datedReport{report: report{version: version}, at: s.options.Clock.Now()})
	}
}

// keepLastVersion remembers of a work that is dropped what comes after it under its name must be above.
func (w *sourceWork) keepLastVersion() {
	r := report{version: max(w.version, w.strict.floor), seq: w.seq}
	w.cluster.reported.saw(w.id, datedReport{report: r, at: w.source.options.Clock.Now(), past: true})
}

// isOther reports whether a status is about a work that was created at another time, by an earlier process of this
// source: agents send metadata back. It does so once, for the sake of agents that keep the time they saw first.
func (w *sourceWork) isOther(m *codec.Status) bool {
	if w == nil || w.Object == nil || w.strict.otherSent || m.Metadata == nil || m.Metadata.CreationTimestamp.IsZero() {
		return false
	}
	w.strict.otherSent = !m.Metadata.CreationTimestamp.Equal(&w.Object.CreationTimestamp)
	return w.strict.otherSent
}

// strictSpecLocked makes of a spec what travels in a strict profile. Of finalizers that is the one
// which says that an agent has something to clean up: a user's own would never be removed on the
// cluster.
func (w *sourceWork) strictSpecLocked(spec *codec.Spec) {
	if w.strict.created {
		spec.Action = codec.ActionCreate
	}
	if w.Object == nil {
		return
	}
	obj := *w.Object
	held := w.strict.reported || slices.Contains(obj.Finalizers, workv1.ManifestWorkFinalizer)
	obj.Finalizers = nil
	if held {
		obj.Finalizers = []string{workv1.ManifestWorkFinalizer}
	}
	spec.Work = &obj
}

// resyncStrictLocked asks all agents for the statuses of all works, unless it has done so, and
// tells each cluster which statuses it has.
func (s *Source) resyncStrictLocked() {
	if !s.asked || len(s.works) == 0 {
		s.askAllLocked()
	}
	for _, c := range s.clusters {
		works := s.currentOf(c)
		s.sendHashes(c, works, codec.ScopeAll, "")
		s.sendUnconfirmed(works)
	}
}

// askAllLocked asks all agents for the statuses of all works that they have.
func (s *Source) askAllLocked() {
	r := &codec.StatusResync{Header: codec.Header{Source: s.options.SourceID}, Broadcast: true}
	r.ID, r.Time = s.ids.next(), s.options.Clock.Now().UTC()
	s.engine.Enqueue(cloudevents.Control, &askedAll{newRequirement(message{s.options.Profile, r}, &s.asks), s})
}

// askedAll notes that the broker has the request: one that the connection did not outlive is made again.
type askedAll struct {
	*requirement
	source *Source
}

func (a *askedAll) Settled(err error) {
	if err != nil || a.replaced() {
		return
	}
	a.source.cache.Lock()
	defer a.source.cache.Unlock()
	a.source.asked = true
	a.source.keepMeta()
}

// largeAttributes reports whether the metadata, which travels in an attribute in a strict profile, comes near the
// 64 KiB that an attribute can have.
func (s *Source) largeAttributes(m *metav1.ObjectMeta) bool {
	if !s.traits.Strict {
		return false
	}
	size := 256 * len(m.OwnerReferences)
	for _, pairs := range []map[string]string{m.Labels, m.Annotations} {
		for k, v := range pairs {
			size += len(k) + len(v) + 8
		}
	}
	return size > 8<<10 // escapes may make six of each byte
}

// cannotSend makes of a codec's error the one of the API server.
func cannotSend(err error) error {
	var e *codec.Error
	if errors.As(err, &e) && e.Code == codec.CodeAttribute && e.Field == "metadata" {
		return apierrors.NewRequestEntityTooLargeError(err.Error())
	}
	return apierrors.NewBadRequest(err.Error())
}

// report is what the next version and sequence of a work must be above.
type report struct{ version, seq int64 }

// reports keeps them for works without a record: such that are not created yet after a restart, and such that are
// gone. If either is created, its agent must take it for newer.
type reports struct {
	byID map[string]datedReport
	// sweepAt is how many there must be for the old ones to be dropped.
	sweepAt int
	// keep is called when that of a work that is gone has changed: what this source has sent of it may come late, also
	// after a restart, so a Store has it.
	keep func(id string)
	// account is charged for each.
	account *account
}

type datedReport struct {
	report
	at time.Time
	// past is whether the work was here and is gone.
	past bool
}

const (
	// reportTTL is how long one is kept: an agent with the work would have shown it again.
	reportTTL = DefaultTombstoneTTL
)

func (l *reports) saw(id string, r datedReport) {
	if l.byID == nil {
		l.byID, l.sweepAt = map[string]datedReport{}, 1024
	}
	old, known := l.byID[id]
	size := int64(reportCost + len(id))
	switch {
	case known:
	case r.past: // of a work that was this source's own
		l.account.set(0, size)
	case !l.account.charge(size):
		return
	}
	now, past := r.at, r.past || old.past
	l.byID[id] = datedReport{report{max(old.version, r.version), max(old.seq, r.seq)}, now, past}
	if past {
		l.keep(id)
	}
	if len(l.byID) >= l.sweepAt {
		l.sweep(now)
	}
}

// sweep drops those that are old.
func (l *reports) sweep(now time.Time) {
	for id, r := range l.byID {
		if now.Sub(r.at) > reportTTL {
			l.take(id)
		}
	}
	l.sweepAt = max(1024, 2*len(l.byID))
}

// take removes what is known of a work.
func (l *reports) take(id string) (report, bool) {
	r, ok := l.byID[id]
	delete(l.byID, id)
	if ok {
		l.account.set(int64(reportCost+len(id)), 0)
	}
	if r.past {
		l.keep(id)
	}
	return r.report, ok
}

// clear removes all.
func (l *reports) clear() {
	for id := range l.byID {
		l.take(id)
	}
}
