// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"fmt"
	"time"
)

const (
	// maxHeals limits the consecutive heals of an app on a cluster.
	maxHeals = 5
	// healPause is the time after the first Heal before the next one. It doubles with each, up to
	// healMemory. Drift that appears later than healMemory after the last Heal starts over.
	healPause  = 30 * time.Second
	healMemory = time.Hour
)

// decide decides whether the drift of an app on a cluster is healed now. It sets Reason if another
// writer undoes each Heal. drifted is whether the previous observation had drift. again is when
// to decide again, and zero if a later read does.
func (o *observed) decide(drifted bool, now time.Time) (heal bool, again time.Time) {
	if len(o.Indexes) == 0 || o.Reason != "" {
		return false, time.Time{}
	}
	if !drifted && now.Sub(o.Healed) > healMemory {
		o.Heals, o.Tries = 0, 0
	}
	if o.Heals >= maxHeals {
		o.Reason = ReasonContested
		o.Message = fmt.Sprintf("the drift came back after each of %d heals, so another writer changes the objects",
			o.Heals)
		return false, time.Time{}
	}
	if at := o.Healed.Add(healDelay(o.Tries)); o.Tries > 0 && at.After(now) {
		return false, at
	}
	return true, time.Time{}
}

// healDelay returns the minimum time between the last Heal and the next, after a number of tries.
func healDelay(tries int) time.Duration {
	d := healPause
	for ; tries > 1 && d < healMemory; tries-- {
		d = min(2*d, healMemory)
	}
	return d
}

func (o *observed) start(seq uint64, now time.Time) {
	o.Heal, o.Healed = seq, now
	o.Tries++
}
