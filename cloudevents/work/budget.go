// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"bytes"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/store"
	"github.com/spokewire/sdk-go/codec"
)

// budget bounds the bytes that peers make a process keep, for each peer and in all. Sizes are
// estimates, which count what a peer can choose and a fixed cost for the rest.
type budget struct {
	perPeer, total int64
	options, peer  string // the type of the options, and the name of the one for perPeer

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
	suspectCost   = 128
	requestCost   = 1 << 10
	reportCost    = 256
	replyCost     = 16
	recordCost    = 1 << 10 // of a work at an agent, without its specs
	sourceCost    = 1 << 10
)

func sourceSize(name string) int64 { return int64(sourceCost + len(name)) }

// charge adds n bytes, unless the peer or all peers would then keep more than they may.
func (a *account) charge(n int64) bool { return a.chargeExcept(n, 0) }

// chargeSpec is charge for a spec. It leaves a sixteenth of the bounds to records that report
// refused specs, and to requests and lists: without these, what has arrived is not confirmed, and
// what is lost is not repaired.
func (a *account) chargeSpec(n int64) bool { return a.chargeExcept(n, specReserve) }

// Specs leave one specReserve-th of the bounds, and reports of refused specs one reportReserve-th.
const (
	specReserve   = 16
	reportReserve = 2 * specReserve
)

