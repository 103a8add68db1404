// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package spoke

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

const (
	// postponed is the pause of a work after a process ended while it served the work. It doubles
	// with each such end.
	postponed       = 2 * time.Second
	postponedAtMost = 10 * time.Minute
	// suspectAgain is the pause of a postponed work that waits for another one.
	suspectAgain = time.Second
	// clearTimeout bounds the write that clears an attempt while the agent stops.
	clearTimeout = 5 * time.Second
)

// attempt is the first time that a process serves a generation of a work. It is recorded in the
// annotation of the AppliedWork until the work was served. If this process ends before that, the
// next process finds it.
type attempt struct {
	recordedAttempt
	uid       types.UID
	notBefore time.Time             // of a postponed work
	served    bool                  // by this process
	record    *v1alpha1.AppliedWork // with the attempt in its annotation; nil before the write
}

// recordedAttempt is an attempt in the annotation.
type recordedAttempt struct {
	Generation int64 `json:"generation"`
	Number     int   `json:"number"` // 1 after a clean start
}

// attemptOf returns the attempt for an AppliedWork; nil before [Cluster.Begin].
func (c *Cluster) attemptOf(record string) *attempt {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.attempts[record]
}

// Begin must be called before each [Cluster.Apply], and served after it. wait is more than 0 when
// earlier processes ended while they served this generation of the work; ends is their number. The
// caller must then not apply the work, and call Begin again after that time. Such works are served
// one at a time, which identifies the work that ends the process.
func (c *Cluster) Begin(ctx context.Context, w *workv1.ManifestWork) (served func(), wait time.Duration, ends int) {
	name := c.recordName(w.Namespace, w.Name)
	a := c.attemptOf(name)
	known := a != nil
	if !known || a.uid != w.UID || a.Generation != w.Generation {
		a = &attempt{recordedAttempt: recordedAttempt{w.Generation, 1}, uid: w.UID}
	}
	if !known {
		record, err := c.get(ctx, name)
		if err != nil {
			return func() {}, 0, 0 // Apply returns it
		}
		if record != nil && c.mine(record) == nil {
			if last := settingsIn(record).Attempt; last != nil && last.Generation == w.Generation {
				a.Number = 1 + last.Number
				a.notBefore = time.Now().Add(min(postponed<<min(max(last.Number-1, 0), 16), postponedAtMost))
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attempts[name] = a
	if !a.served && a.Number > 1 {
		if left := time.Until(a.notBefore); left > 0 {
			return nil, left, a.Number - 1
		}
		if c.suspect != nil && c.suspect != a {
			return nil, suspectAgain, a.Number - 1
		}
		c.suspect = a
	}
	return func() { c.served(ctx, a) }, 0, 0
}

// served clears an attempt, also when ctx has ended.
func (c *Cluster) served(ctx context.Context, a *attempt) {
	c.mu.Lock()
	if c.suspect == a {
		c.suspect = nil
	}
	c.mu.Unlock()
	record := a.record
	a.served, a.record = true, nil
	if record == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), clearTimeout)
	defer cancel()
	s := settingsIn(record)
	s.Attempt = nil
	if err := c.remember(ctx, record, s); err != nil { // the next Apply clears it too
		klog.FromContext(ctx).Error(err, "Failed to clear the attempt of a work", "work", record.Spec.WorkName)
	}
}

// forgetAttempt removes the attempt for an AppliedWork that does not exist any more.
func (c *Cluster) forgetAttempt(record string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.attempts, record)
}
