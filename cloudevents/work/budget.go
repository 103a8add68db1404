// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"
)

// budget bounds the bytes that peers make a process keep, for each peer and in all. Sizes are estimates, which count what
// a peer can choose and a fixed cost for the rest.
type budget struct {
	perPeer, total int64

	mu sync.Mutex
	// used counts the bytes kept, allowed those that works of this process's own have added to the total.
	used, allowed int64
}

// account is what one peer makes a process keep. The zero value is not usable.
type account struct {
	budget        *budget
	used, allowed int64
}

// Estimated costs in bytes of what peers can make a process keep.
const (
	workAllowance = 16 << 10 // of each work that the source's user has created
	tombstoneCost = 1 << 10
	clusterCost   = 2 << 10
	listCost      = 512
	entryCost     = 64
	requestCost   = 1 << 10
	reportCost    = 256
	replyCost     = 16
	recordCost    = 1 << 10 // of a work at an agent, without its specs
	sourceCost    = 1 << 10
)

func sourceSize(name string) int64 { return int64(sourceCost + len(name)) }

// charge adds n bytes, unless the peer or all peers would then keep more than they may.
func (a *account) charge(n int64) bool {
	b := a.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if !a.roomLocked(n) {
		return false
	}
	a.used += n
	b.used += n
	return true
}

// room reports whether charge would add n bytes.
func (a *account) room(n int64) bool {
	b := a.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	return a.roomLocked(n)
}

func (a *account) roomLocked(n int64) bool {
	b := a.budget
	return n <= 0 || a.used+n <= b.perPeer+a.allowed && b.used+n <= b.total+b.allowed
}

// set replaces a charge of an earlier size whatever the bounds are, and returns the new size.
func (a *account) set(old, size int64) int64 {
	b := a.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	a.used += size - old
	b.used += size - old
	return size
}

// allow raises the bounds, or lowers them.
func (a *account) allow(n int64) {
	b := a.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	a.allowed += n
	b.allowed += n
}

// statusSize estimates the memory of a status.
func statusSize(s *workv1.ManifestWorkStatus) int64 {
	size := conditionsSize(s.Conditions)
	for i := range s.ResourceStatus.Manifests {
		m := &s.ResourceStatus.Manifests[i]
		r := &m.ResourceMeta
		size += 256 + len(r.Group) + len(r.Version) + len(r.Kind) + len(r.Resource) + len(r.Name) + len(r.Namespace)
		size += conditionsSize(m.Conditions)
		for j := range m.StatusFeedbacks.Values {
			v := &m.StatusFeedbacks.Values[j]
			size += 128 + len(v.Name) + len(v.Value.Type)
			for _, s := range []*string{v.Value.String, v.Value.JsonRaw} {
				if s != nil {
					size += 16 + len(*s)
				}
			}
		}
	}
	return int64(size)
}

func conditionsSize(conditions []metav1.Condition) (size int) {
	for i := range conditions {
		c := &conditions[i]
		size += 160 + len(c.Type) + len(c.Status) + len(c.Reason) + len(c.Message)
	}
	return size
}

// account charges the cluster for a record as it is now: a tombstone, the status of an object, or nothing once it is
// removed. The source's mutex is held.
func (w *sourceWork) account() {
	a, size, own := &w.cluster.account, int64(0), false
	if w.source.works[workID{w.cluster.name, w.id}] == w {
		if own = w.Object != nil; own {
			size = statusSize(&w.Object.Status)
		} else {
			size = w.tombstoneSize()
		}
	}
	w.charged = a.set(w.charged, size)
	switch {
	case own && !w.own:
		a.allow(workAllowance)
	case !own && w.own:
		a.allow(-workAllowance)
	}
	w.own = own
}

func (w *sourceWork) tombstoneSize() int64 { return int64(tombstoneCost + 2*len(w.id) + len(w.name)) }

// admit refuses a status that is too large, that the CRD's schema forbids, or for which the cluster has no bytes left.
func (w *sourceWork) admit(status *workv1.ManifestWorkStatus) error {
	o := &w.source.options
	size := statusSize(status)
	if size > int64(o.MaxStatusBytes) {
		return unusable(refusedBudget, "the status of work %s/%s has %d bytes, SourceOptions.MaxStatusBytes is %d",
			w.cluster.name, w.name, size, o.MaxStatusBytes)
	}
	// The schema takes longer to check than the size.
	if err := brief(statusErrors(status)); err != nil {
		return unusable(refusedSchema, "the status of work %s/%s is invalid: %w", w.cluster.name, w.name, err)
	}
	if !w.cluster.account.charge(size - w.charged) {
		return unusable(refusedBudget, "the status of work %s/%s has %d bytes: %w", w.cluster.name, w.name, size, errOverBudget)
	}
	w.charged = size
	return nil
}
