// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/clientset"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
)

// accountLocked charges the cluster for a tombstone, the status of an object, or nothing if the
// record was removed.
func (w *sourceWork) accountLocked() {
	a, size, own := &w.cluster.account, int64(0), false
	if w.source.works[workID{w.cluster.name, w.id}] == w {
		if own = w.Object != nil; own {
			size = peer.StatusSize(&w.Object.Status)
		} else {
			size = w.tombstoneSize()
		}
	}
	if !own {
		delete(w.cluster.delivery.refused, w)
	}
	w.charged = a.Set(w.charged, size)
	switch {
	case own && !w.own:
		a.Allow(peer.WorkAllowance)
	case !own && w.own:
		a.Allow(-peer.WorkAllowance)
	}
	w.own = own
}

func (w *sourceWork) tombstoneSize() int64 {
	return int64(peer.TombstoneCost + 2*len(w.id) + len(w.name))
}

// admit refuses a status that is too large, that the CRD's schema forbids, or for which the cluster
// has no bytes left.
func (w *sourceWork) admit(status *workv1.ManifestWorkStatus) error {
	o := &w.source.options
	size := peer.StatusSize(status)
	delete(w.cluster.delivery.refused, w)
	if size > int64(o.MaxStatusBytes) {
		return peer.Unusable(peer.RefusedBudget, "the status of work %s/%s has %d bytes, SourceOptions.MaxStatusBytes is %d",
			w.cluster.name, w.name, size, o.MaxStatusBytes)
	}
	if err := clientset.Brief(clientset.StatusErrors(status)); err != nil {
		return peer.Unusable(peer.RefusedSchema, "the status of work %s/%s is invalid: %w", w.cluster.name, w.name, err)
	}
	if !w.cluster.account.Charge(size - w.charged) {
		w.source.refusedLocked(w, size)
		return peer.Unusable(peer.RefusedBudget, "the status of work %s/%s has %d bytes: %w",
			w.cluster.name, w.name, size, w.cluster.account.ErrFull())
	}
	w.charged = size
	return nil
}
