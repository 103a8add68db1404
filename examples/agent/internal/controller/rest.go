// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"time"

	workv1 "open-cluster-management.io/api/work/v1"
)

const (
	// quick is what the rules of a work may take without it being noticed.
	quick = 100 * time.Millisecond
	// restsFor is for how many times longer a work rests than its rules have taken: so each has a tenth of a worker at most, and
	// the others have the rest, whatever comes from the hub or from the objects.
	restsFor = 9
)

// recess is when a work is served again at the soonest.
type recess struct {
	always time.Time // also when its spec changes
	same   time.Time // while its spec is of this generation
	of     int64
}

// rest has a work rest whose rules have taken so long, or that is to leave its objects alone for a pause.
func (c *Controller) rest(w *workv1.ManifestWork, pause, spent time.Duration, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := recess{same: now.Add(pause), of: w.Generation}
	if spent > quick {
		r.always = now.Add(restsFor * spent)
	}
	c.rests[w.Name] = r
}

// resting returns for how long a work still rests. Its end does not wait for that.
func (c *Controller) resting(w *workv1.ManifestWork, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.rests[w.Name]
	left := r.always.Sub(now)
	if r.of == w.Generation {
		left = max(left, r.same.Sub(now))
	}
	return left
}

// forget forgets a work that is not there any more.
func (c *Controller) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.rests, name)
	delete(c.contests, name)
}
