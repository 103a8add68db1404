// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/dynamicwatcher/internal/stream"
)

// groupKey says which objects may share a watch.
type groupKey struct {
	kind      schema.GroupVersionKind
	namespace string
}

// group is the watched objects of one kind in one namespace. When there are many, a keeper watches all of the namespace and
// tells them what happens.
//
// While the keeper takes over and while it gives back, an object is told of by two streams, its own and the group's, of which
// either may lag behind. Resource versions say which events are old news: see object.stale. So nothing is lost or told
// twice between the two.
type group struct {
	watcher *Watcher
	groupKey

	// The watcher's lock guards what follows.
	objects map[string]*object // by name
	keeper  *keeper            // nil while there are few objects
	open    bool               // a stream is being read
	telling bool               // and has told what exists
	serving bool               // objects depend on the keeper; from the first time that it has told what exists
	leaving bool               // they are being given back
	size    int64              // how many objects the namespace has, as far as was told
	version string             // the last resource version that was told
	at      string             // the version at which the stream has told what exists
	began   time.Time          // when it had
	heard   time.Time          // changes from then on may have been missed
	opened  int64              // when the stream's first event came
}

// groupOf returns the group that an object belongs to, if it is of any. The lock is held.
func (w *Watcher) groupOf(id ObjectIdentifier) *group {
	if w.options.Consolidate == nil || w.wide == nil || id.Name == "" {
		return nil
	}
	key := groupKey{id.GroupVersionKind(), id.Namespace}
	g := w.groups[key]
	if g == nil {
		g = &group{watcher: w, groupKey: key, objects: map[string]*object{}}
		w.groups[key] = g
	}
	return g
}

// join adds an object. The lock is held.
func (g *group) join(o *object) {
	o.group = g
	g.objects[o.id.Name] = o
	g.consider()
}

// leave takes an object out. The lock is held.
func (g *group) leave(o *object) {
	if g.objects[o.id.Name] == o {
		delete(g.objects, o.id.Name)
		g.consider()
	}
}

// consider begins or ends the keeper's work, as the number of objects and the size of the namespace call for. The lock is
// held.
func (g *group) consider() {
	w, limits, n := g.watcher, g.watcher.options.Consolidate, len(g.objects)
	switch {
	case n == 0:
		g.dismiss()
		if w.groups[g.groupKey] == g {
			delete(w.groups, g.groupKey)
		}
	case g.keeper == nil && limits.enough(n):
		w.employ(g)
	case g.keeper != nil && !g.serving && !limits.keeps(n, 0):
		g.dismiss()
	case g.telling && !g.leaving && !limits.keeps(n, g.size):
		g.giveBack()
	}
}

// dismiss ends the keeper, on whom no object depends. It does not wait. The lock is held.
func (g *group) dismiss() {
	g.open, g.telling, g.serving, g.leaving = false, false, false, false
	if k := g.keeper; k != nil {
		k.cancel()
		g.keeper = nil
		k.decided()
	}
}

// giveBack begins a stream for each object; the keeper goes on until these tell what happens. The lock is held.
func (g *group) giveBack() {
	g.leaving = true
	g.launchAll()
	g.keeper.leavesBy = g.watcher.options.Clock.Now().Add(patience)
	g.keeper.after(g.keeper.leave)
}

// launchAll begins a stream for each object that has none and needs one. The lock is held.
func (g *group) launchAll() {
	for _, o := range g.objects {
		if !o.shared || g.leaving {
			g.watcher.launch(o)
		}
	}
}

// holds reports whether objects do without streams of their own for now. The lock is held.
func (g *group) holds() bool { return g.keeper != nil && g.keeper.holds }

// adopt ends the beginning of the stream for one object. The lock is held.
func (g *group) adopt(o *object, seen sighting, e stream.Event) {
	var beginning few[types.UID, struct{}]
	if seen.there {
		beginning.set(seen.uid, struct{}{})
	}
	o.opened = g.opened
	o.sync(e, ofGroup, &beginning)
	o.shared = true
	if !o.live { // else it is to tell what is under way
		o.quit()
	}
}

// handOver ends the stream of an object, which was asked for at a time and has told what exists at a version, where the
// group's has told all before and tells what comes. The lock is held.
func (g *group) handOver(o *object, asked time.Time, version string) {
	switch {
	case !g.telling || g.leaving:
	case covered(g.at, version):
		o.quit()
		o.shared = true
	case asked.Before(g.began): // too early
		o.quit()
		g.watcher.launch(o)
	}
}

// interrupted books that the stream has ended. The lock is held.
func (g *group) interrupted(v verdict, err error) {
	told := g.telling
	g.open, g.telling = false, false
	for _, o := range g.objects {
		switch {
		case !o.shared:
		case o.live: // its own stream tells on
			if o.shared = false; g.leaving && !errors.Is(err, errLeft) {
				o.bridge() // it was begun late, and the group's may have lagged behind
			}
		default:
			if told {
				g.miss(o, v)
			}
			g.pass(o, v, err)
		}
	}
	if v == restart {
		g.version = ""
	}
}

// miss notes from when on an object may miss changes. The lock is held.
func (g *group) miss(o *object, v verdict) {
	o.heard, o.version = g.heard, later(o.version, g.version)
	if v == reopen {
		o.ended = g.watcher.options.Clock.Now()
	}
}

// pass gives an object the state of the group. The lock is held.
func (g *group) pass(o *object, v verdict, err error) {
	switch {
	case o.own != nil: // which has a state of its own from now on
		if o.state == Active {
			o.enter(Establishing, nil)
		}
		return
	case v == restart:
		o.version = ""
		fallthrough
	case v != reopen:
		o.enter(Backoff, err)
	}
	o.restarts++
}

// release leaves all objects to their own streams. The lock is held.
func (g *group) release() {
	g.serving, g.leaving = false, false
	for _, o := range g.objects {
		o.shared = false
	}
	g.launchAll()
}
