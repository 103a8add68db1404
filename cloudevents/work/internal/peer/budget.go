// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"bytes"
	"fmt"
	"sync"

	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/cache"
	"github.com/spokewire/sdk-go/codec"
)

// Budget bounds the bytes that peers make a process keep, for each peer and in total. Sizes are
// estimates: they count data that a peer can choose, and a fixed cost for the rest.
type Budget struct {
	PerPeer, Total int64
	Options, Peer  string // the type of the options, and the name of the one for PerPeer

	mu sync.Mutex
	// used counts the kept bytes. allowed counts the bytes that this process's own works add to the
	// bound Total.
	used, allowed int64
}

// Account counts the bytes that one peer makes a process keep. The zero value is not usable.
type Account struct {
	Budget        *Budget
	used, Allowed int64
}

// Estimated costs in bytes of the data that peers make a process keep.
const (
	WorkAllowance = 16 << 10 // of each work that the source's user has created
	TombstoneCost = 1 << 10
	ClusterCost   = 2 << 10
	ListCost      = 512
	EntryCost     = 64
	SuspectCost   = 128
	requestCost   = 1 << 10
	ReportCost    = 256
	ReplyCost     = 16
	recordCost    = 1 << 10 // of a work at an agent, without its specs
	sourceCost    = 1 << 10
)

// SourceSize estimates the memory of the record of a source.
func SourceSize(name string) int64 { return int64(sourceCost + len(name)) }

// Used returns the charge for all peers.
func (b *Budget) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// Used returns the charge for the peer.
func (a *Account) Used() int64 {
	a.Budget.mu.Lock()
	defer a.Budget.mu.Unlock()
	return a.used
}

// Charge adds n bytes. It returns false if the peer or all peers would then exceed a bound.
func (a *Account) Charge(n int64) bool { return a.ChargeExcept(n, 0) }

// ChargeSpec is Charge for a spec. It leaves a sixteenth of the bounds to reports of refused specs,
// requests and lists, which confirm works and repair losses.
func (a *Account) ChargeSpec(n int64) bool { return a.ChargeExcept(n, specReserve) }

// Specs leave one specReserve-th of the bounds, and reports of refused specs one reportReserve-th.
const (
	specReserve   = 16
	ReportReserve = 2 * specReserve
)

// ChargeExcept is Charge that leaves one reserve-th of the bounds free; 0 leaves none.
func (a *Account) ChargeExcept(n, reserve int64) bool {
	b := a.Budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if !a.fitsLocked(n, reserve) {
		return false
	}
	a.used += n
	b.used += n
	return true
}

// HasRoom reports whether Charge would add n bytes.
func (a *Account) HasRoom(n int64) bool {
	a.Budget.mu.Lock()
	defer a.Budget.mu.Unlock()
	return a.fitsLocked(n, 0)
}

func (a *Account) fitsLocked(n, reserve int64) bool {
	peer, all := a.freeLocked(reserve)
	return n <= min(peer, all) || n <= 0
}

// FreeForSpecs returns how many bytes ChargeSpec can add, within the bound of the peer and within
// that of all peers.
func (a *Account) FreeForSpecs() (peer, all int64) {
	a.Budget.mu.Lock()
	defer a.Budget.mu.Unlock()
	return a.freeLocked(specReserve)
}

// ErrFull returns an error that names the bound with less room.
func (a *Account) ErrFull() error {
	b := a.Budget
	option, bound := b.Peer, b.PerPeer
	if peer, all := a.FreeForSpecs(); all < peer {
		option, bound = "MaxBytes", b.Total
	}
	return fmt.Errorf("no room within %s.%s (%d bytes)", b.Options, option, bound)
}

func (a *Account) freeLocked(reserve int64) (peer, all int64) {
	b := a.Budget
	peer, all = b.PerPeer+a.Allowed-a.used, b.Total+b.allowed-b.used
	if reserve > 0 {
		peer, all = peer-b.PerPeer/reserve, all-b.Total/reserve
	}
	return peer, all
}

// Set replaces an earlier charge, even beyond the bounds, and returns the new size.
func (a *Account) Set(old, size int64) int64 {
	b := a.Budget
	b.mu.Lock()
	defer b.mu.Unlock()
	a.used += size - old
	b.used += size - old
	return size
}

// Allow raises the bounds by n bytes, or lowers them if n is negative.
func (a *Account) Allow(n int64) {
	b := a.Budget
	b.mu.Lock()
	defer b.mu.Unlock()
	a.Allowed += n
	b.allowed += n
}

// StatusSize estimates the memory of a status.
func StatusSize(s *workv1.ManifestWorkStatus) int64 { return int64(cache.StatusSize(s)) }

// RecordSize estimates the memory of an agent's record without specs.
func RecordSize(id, name string) int64 { return int64(recordCost + 2*len(id) + len(name)) }

// SpecSize estimates the memory of a spec. The size of the event is no estimate: two bytes can
// become an owner reference.
func SpecSize(s *codec.Spec) int64 {
	if s == nil || s.Work == nil {
		return 0
	}
	return int64(cache.SpecSize(&s.Work.ObjectMeta, &s.Work.Spec))
}

// copyLimit is the total size of manifests up to which the codec copies them.
const copyLimit = 8 << 10

// Detach copies manifests that are slices of their event. Otherwise they would keep the whole event
// in memory.
func Detach(s *workv1.ManifestWorkSpec) {
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

// DetachFrom copies the manifests that next shares with current. Otherwise each would keep all
// manifests of its event in memory.
func DetachFrom(current, next *workv1.ManifestWorkSpec) {
	was, is := current.Workload.Manifests, next.Workload.Manifests
	for i := range min(len(was), len(is)) {
		if raw := is[i].Raw; len(raw) > 0 && len(was[i].Raw) > 0 && &raw[0] == &was[i].Raw[0] {
			is[i].Raw = bytes.Clone(raw)
		}
	}
}
