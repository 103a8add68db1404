// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package controller

import "time"

const (
	// quick is what the rules of a work may take without it being noticed.
	quick = 100 * time.Millisecond
	// restsFor is for how many times longer a work rests than its rules have taken: so each has a tenth of a worker at most, and
	// the others have the rest, whatever comes from the hub or from the objects.
	restsFor = 9
)

// rest has a work rest whose rules have taken so long.
func (c *Controller) rest(name string, spent time.Duration, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if spent > quick {
		c.rests[name] = now.Add(restsFor * spent)
	} else {
		delete(c.rests, name)
	}
}

// resting returns for how long a work still rests. Its end does not wait for that.
func (c *Controller) resting(name string, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rests[name].Sub(now)
}
