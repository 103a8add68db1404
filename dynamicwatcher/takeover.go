// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher

import (
	"time"

	"github.com/spokewire/sdk-go/dynamicwatcher/internal/stream"
)

// took takes an event. Its error ends the stream.
func (k *keeper) took(e stream.Event) error {
	k.watcher.mu.Lock()
	defer k.watcher.mu.Unlock()
	g := k.group
	switch {
	case g.keeper != k:
		return errLeft
	case misplaced(e, g.namespace):
		return errScope
	}
	switch e.Type {
	case stream.Added:
		g.size++
	case stream.Deleted:
		g.size--
	}
	if k.pending != nil {
		return k.tookFirst(e)
	}
	g.heard = k.watcher.options.Clock.Now().Add(-lag)
	g.version = later(g.version, e.ResourceVersion)
	if o := g.objects[e.Name]; o != nil && o.state != PendingKind { // which begins its own when its kind comes
		o.take(e, ofGroup, false)
	}
	g.consider()
	return nil
}

// tookFirst takes an event of the stream's beginning. Objects that have come since it was begun are not told of: what there
// is of them may have been sent before. The lock is held.
func (k *keeper) tookFirst(e stream.Event) error {
	g := k.group
	if !k.began {
		k.began, g.opened = true, k.watcher.ticks
	}
	if e.Type == stream.Synced {
		return k.sync(e)
	}
	if !g.serving && !k.watcher.options.Consolidate.fits(len(g.objects), g.size) {
		return errTooLarge
	}
	o := g.objects[e.Name]
	if _, ok := k.pending[o]; !ok {
		return nil
	}
	k.pending[o] = sighting{there: e.Type != stream.Deleted, uid: e.UID}
	o.take(e, ofGroup, true)
	return nil
}

// sync ends the beginning of the stream: from now on objects can do without their own. The lock is held.
func (k *keeper) sync(e stream.Event) error {
	if !covered(e.ResourceVersion, e.ResourceVersion) {
		return errUnordered
	}
	g, now := k.group, k.watcher.options.Clock.Now()
	g.version, g.at, g.heard = e.ResourceVersion, e.ResourceVersion, now.Add(-lag)
	g.telling, g.serving, g.began = true, true, now
	for o, seen := range k.pending {
		if g.objects[o.id.Name] == o {
			g.adopt(o, seen, e)
		}
	}
	k.pending, k.anew, k.failing, k.again = nil, false, time.Time{}, nil
	close(k.synced)
	k.decided()
	k.watcher.metrics.established(now.Sub(k.asked))
	k.after(k.tidy)
	g.consider()
	return nil
}

// after calls f, with the lock held, when events that are under way have come, unless the stream has ended by then. The lock
// is held.
func (k *keeper) after(f func()) {
	ctx, w := k.stream, k.watcher
	w.group.Go(func() {
		if !w.sleep(ctx, lag) {
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if k.group.keeper == k && ctx.Err() == nil {
			f()
		}
	})
}

// tidy ends the streams that objects do not need any more. One that has come while the group's stream told what exists
// begins its own anew, and gives that up when it knows what exists. The lock is held.
func (k *keeper) tidy() {
	if k.group.leaving {
		return
	}
	for _, o := range k.group.objects {
		switch {
		case o.own == nil:
		case o.shared:
			o.quit()
		case o.live:
			o.quit()
			k.watcher.launch(o)
		}
	}
	ctx, w := k.stream, k.watcher
	w.group.Go(func() {
		if w.sleep(ctx, lag) {
			w.wide.CloseIdle()
		}
	})
}

// leave ends the stream when the objects' own streams have told all that this one has, or have had their time. The lock is
// held.
func (k *keeper) leave() {
	now := k.watcher.options.Clock.Now()
	if now.Before(k.leavesBy) {
		for _, o := range k.group.objects {
			if !o.live || now.Sub(o.own.synced) < lag {
				k.after(k.leave)
				return
			}
		}
	}
	k.cut(errLeft)
}
