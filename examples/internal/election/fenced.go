// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"slices"
	"time"

	"github.com/spokewire/sdk-go/rsync/store"
)

// Store returns the store for the parts of the leader. Its transactions fail with [ErrDeposed]
// unless this replica leads, and all its leases are the lease of the leader: the next leader need
// not wait for them.
func (e *Election) Store() store.Store { return &fenced{e.options.Store, e} }

type fenced struct {
	store.Store
	election *Election
}

// Txn implements [store.Data].
func (f *fenced) Txn(ctx context.Context, compares []store.Compare, ops []store.Op) (store.TxnResult, error) {
	t, _ := f.election.state()
	if t == nil {
		return store.TxnResult{}, ErrDeposed
	}
	n := len(compares)
	result, err := f.Store.Txn(ctx, append(slices.Clip(compares), store.Unchanged(t.kv)), ops)
	if err != nil || result.Succeeded {
		return result, err
	}
	if result.Current[n].ModRevision != t.kv.ModRevision {
		t.end(ErrDeposed)
		return store.TxnResult{}, ErrDeposed
	}
	result.Current = result.Current[:n]
	return result, nil
}

// Grant implements [store.Leases].
func (f *fenced) Grant(context.Context, time.Duration) (store.Lease, error) {
	t, _ := f.election.state()
	if t == nil {
		return 0, ErrDeposed
	}
	return t.kv.Lease, nil
}

// MaxTxnBytes implements [store.Limits].
func (f *fenced) MaxTxnBytes() int {
	bytes, _ := store.LimitsOf(f.Store)
	return bytes - len(f.election.options.Key)
}

// MaxTxnOps implements [store.Limits].
func (f *fenced) MaxTxnOps() int {
	_, ops := store.LimitsOf(f.Store)
	return ops - 1
}
