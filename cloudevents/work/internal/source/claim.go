// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
	"fmt"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/journal"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
)

// claim claims leadership in the store. It waits until this replica has read its claim back, and
// with it all changes that were stored before.
func (r *replica) claim(ctx context.Context) error {
	for {
		r.mu.Lock()
		leads, follows, changed := r.leads, r.follows, r.changed.Next()
		var claim []byte
		var err error
		previous := journal.Change{Key: journal.KeyLeader, Value: r.current}
		if !leads && follows && !r.hasEnded() {
			claim, err = r.newClaimLocked()
		}
		r.mu.Unlock()
		switch {
		case err != nil:
			return err
		case leads:
			return nil
		case claim != nil:
			err := r.store.ApplyIf(ctx, previous, []journal.Change{{Key: journal.KeyLeader, Value: claim}})
			if err != nil && !errors.Is(err, journal.ErrCondition) {
				return fmt.Errorf("become the leader: %w", err)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.ended:
			return peer.ErrStopped
		case <-changed: // the claim succeeded, or another replica was faster
		}
	}
}

// newClaimLocked returns a record for journal.KeyLeader that no earlier write of this replica has as
// its condition.
func (r *replica) newClaimLocked() (claim []byte, err error) {
	r.claims++
	claim, err = journal.Encode(&storedLeader{Replica: r.id, Claim: r.claims, Version: r.firstVersionLocked()})
	r.claimed = claim
	return claim, err
}

// errOutdated ends a call of Follow when this replica was behind while it was the leader, and no other
// replica has become the leader since.
var errOutdated = errors.New("the leader was behind")

// claimAgain replaces the claim of a leader that was behind. Otherwise the store could make a write
// that is not in the content that this replica has read, and would not be in its memory. Its next
// resourceVersions are higher than those that the store has lost.
func (r *replica) claimAgain(ctx context.Context) error {
	r.mu.Lock()
	previous, claim := journal.Change{Key: journal.KeyLeader, Value: r.outdated}, r.claimed
	var err error
	if claim == nil { // otherwise an earlier attempt failed
		claim, err = r.newClaimLocked()
	}
	r.mu.Unlock()
	if err != nil {
		return err
	}
	err = r.store.ApplyIf(ctx, previous, []journal.Change{{Key: journal.KeyLeader, Value: claim}})
	if err != nil && !errors.Is(err, journal.ErrCondition) {
		return fmt.Errorf("become the leader again: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outdated = nil // the store has another claim, which Follow may deliver later
	return nil
}
