// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// intents stores since when entries without a UID have no object, which a late request may create.
type intents struct {
	clock clock.PassiveClock
	grace time.Duration

	mu    sync.Mutex
	since map[intent]time.Time
}

type intent struct {
	work types.UID
	key  Key
}

func newIntents(c clock.PassiveClock, grace time.Duration) *intents {
	return &intents{clock: c, grace: grace, since: map[intent]time.Time{}}
}

// settled reports whether the grace period of an intent is over. The first call starts it.
func (s *intents) settled(work types.UID, key Key, dry bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, i := s.clock.Now(), intent{work, key}
	since, known := s.since[i]
	if !known {
		since = now
		if !dry {
			s.since[i] = now
		}
	}
	if now.Sub(since) < s.grace {
		return false
	}
	delete(s.since, i)
	return true
}

// forget ends the grace period of an intent because its object exists.
func (s *intents) forget(work types.UID, key Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.since, intent{work, key})
}

// keepOnly forgets the intents of a work that are not among the unconfirmed entries.
func (s *intents) keepOnly(work types.UID, entries []v1alpha1.AppliedResourceMeta) {
	unconfirmed := map[Key]bool{}
	for _, e := range entries {
		if e.UID == "" {
			unconfirmed[KeyOf(e.ResourceIdentifier)] = true
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.since, func(i intent, _ time.Time) bool { return i.work == work && !unconfirmed[i.key] })
}