func (a *account) chargeExcept(n, reserve int64) bool {
	b := a.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if peer, all := a.freeLocked(reserve); n > 0 && n > min(peer, all) {
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
	peer, all := a.freeLocked(0)
	return n <= min(peer, all) || n <= 0
}

// freeForSpecs returns how many bytes chargeSpec can add, within the bound of the peer and within that of all peers.
func (a *account) freeForSpecs() (peer, all int64) {
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	return a.freeLocked(specReserve)
}

// errFull returns the bound that leaves less room.
func (a *account) errFull() error {
	b := a.budget
	option, bound := b.peer, b.perPeer
	if peer, all := a.freeForSpecs(); all < peer {
		option, bound = "MaxBytes", b.total
	}
	return fmt.Errorf("no room within %s.%s (%d bytes)", b.options, option, bound)
}

func (a *account) freeLocked(reserve int64) (peer, all int64) {
	b := a.budget
	peer, all = b.perPeer+a.allowed-a.used, b.total+b.allowed-b.used
	if reserve > 0 {
		peer, all = peer-b.perPeer/reserve, all-b.total/reserve
	}
	return peer, all
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
	if !own {
		delete(w.cluster.delivery.refused, w)
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
	delete(w.cluster.delivery.refused, w)
	if size > int64(o.MaxStatusBytes) {
		return unusable(refusedBudget, "the status of work %s/%s has %d bytes, SourceOptions.MaxStatusBytes is %d",
			w.cluster.name, w.name, size, o.MaxStatusBytes)
	}
	// The schema takes longer to check than the size.
	if err := brief(statusErrors(status)); err != nil {
		return unusable(refusedSchema, "the status of work %s/%s is invalid: %w", w.cluster.name, w.name, err)
	}
	if !w.cluster.account.charge(size - w.charged) {
		w.source.refusedLocked(w, size)
		return unusable(refusedBudget, "the status of work %s/%s has %d bytes: %w",
			w.cluster.name, w.name, size, w.cluster.account.errFull())
	}
	w.charged = size
	return nil
}

// account charges the source for the record as it is now. The agent's mutex is held.
func (w *agentWork) account() {
	size, before := int64(0), w.charged
	if w.source.works[w.id] == w {
		size = w.size()
	}
	if w.charged = w.source.account.set(before, size); size < before {
		w.agent.roomLocked()
	}
}

// admit charges the source for a spec that w is to have, as its next one or at once. A spec that
// exceeds the bounds loses its content, and the record reports that. It is an error where there is
// no room for the report either.
func (w *agentWork) admit(spec *codec.Spec, next bool) error {
	size := recordSize(w.id, spec.Name) + specSize(spec)
	if next {
		size = w.size() - specSize(w.next) + specSize(spec)
	}
	if w.source.account.chargeSpec(size - w.charged) {
		less := size < w.charged
		w.charged = size
		w.setRefused(0)
		if less {
			w.agent.roomLocked()
		}
		if spec.Work != nil {
			detach(&spec.Work.Spec)
		}
		return nil
	}
	err := unusable(refusedBudget, "work %s of source %s has %d bytes: %w",
		spec.Name, w.source.name, size, w.source.account.errFull())
	report := max(recordSize(w.id, spec.Name)+reportCost, w.charged)
	if next || spec.Work == nil || spec.DeletionTimestamp != nil || !w.source.account.chargeExcept(report-w.charged, reportReserve) {
		return err
	}
	w.charged = report
	w.setRefused(size)
	spec.Work = nil
	w.agent.refuseLocked("", err, refusedBudget, 1)
	return nil
}

// refusal returns why a spec was refused.
func (w *agentWork) refusal() string {
	return fmt.Sprintf("the work has %d bytes: %v", w.refused, w.source.account.errFull())
}

// setRefused notes the size of a spec that was refused; 0 is for none.
func (w *agentWork) setRefused(size int64) {
	s := w.source
	had := len(s.refused)
	w.refused = size
	switch {
	case size == 0:
		delete(s.refused, w)
	case s.refused == nil:
		s.refused = map[*agentWork]bool{w: false}
	default:
		s.refused[w] = false
	}
	w.agent.refused += len(s.refused) - had
}

// roomLocked asks for refused specs soon: there may be room for some.
func (a *Agent) roomLocked() {
	if a.refused > 0 {
		a.gatherLocked(askDelay)
	}
}

// findRoomLocked chooses the refused specs that there is room for now. Lists and digests show an
// earlier version of their works, so that the source sends them.
func (a *Agent) findRoomLocked() {
	if a.refused == 0 {
		return
	}
	for _, s := range a.sources {
		peer, all := s.account.freeForSpecs()
		free := min(peer, all)
		for w := range s.refused {
			more := w.refused - w.charged
			fits := more <= free
			if s.refused[w] = fits; fits {
				free -= more
			}
		}
	}
}

// size estimates the memory that the source makes the agent keep for a work. Statuses do not count:
// the agent's user writes them.
func (w *agentWork) size() int64 {
	size := recordSize(w.id, w.name) + specSize(w.next)
	if w.Object != nil {
		meta := metav1.ObjectMeta{Labels: w.labels, Annotations: w.annotations, OwnerReferences: w.Object.OwnerReferences}
		size += int64(store.SpecSize(&meta, &w.Object.Spec))
	}
	if w.lastMeta != nil {
		size += int64(store.MetaSize(w.lastMeta))
	}
	if w.problem != nil {
		size += int64(len(w.problem.Message))
	}
	return size
}

// recordSize estimates the memory of an agent's record without specs.
func recordSize(id, name string) int64 { return int64(recordCost + 2*len(id) + len(name)) }

// specSize estimates the memory of a spec. An event is no measure: two bytes can become an owner reference.
func specSize(s *codec.Spec) int64 {
	if s == nil || s.Work == nil {
		return 0
	}
	return int64(store.SpecSize(&s.Work.ObjectMeta, &s.Work.Spec))
}

// copyLimit is the size of manifests up to which the codec has copied them.
const copyLimit = 8 << 10

// detach copies manifests that are slices of their event. They would keep all of it, with whatever is in there besides.
func detach(s *workv1.ManifestWorkSpec) {
	size := 0
	for i := range s.Workload.Manifests {
		size += len(s.Workload.Manifests[i].Raw)
	}
	if size <= copyLimit {
		return
	}
	all := make([]byte, 0, size)
	for i := range s.Workload.Manifests {
		raw := &s.Workload.Manifests[i].Raw
		all = append(all, *raw...)
		*raw = all[len(all)-len(*raw) : len(all) : len(all)]
	}
}

// detachFrom copies the manifests that next shares with current. Each would keep all manifests that it came with.
func detachFrom(current, next *workv1.ManifestWorkSpec) {
	was, is := current.Workload.Manifests, next.Workload.Manifests
	for i := range min(len(was), len(is)) {
		if raw := is[i].Raw; len(raw) > 0 && len(was[i].Raw) > 0 && &raw[0] == &was[i].Raw[0] {
			is[i].Raw = bytes.Clone(raw)
		}
	}
}
