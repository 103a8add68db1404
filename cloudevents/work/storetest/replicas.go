// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/spokewire/sdk-go/cloudevents/work"
)

// RunReplicas checks that replicas can share a store. It calls open several times: each call must
// open the same place, as another process would, and register the function that closes the store
// with t.Cleanup. The place must be empty at first.
func RunReplicas(t *testing.T, open func(t *testing.T) work.SharedStore) {
	stores := make([]work.SharedStore, 4)
	for i := range stores {
		stores[i] = open(t)
	}
	t.Run("OneOfManyWins", func(t *testing.T) { oneWins(t, stores) })
	t.Run("RefusesFormerLeaders", func(t *testing.T) { rival(t, stores, 50) })
	t.Run("ReadsChangesOfOthers", func(t *testing.T) {
		apply(t, stores[0], set("shared", "1"))
		for i, s := range stores {
			if got := content(t, s)["shared"]; got != "1" {
				t.Errorf("store %d has %q", i, got)
			}
		}
	})
}

// oneWins: of several changes with the same condition, one is made.
func oneWins(t *testing.T, stores []work.SharedStore) {
	for round := range 50 {
		apply(t, stores[0], set("prize", "free"))
		var group sync.WaitGroup
		var won atomic.Int32
		for i, s := range stores {
			group.Go(func() {
				err := s.ApplyIf(t.Context(), set("prize", "free"), []work.Change{set("prize", fmt.Sprint(i))})
				switch {
				case err == nil:
					won.Add(1)
				case !errors.Is(err, work.ErrCondition):
					t.Errorf("ApplyIf: %v", err)
				}
			})
		}
		group.Wait()
		if n := won.Load(); n != 1 {
			t.Fatalf("round %d: %d of %d changes were made on one condition", round, n, len(stores))
		}
	}
}

// rival: several leaders take over from each other. No batch that a leader writes on the condition
// that it is the leader follows the claim of another.
func rival(t *testing.T, stores []work.SharedStore, claims int) {
	var group sync.WaitGroup
	for id, s := range stores {
		group.Go(func() {
			for claim := range claims {
				leader := set("leader", fmt.Sprint(id, "-", claim))
				if err := s.Apply(t.Context(), []work.Change{leader}); err != nil {
					t.Errorf("Apply: %v", err)
				}
				for range 3 {
					err := s.ApplyIf(t.Context(), leader, []work.Change{{Key: "by", Value: leader.Value}})
					if err != nil && !errors.Is(err, work.ErrCondition) {
						t.Errorf("ApplyIf: %v", err)
					}
				}
			}
		})
	}
	followed := make(chan error, 1)
	go func() { followed <- stores[0].Follow(t.Context(), "", nil, judge(t)) }()
	group.Wait()
	apply(t, stores[0], set("end", ""))
	if err := <-followed; !errors.Is(err, errDone) {
		t.Errorf("Follow: %v", err)
	}
	apply(t, stores[0], remove("end"))
}

// judge returns a follower that checks who wrote each batch. It returns errDone at the record
// "end".
func judge(t *testing.T) func(b work.Batch) error {
	records, tail := map[string]string{}, false
	return func(b work.Batch) error {
		err := replay(records, b)
		if by := records["by"]; tail && b.Changes[0].Key == "by" && by != records["leader"] {
			t.Errorf("a batch of %s was accepted while %s was the leader", by, records["leader"])
		}
		tail = tail || b.Position != ""
		return err
	}
}
