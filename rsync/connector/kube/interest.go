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

// recent is the time for which an object is of interest after the last call for it.
const recent = 5 * time.Minute

// aim is the awaited state of an object.
type aim bool

const (
	present aim = true
	gone    aim = false
)

// interest has the objects to watch: before their aim, or followed by a caller.
type interest struct {
	clock clock.PassiveClock

	mu       sync.Mutex
	objects  map[pair]map[string]wanted
	followed map[pair]map[string]wanted // without an aim
	changed  wait.Broadcast             // the pairs
}

type wanted struct {
	aim   aim
	until time.Time
}

// want records that an object was applied or deleted.
func (n *interest) want(gvk schema.GroupVersionKind, o appcontext.Object, a aim) {
	n.put(n.objects, gvk, o, wanted{a, n.clock.Now().Add(recent)})
}

// follow records that each change of an object must be reported for some time.
func (n *interest) follow(gvk schema.GroupVersionKind, o appcontext.Object, d time.Duration) {
	n.put(n.followed, gvk, o, wanted{until: n.clock.Now().Add(d)})
}

func (n *interest) put(in map[pair]map[string]wanted, gvk schema.GroupVersionKind, o appcontext.Object, w wanted) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := pair{gvk, o.Namespace}
	if in[p] == nil {
		in[p] = map[string]wanted{}
		n.changed.Wake()
	}
	in[p][o.Name] = w
}

// settle records that an object has reached its aim.
func (n *interest) settle(gvk schema.GroupVersionKind, o appcontext.Object) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := pair{gvk, o.Namespace}
	if _, ok := n.objects[p][o.Name]; !ok {
		return
	}
	delete(n.objects[p], o.Name)
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

type dated struct {
	pair
	at time.Time
}

// watched returns up to limit pairs to watch, and a channel that is closed when they may have
// changed. Pairs with awaited objects are first, then followed pairs, the latest first.
func (n *interest) watched(limit int) (map[pair]struct{}, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := map[pair]struct{}{}
	now := n.clock.Now()
	for _, d := range append(latest(n.objects, now), latest(n.followed, now)...) {
		if len(out) == limit {
			break
		}
		out[d.pair] = struct{}{}
	}
	return out, n.changed.Next()
}

// latest returns the pairs, the latest first, and removes objects after their time.
func latest(pairs map[pair]map[string]wanted, now time.Time) []dated {
	var all []dated
	for p, objects := range pairs {
		var last time.Time
		for name, w := range objects {
			if !w.until.After(now) {
				delete(objects, name)
			} else if w.until.After(last) {
				last = w.until
			}
		}
		if len(objects) == 0 {
			delete(pairs, p)
			continue
		}
		all = append(all, dated{p, last})
	}
	slices.SortFunc(all, func(a, b dated) int {
		return cmp.Or(b.at.Compare(a.at), cmp.Compare(a.gvk.String(), b.gvk.String()), cmp.Compare(a.namespace, b.namespace))
	})
	return all
}

// has reports whether an object is awaited or followed.
func (n *interest) has(p pair, name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, waits := n.objects[p][name]
	_, follows := n.followed[p][name]
	return waits || follows
}
