// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/internal/wait"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
)

// recent is the time for which an object is of interest after the last call for it. While the
// engine waits, it makes calls much more often.
const recent = 5 * time.Minute

// aim is the awaited state of an object.
type aim bool

const (
	present aim = true
	gone    aim = false
)

// interest has the objects that have not reached their aim, and the objects that a caller follows.
// Only these objects are watched.
type interest struct {
	clock clock.PassiveClock

	mu       sync.Mutex
	objects  map[pair]map[string]wanted
	followed map[pair]map[string]time.Time // until when
	changed  wait.Broadcast                // the pairs
}

type wanted struct {
	aim     aim
	touched time.Time
}

// want records that an object was applied or deleted.
func (n *interest) want(gvk schema.GroupVersionKind, o appcontext.Object, a aim) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := pair{gvk, o.Namespace}
	if n.objects == nil {
		n.objects = map[pair]map[string]wanted{}
	}
	if n.objects[p] == nil {
		n.objects[p] = map[string]wanted{}
		n.changed.Wake()
	}
	n.objects[p][o.Name] = wanted{a, n.clock.Now()}
}

// follow records that each change of an object must be reported for some time.
func (n *interest) follow(gvk schema.GroupVersionKind, o appcontext.Object, d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := pair{gvk, o.Namespace}
	if n.followed == nil {
		n.followed = map[pair]map[string]time.Time{}
	}
	if n.followed[p] == nil {
		n.followed[p] = map[string]time.Time{}
		n.changed.Wake()
	}
	n.followed[p][o.Name] = n.clock.Now().Add(d)
}

// settle records that an object has reached its aim.
func (n *interest) settle(gvk schema.GroupVersionKind, o appcontext.Object) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.drop(pair{gvk, o.Namespace}, o.Name)
}

func (n *interest) drop(p pair, name string) {
	if _, ok := n.objects[p][name]; !ok {
		return
	}
	delete(n.objects[p], name)
	if len(n.objects[p]) == 0 {
		delete(n.objects, p)
		n.changed.Wake()
	}
}

// seen records the state of an object. After a restart the earlier calls are unknown, so an object
// that is not ready or not gone counts as awaited.
func (n *interest) seen(gvk schema.GroupVersionKind, s *connector.State, leaving bool) {
	p := pair{gvk, s.Namespace}
	n.mu.Lock()
	w, known := n.objects[p][s.Name]
	n.mu.Unlock()
	settled := s.Exists && (s.Ready || s.Failed) && !leaving
	switch {
	case known && w.aim == gone, leaving:
		settled = !s.Exists
		w.aim = gone
	case !known && !s.Exists:
		settled = true
	case !known:
		w.aim = present
	}
	if settled {
		n.settle(gvk, s.Object)
		return
	}
	n.want(gvk, s.Object, w.aim)
}

// dated is a pair with the time of the last call about one of its objects.
type dated struct {
	pair
	at time.Time
}

// watched returns the pairs to watch, at most limit, and a channel that is closed when they may
// have changed. Pairs with awaited objects are first, followed pairs are next, each with the latest
// first.
func (n *interest) watched(limit int) (map[pair]struct{}, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := map[pair]struct{}{}
	for _, d := range append(n.awaitedLocked(), n.followedLocked()...) {
		if len(out) == limit {
			break
		}
		out[d.pair] = struct{}{}
	}
	return out, n.changed.Next()
}

// followedLocked returns the followed pairs, and removes objects that are no longer followed.
func (n *interest) followedLocked() []dated {
	now := n.clock.Now()
	var all []dated
	for p, objects := range n.followed {
		var last time.Time
		for name, until := range objects {
			switch {
			case !until.After(now):
				delete(objects, name)
			case until.After(last):
				last = until
			}
		}
		if len(objects) == 0 {
			delete(n.followed, p)
			continue
		}
		all = append(all, dated{p, last})
	}
	latestFirst(all)
	return all
}

// awaitedLocked returns the pairs with awaited objects, and removes objects without a recent call.
func (n *interest) awaitedLocked() []dated {
	now := n.clock.Now()
	var all []dated
	for p, objects := range n.objects {
		var last time.Time
		for name, w := range objects {
			if now.Sub(w.touched) > recent {
				delete(objects, name)
			} else if w.touched.After(last) {
				last = w.touched
			}
		}
		if len(objects) == 0 {
			delete(n.objects, p)
			continue
		}
		all = append(all, dated{p, last})
	}
	latestFirst(all)
	return all
}

func latestFirst(all []dated) {
	slices.SortFunc(all, func(a, b dated) int {
		return cmp.Or(b.at.Compare(a.at), cmp.Compare(a.gvk.String(), b.gvk.String()),
			cmp.Compare(a.namespace, b.namespace))
	})
}

// has reports whether an object is awaited or followed.
func (n *interest) has(p pair, name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, waits := n.objects[p][name]
	_, follows := n.followed[p][name]
	return waits || follows
}
