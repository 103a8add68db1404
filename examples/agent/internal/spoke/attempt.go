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

// Begin must be called before each [Cluster.Apply], and [Cluster.Served] after it. wait is more
// than 0 when earlier processes ended while they served this generation of the work; ends is their
// number. The caller must then not apply the work, and call Begin again after that time. Such works
// are served one at a time, which identifies the work that ends the process.
func (c *Cluster) Begin(ctx context.Context, w *workv1.ManifestWork) (wait time.Duration, ends int) {
	key := types.NamespacedName{Namespace: w.Namespace, Name: w.Name}
	c.mu.Lock()
	a, known := c.attempts[key]
	c.mu.Unlock()
	if !known || a.uid != w.UID || a.Generation != w.Generation {
		a = &attempt{recordedAttempt: recordedAttempt{w.Generation, 1}, uid: w.UID}
	}
	if !known {
		record, err := c.get(ctx, w.Namespace, w.Name)
		if err != nil {
			return 0, 0 // Apply returns it
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
	c.attempts[key] = a
	if a.served || a.Number == 1 {
		return 0, 0
	}
	if left := time.Until(a.notBefore); left > 0 {
		return left, a.Number - 1
	}
	if c.suspect != nil && c.suspect != a {
		return suspectAgain, a.Number - 1
	}
	c.suspect = a
	return 0, 0
}

// Served clears the attempt that [Cluster.Begin] started, also when ctx has ended.
func (c *Cluster) Served(ctx context.Context, w *workv1.ManifestWork) {
	c.mu.Lock()
	a, ok := c.attempts[types.NamespacedName{Namespace: w.Namespace, Name: w.Name}]
	if !ok || a.served {
		c.mu.Unlock()
		return
	}
	a.served = true
	record := a.record
	a.record = nil
	if c.suspect == a {
		c.suspect = nil
	}
	c.mu.Unlock()
	if record == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), clearTimeout)
	defer cancel()
	s := settingsIn(record)
	s.Attempt = nil
	if err := c.remember(ctx, record, s); err != nil { // the next Apply clears it too
		klog.FromContext(ctx).Error(err, "Failed to clear the attempt of a work", "work", klog.KObj(w))
	}
}

// attemptOf returns the attempt to record for a work; nil when this process has served the work.
func (c *Cluster) attemptOf(w *workv1.ManifestWork) *recordedAttempt {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, ok := c.attempts[types.NamespacedName{Namespace: w.Namespace, Name: w.Name}]
	if !ok || a.served {
		return nil
	}
	return &a.recordedAttempt
}

// attempted stores the AppliedWork that has the attempt.
func (c *Cluster) attempted(w *workv1.ManifestWork, record *v1alpha1.AppliedWork) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a, ok := c.attempts[types.NamespacedName{Namespace: w.Namespace, Name: w.Name}]; ok && !a.served {
		a.record = record
	}
}

// forgetAttempt removes the attempt of a work that has no AppliedWork any more.
func (c *Cluster) forgetAttempt(namespace, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.attempts, types.NamespacedName{Namespace: namespace, Name: name})
}
