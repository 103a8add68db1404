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

// recent is how long an object is of interest after the last call about it. The engine asks again much sooner while it waits.
const recent = 5 * time.Minute

// aim is what somebody waits for.
type aim bool

const (
	present aim = true
	gone    aim = false
)

// interest has the objects that are not yet as they are to be, and those that a caller follows.
// Watches are on those alone.
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

// want notes that an object was applied or deleted.
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

// follow notes that each change of an object is to be reported for some time.
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

// settle notes that an object is as it is to be.
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

// seen notes the state of an object. After a restart nothing is known of what was applied before, so what is on its way is
// taken for what somebody waits for.
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

// watched returns what to watch, at most limit pairs, and a channel that is closed when that may
// have changed. Pairs with objects that somebody waits for are first, then those that are followed,
// the latest first of each.
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

// followedLocked returns the pairs that are followed, and forgets objects that no longer are.
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

// awaitedLocked returns the pairs with objects that somebody waits for, and forgets objects that
// nobody asks for any more.
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
		return cmp.Or(b.at.Compare(a.at), cmp.Compare(a.gvk.String(), b.gvk.String()), cmp.Compare(a.namespace, b.namespace))
	})
}

// has reports whether somebody waits for an object, or follows it.
func (n *interest) has(p pair, name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, waits := n.objects[p][name]
	_, follows := n.followed[p][name]
	return waits || follows
}
