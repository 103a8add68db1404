// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"slices"
	"time"

	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/codec"
)

// In the profile ManifestBundle agents compare the version of an event with the
// generation of their object, and copy it to observedGeneration. So each work has its own versions,
// and its generation follows them.

// bundleWork has the fields of a record that only the profile ManifestBundle needs.
type bundleWork struct {
	storedBundleWork
	// otherSent is whether the work was sent because the agent reported another creation time.
	otherSent bool
}

// storedBundleWork has those fields that the Store has too.
type storedBundleWork struct {
	// Floor is the highest version that was reported, or may have been. The next version is above
	// it and above the current version.
	Floor int64 `json:"floor,omitempty"`
	// Unversioned is whether the user requested that the work is sent without versions.
	Unversioned bool `json:"unversioned,omitempty"`
	// Created is whether the work is unchanged since Create, Reported whether an agent has reported
	// a status.
	Created  bool `json:"created,omitempty"`
	Reported bool `json:"reported,omitempty"`
}

// isOtherLocked reports whether a status is about a work with another creation time, which an
// earlier process of this source created. Agents send metadata back. It returns true only once for
// each work, because some agents keep the first creation time that they received.
func (w *sourceWork) isOtherLocked(m *codec.Status) bool {
	if w == nil || w.Object == nil || w.bundle.otherSent || m.Metadata == nil || m.Metadata.CreationTimestamp.IsZero() {
		return false
	}
	w.bundle.otherSent = !m.Metadata.CreationTimestamp.Equal(&w.Object.CreationTimestamp)
	return w.bundle.otherSent
}

// bundleSpecLocked changes a spec for the profile ManifestBundle. It sends only the finalizer of
// the agent's clean-up: a user's own finalizers would stay on the cluster.
func (w *sourceWork) bundleSpecLocked(spec *codec.Spec) {
	if w.bundle.Created {
		spec.Action = codec.ActionCreate
	}
	if w.Object == nil {
		return
	}
	obj := *w.Object
	held := w.bundle.Reported || slices.Contains(obj.Finalizers, workv1.ManifestWorkFinalizer)
	obj.Finalizers = nil
	if held {
		obj.Finalizers = []string{workv1.ManifestWorkFinalizer}
	}
	spec.Work = &obj
}

// askedAll is a requirement that notes when the broker has the request. If the request is lost with
// its connection, it is made again.
type askedAll struct {
	*peer.Requirement
	records *records
}

func (a *askedAll) Settled(err error) {
	if err != nil || a.Replaced() {
		return
	}
	a.records.mu.Lock()
	defer a.records.mu.Unlock()
	a.records.asked = true
	a.records.keepMetaLocked()
}

// report has the version and sequence ID that the next ones of a work must exceed.
type report struct{ version, seq int64 }

// reports has the reports of works without a record: works that are not created again yet after a
// restart, and removed works. If such a work is created, its version must be newer for the agent.
type reports struct {
	byID map[string]datedReport
	// sweepAt is the number of reports at which old reports are dropped.
	sweepAt int
	// cluster is charged for each report. The Store has the reports of removed works, because late
	// events of such a work may arrive at the agent even after a restart.
	cluster *sourceCluster
}

type datedReport struct {
	report
	at time.Time
	// past is whether the work existed here and was removed.
	past bool
}

// reportTTL is how long a report is kept. An agent with the work reports it again within this time.
const reportTTL = 24 * time.Hour

func (l *reports) sawLocked(id string, r datedReport) {
	if l.byID == nil {
		l.byID, l.sweepAt = map[string]datedReport{}, 1024
	}
	old, known := l.byID[id]
	size := int64(peer.ReportCost + len(id))
	switch {
	case known:
	case r.past: // a work of this source: charged even beyond the bounds
		l.cluster.account.Set(0, size)
	case !l.cluster.account.Charge(size):
		return
	}
	now, past := r.at, r.past || old.past
	l.byID[id] = datedReport{report{max(old.version, r.version), max(old.seq, r.seq)}, now, past}
	if past {
		l.cluster.keepPastLocked(id)
	}
	if len(l.byID) >= l.sweepAt {
		l.sweepLocked(now)
	}
}

func (l *reports) sweepLocked(now time.Time) {
	for id, r := range l.byID {
		if now.Sub(r.at) > reportTTL {
			l.takeLocked(id)
		}
	}
	l.sweepAt = max(1024, 2*len(l.byID))
}

// takeLocked removes the report of a work and returns it.
func (l *reports) takeLocked(id string) (report, bool) {
	r, ok := l.byID[id]
	delete(l.byID, id)
	if ok {
		l.cluster.account.Set(int64(peer.ReportCost+len(id)), 0)
	}
	if r.past {
		l.cluster.keepPastLocked(id)
	}
	return r.report, ok
}

func (l *reports) clearLocked() {
	for id := range l.byID {
		l.takeLocked(id)
	}
}
