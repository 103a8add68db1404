// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"time"

	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/examples/agent/internal/spoke"
)

const (
	// patient is the number of times that an object must have been applied again to be contested,
	// for example by a work with other values.
	patient = 4
	// settled is the time without a further change after which a contest is over.
	settled = 5 * time.Minute
)

// contest counts how often an object had to be applied again for one generation of a work.
type contest struct {
	again int
	last  time.Time
}

// contests are the contests of one work.
type contests struct {
	generation int64
	objects    map[appliedwork.Key]contest
}

// judge marks the contested outcomes. It returns how long the work must pause: longer each time, a
// minute at most. The second result is the time until the next contest is over; 0 without contests.
func (c *Controller) judge(w *workv1.ManifestWork, r *spoke.Result, now time.Time) (pause, over time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of, ok := c.contests[w.Name]
	if !ok || of.generation != w.Generation {
		// The first apply of a generation is no change by others.
		c.contests[w.Name] = contests{w.Generation, map[appliedwork.Key]contest{}}
		return 0, 0
	}
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		is := of.objects[o.Key]
		if is.again > 0 && now.Sub(is.last) >= settled {
			delete(of.objects, o.Key)
			is = contest{}
		}
		if o.Configured {
			is = contest{is.again + 1, now}
			of.objects[o.Key] = is
		}
		if o.Contested = is.again >= patient; !o.Contested {
			continue
		}
		over = sooner(over, settled-now.Sub(is.last))
		if o.Configured {
			pause = max(pause, min(leastInterval<<min(is.again-patient+1, 10), retryAtMost))
		}
	}
	return pause, over
}
