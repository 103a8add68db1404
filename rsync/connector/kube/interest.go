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

// interest has the objects that are not yet as they are to be. Watches are on those alone.
type interest struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	objects map[pair]map[string]wanted
	changed chan struct{} // closed when the pairs change
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
		n.wake()
	}
	n.objects[p][o.Name] = wanted{a, n.clock.Now()}
}

func (n *interest) wake() {
	close(n.changed)
	n.changed = make(chan struct{})
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
		n.wake()
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

// watched returns what to watch, at most limit pairs, the latest first, and a channel that is closed when that may have changed.
func (n *interest) watched(limit int) (map[pair]struct{}, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.clock.Now()
	type dated struct {
		pair
		at time.Time
	}
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
	slices.SortFunc(all, func(a, b dated) int {
		return cmp.Or(b.at.Compare(a.at), cmp.Compare(a.gvk.String(), b.gvk.String()), cmp.Compare(a.namespace, b.namespace))
	})
	out := map[pair]struct{}{}
	for _, d := range all[:min(limit, len(all))] {
		out[d.pair] = struct{}{}
	}
	return out, n.changed
}

// has reports whether somebody waits for an object.
func (n *interest) has(p pair, name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, ok := n.objects[p][name]
	return ok
}
