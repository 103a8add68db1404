// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"slices"
	"time"

	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
)

// bury removes the object, reports it gone, and creates what waited for that.
func (w *agentWork) bury() { w.buryAs(nil) }

// buryAs is bury with the state that watches see removed, nil for the current one.
func (w *agentWork) buryAs(last *workv1.ManifestWork) {
	a := w.agent
	next := w.next
	if w.state != protocol.Deleting {
		next = nil // a spec that waited for its name is deleted as well
	}
	if w.Object != nil {
		if a.traits.Strict {
			meta := w.Object.ObjectMeta // a pointer to it would keep the spec
			if last != nil {
				meta = last.ObjectMeta
			}
			meta.ManagedFields = nil
			w.lastMeta = &meta
		}
		a.cache.Remove(w, last)
	}
	w.stopWaiting()
	w.setRefused(0)
	w.state, w.next, w.problem, w.shrunk, w.relearned = protocol.Grave, nil, nil, false, false
	w.labels, w.annotations = nil, nil
	w.buried = a.options.Clock.Now()
	a.expire(w.buried)
	a.dig(w)
	w.publish()
	if next != nil {
		w.create(ownSpec(next))
	}
	w.account()
	a.serveWaiting(w.name)
}

// stopWaiting takes the work off the list of those whose name is taken.
func (w *agentWork) stopWaiting() {
	a := w.agent
	rest := slices.DeleteFunc(a.waiting[w.name], func(other *agentWork) bool { return other == w })
	if len(rest) == 0 {
		delete(a.waiting, w.name)
		return
	}
	a.waiting[w.name] = rest
}

// serveWaiting creates the first work that waits for a name, if the name is free now.
func (a *Agent) serveWaiting(name string) {
	for len(a.waiting[name]) > 0 && a.cache.Get(a.options.ClusterName, name) == nil {
		w := a.waiting[name][0]
		spec := ownSpec(w.next)
		w.stopWaiting()
		w.create(spec)
		w.account()
		w.publish()
	}
}

// dig gives a buried work its place in the order of expiry, unless it has one from an earlier
// burial: expire moves it then.
func (a *Agent) dig(w *agentWork) {
	if !w.dug {
		w.dug = true
		a.buried = append(a.buried, grave{w, w.buried})
	}
}

// expire forgets graves older than their TTL. They lie in the order of their age.
func (a *Agent) expire(now time.Time) {
	for len(a.buried) > 0 {
		g := a.buried[0]
		if now.Sub(g.dug) < a.options.TombstoneTTL {
			return
		}
		a.buried[0] = grave{}
		a.buried = a.buried[1:]
		w := g.work
		w.dug = false
		switch {
		case w.state != protocol.Grave || w.source.works[w.id] != w:
		case w.buried.Equal(g.dug):
			delete(w.source.works, w.id)
			w.account()
			a.keep(w)
		default: // it was created and buried again
			a.dig(w)
		}
	}
}

// grave is a place in the order in which graves expire.
type grave struct {
	work *agentWork
	dug  time.Time
}
