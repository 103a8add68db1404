// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/rsync/appcontext"
)

const (
	// observeClusters limits the concurrent reads of contexts and clusters by a session.
	observeClusters = 32
	// observePause is the minimum time between two reads of a cluster. After a slow read, the
	// minimum is observeShare times the duration of that read.
	observePause = time.Second
	observeShare = 3
)

// observer follows the Instantiated contexts for which the session is the home. It has a timer for
// each cluster, and goroutines only for current reads: observeClusters at most.
type observer struct {
	session *session

	mu           sync.Mutex
	ended        bool
	instantiated map[string]bool // all contexts of the store that are Instantiated
	contexts     map[string]*observedContext
	clusters     map[appcontext.ClusterID]*observedCluster
	queue        []func() // pending reads of contexts and clusters
	running      int
}

// observedCluster is a cluster with observed contexts.
type observedCluster struct {
	id       appcontext.ClusterID
	contexts map[string]bool
	due      map[string]time.Time // contexts that must be read before the next full read
	full     time.Time            // when all are read
	earliest time.Time            // when the next read may begin
	busy     bool                 // it is being read, or queued
	timer    clock.Timer
}

func newObserver(s *session) *observer {
	return &observer{
		session: s, instantiated: map[string]bool{}, contexts: map[string]*observedContext{},
		clusters: map[appcontext.ClusterID]*observedCluster{},
	}
}

func (o *observer) now() time.Time { return o.session.engine.options.Clock.Now() }

func (o *observer) sawIndex(changes []change) {
	for _, c := range changes {
		var summary Summary
		is := c.there && json.Unmarshal(c.value, &summary) == nil && summary.State == Instantiated
		o.mu.Lock()
		if is {
			o.instantiated[c.name] = true
		} else {
			delete(o.instantiated, c.name)
		}
		o.mu.Unlock()
		if is && o.session.isHome(c.name) {
			o.follow(c.name)
		} else {
			o.leave(c.name)
		}
	}
}

// rehome follows the contexts for which this session is now the home, and leaves the others.
func (o *observer) rehome() {
	o.mu.Lock()
	follows := map[string]bool{}
	for id := range o.instantiated {
		follows[id] = o.contexts[id] != nil
	}
	o.mu.Unlock()
	for id, already := range follows {
		if !o.session.isHome(id) {
			o.leave(id)
		} else if !already {
			o.follow(id)
		}
	}
}

func (o *observer) has(cluster appcontext.ClusterID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.clusters[cluster] != nil
}

// follow reads the record of a context that is new, or that has changed.
func (o *observer) follow(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.contexts[id]
	if c == nil {
		c = &observedContext{id: id, dirty: map[appcontext.ClusterID]bool{}}
		o.contexts[id] = c
	}
	o.reloadLocked(c)
}

// reloadLocked queues a context to be read again, unless it is queued already.
func (o *observer) reloadLocked(c *observedContext) {
	if c.reload {
		return
	}
	c.reload = true
	o.submitLocked(func() { o.load(c) })
}

func (o *observer) leave(id string) {
	o.mu.Lock()
	c := o.contexts[id]
	if c == nil {
		o.mu.Unlock()
		return
	}
	delete(o.contexts, id)
	var idle []appcontext.ClusterID
	for _, cluster := range c.clusters {
		oc := o.clusters[cluster]
		delete(oc.contexts, id)
		delete(oc.due, id)
		if len(oc.contexts) == 0 {
			oc.stop()
			delete(o.clusters, cluster)
			idle = append(idle, cluster)
		}
	}
	c.clusters = nil
	o.mu.Unlock()
	for _, cluster := range idle {
		o.session.endWatch(cluster)
	}
}

func (s *session) endWatch(id appcontext.ClusterID) {
	s.mu.Lock()
	c := s.clusters[id]
	s.mu.Unlock()
	if c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.unwatchIdleLocked()
	}
}

// place adds a context to its clusters. which reports whether a cluster is read soon.
func (o *observer) place(c *observedContext, clusters []appcontext.ClusterID, which func(appcontext.ClusterID) bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended || o.contexts[c.id] != c {
		return
	}
	c.clusters = clusters
	now := o.now()
	for _, id := range clusters {
		oc := o.clusters[id]
		if oc == nil {
			oc = &observedCluster{id: id, contexts: map[string]bool{}, due: map[string]time.Time{},
				full: now.Add(o.interval())}
			o.clusters[id] = oc
		}
		oc.contexts[c.id] = true
		if which(id) {
			oc.due[c.id] = now
		}
		o.scheduleLocked(oc)
	}
}

// interval returns Options.ObserveInterval with 10 % jitter, so clusters are not read at the same
// time.
func (o *observer) interval() time.Duration {
	d := o.session.engine.options.ObserveInterval
	return d - d/10 + rand.N(d/5+1)
}

func (o *observer) changed(cluster appcontext.ClusterID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if c := o.clusters[cluster]; c != nil && c.full.After(o.now()) {
		c.full = o.now()
		o.scheduleLocked(c)
	}
}

func (o *observer) again(id string, cluster appcontext.ClusterID, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.clusters[cluster]
	if c == nil || !c.contexts[id] {
		return
	}
	if before, ok := c.due[id]; !ok || at.Before(before) {
		c.due[id] = at
		o.scheduleLocked(c)
	}
}

func (o *observer) scheduleLocked(c *observedCluster) {
	if c.busy || o.ended {
		return
	}
	c.stop()
	at := c.full
	for _, due := range c.due {
		if due.Before(at) {
			at = due
		}
	}
	if at.Before(c.earliest) {
		at = c.earliest
	}
	c.timer = o.session.engine.options.Clock.AfterFunc(max(at.Sub(o.now()), 0), func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.clusters[c.id] == c && !c.busy {
			c.busy = true
			o.submitLocked(func() { o.readCluster(c) })
		}
	})
}

func (c *observedCluster) stop() {
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
}

// dueLocked returns the contexts to read now, in the order of their IDs, and removes their due
// times.
func (o *observer) dueLocked(c *observedCluster) (ids []string) {
	now := o.now()
	full := !c.full.After(now)
	if full {
		c.full = now.Add(o.interval())
	}
	for id := range c.contexts {
		at, ok := c.due[id]
		due := ok && !at.After(now)
		if due {
			delete(c.due, id)
		}
		if due || full {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// submitLocked queues a function. At most observeClusters goroutines run the queued functions.
func (o *observer) submitLocked(f func()) {
	if o.ended {
		return
	}
	o.queue = append(o.queue, f)
	if o.running < observeClusters && o.session.spawn(o.work) {
		o.running++
	}
}

func (o *observer) work() {
	for {
		o.mu.Lock()
		if len(o.queue) == 0 || o.session.ctx.Err() != nil {
			o.running--
			o.mu.Unlock()
			return
		}
		f := o.queue[0]
		o.queue = o.queue[1:]
		o.mu.Unlock()
		f()
	}
}

// stop stops all timers. The goroutines have ended before.
func (o *observer) stop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	for _, c := range o.clusters {
		c.stop()
	}
	for _, c := range o.contexts {
		if c.retry != nil {
			c.retry.Stop()
		}
	}
}
