// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
)

// diffPart is the part of an event for one app on one cluster.
type diffPart struct {
	connector.DiffBatch

	notes     map[appcontext.Object]string // added to the messages of changes
	recreated map[appcontext.Object]bool   // hooks that are deleted before they are created
	deleted   map[appcontext.Object]bool   // hooks that are deleted when they are done
	again     []appcontext.Resource        // objects of Delete, with the manifests of other replaced contexts
	known     []connector.Change           // of objects that are not sent to the cluster

	event    EventType
	target   string   // the context of the event
	replaced []string // the contexts that an update replaces
	detached bool     // the cluster is detached from the context of the event
	records  *others
}

// diffParts plans an event as if it began now.
func (e *Engine) diffParts(ctx context.Context, event EventType, id, from string) ([]*diffPart, error) {
	img, err := e.diffContext(ctx, event, id, event)
	if err != nil {
		return nil, err
	}
	spec, err := e.loadSpec(ctx, &img.head)
	if err != nil {
		return nil, err
	}
	plan := &diffPlan{engine: e, target: id, detached: img.detached, gone: map[appcontext.Identity]*diffPart{}}
	p := planner{
		event: event, context: spec, order: e.options.DeleteOrder, changed: e.options.Comparer, absent: img.absences(),
	}
	if event != Update {
		if from != "" {
			return nil, invalid("from: %q: must be empty for this event", from)
		}
		err := plan.add(&p, id, img.detached)
		return plan.parts, err
	}
	if id == from {
		return nil, invalid("the update of app context %q must be from another one", id)
	}
	initial, err := e.diffContext(ctx, event, from, UpdateDelete)
	if err != nil {
		return nil, err
	}
	next := img.record
	if _, err := (&run{engine: e, id: id}).replaces(ctx, from, &initial.record, &next); err != nil {
		return nil, err
	}
	plan.replaced, p.whole = next.Previous, next.Whole
	var removes []planner
	var detached []detachedClusters
	for _, old := range next.Previous {
		before, err := e.stored(ctx, old)
		if err != nil {
			return nil, err
		}
		other, err := e.loadSpec(ctx, &before.head)
		if err != nil {
			return nil, err
		}
		if old == from {
			p.other = before.detached.without(other, Update)
		}
		detached = append(detached, before.detached)
		removes = append(removes, planner{
			event: UpdateDelete, context: other, other: img.detached.without(spec, UpdateDelete),
			order: p.order, changed: p.changed, absent: before.absences(),
		})
	}
	if err := plan.add(&p, id, img.detached); err != nil {
		return nil, err
	}
	for i := range removes {
		if err := plan.add(&removes[i], removes[i].context.ID, detached[i]); err != nil {
			return nil, err
		}
	}
	return plan.parts, nil
}

// diffContext reads a context. It returns ErrInvalidState if an event of the type begins is not
// valid in the state of the context.
func (e *Engine) diffContext(ctx context.Context, event EventType, id string, begins EventType) (*image, error) {
	if event != Instantiate && event != Terminate && event != Update {
		return nil, invalid("event %q: must be Instantiate, Terminate or Update", event)
	}
	img, err := e.image(ctx, id)
	if err != nil {
		return nil, err
	}
	row, valid := e.options.Transitions.Of(begins, img.record.State)
	switch {
	case !valid && begins == UpdateDelete:
		return nil, fmt.Errorf(notReplaceable+": %w", id, img.record.State, row.From, ErrInvalidState)
	case !valid:
		return nil, fmt.Errorf("app context %q is %s and cannot begin %s: %w", id, img.record.State, begins,
			ErrInvalidState)
	}
	return img, nil
}

// diffPlan collects the parts of an event.
type diffPlan struct {
	engine   *Engine
	target   string
	replaced []string
	detached detachedClusters // from the target
	parts    []*diffPart
	gone     map[appcontext.Identity]*diffPart // the parts that delete objects
}

// add plans the changes of one context's apps, on clusters that are not detached from the context.
func (d *diffPlan) add(p *planner, id string, detached detachedClusters) error {
	tasks := p.plan()
	if p.broken != "" {
		return fmt.Errorf("app context %q: %s: %w", id, p.broken, ErrBroken)
	}
	records := &others{}
	for _, t := range tasks {
		if detached.has(t.cluster) {
			continue
		}
		part := &diffPart{
			DiffBatch: connector.DiffBatch{AppContextID: id, App: t.app, Cluster: t.cluster},
			notes:     map[appcontext.Object]string{},
			recreated: map[appcontext.Object]bool{}, deleted: map[appcontext.Object]bool{},
			event: p.event, target: d.target, replaced: d.replaced, records: records,
			detached: d.detached.has(t.cluster),
		}
		part.Holder = func(ctx context.Context, o appcontext.Object) (string, error) {
			return d.engine.otherHolder(ctx, d.target, d.replaced, t.cluster, o)
		}
		d.collect(part, t)
		if len(part.Apply)+len(part.Delete) > 0 {
			d.parts = append(d.parts, part)
		}
	}
	return nil
}

// collect merges the phases of a task. An object that the task both applies and deletes is a hook.
func (d *diffPlan) collect(part *diffPart, t *task) {
	applies := map[appcontext.Object]bool{}
	for _, phase := range t.phases {
		if phase.verb == applyVerb {
			maps.Copy(applies, objectsOf(phase.resources))
		}
	}
	applied := map[appcontext.Object]bool{}
	for _, phase := range t.phases {
		for _, r := range phase.resources {
			at := appcontext.Identity{Cluster: t.cluster, Object: r.Object}
			switch {
			case phase.verb == applyVerb && !applied[r.Object]:
				applied[r.Object] = true
				part.Apply = append(part.Apply, r)
			case phase.verb == deleteVerb && applied[r.Object]:
				part.deleted[r.Object] = true
			case phase.verb == deleteVerb && applies[r.Object]:
				part.recreated[r.Object] = true
			case phase.verb == deleteVerb && d.gone[at] != nil:
				d.gone[at].again = append(d.gone[at].again, r)
			case phase.verb == deleteVerb:
				d.gone[at] = part
				part.Delete = append(part.Delete, r)
			}
		}
	}
}

// complete adds facts to a change that the connector cannot report. It compares a hook that is
// deleted before it is created with the object of the earlier run.
func (p *diffPart) complete(c *connector.Change) {
	note := p.notes[c.Object]
	if p.recreated[c.Object] {
		note = joined(note, "the hook is created again: an object of an earlier run is deleted first")
		switch c.Kind {
		case connector.ChangeKindNone, connector.ChangeKindUpdate:
			c.Kind = connector.ChangeKindReplace
		case connector.ChangeKindRefused:
			c.Kind = connector.ChangeKindUnknown
		}
	}
	if p.deleted[c.Object] {
		note = joined(note, "the hook is deleted when it is done")
	}
	c.Message = shortenTo(joined(c.Message, note), maxMessage)
}

// counts reports whether a neighbor holds its objects for the event. Contexts that the event
// replaces do not count.
func (p *diffPart) counts(n *neighbor, r *record) bool {
	return r.Holds && !slices.Contains(p.replaced, n.id)
}

// shareHooks keeps hooks that other contexts hold, as the event does. It deletes them neither
// before they are created nor when they are done. At the end they have the manifests of these
// contexts.
func (e *Engine) shareHooks(ctx context.Context, p *diffPart) error {
	objects := maps.Clone(p.recreated)
	maps.Copy(objects, p.deleted)
	if len(objects) == 0 {
		return nil
	}
	left, err := e.holders(ctx, p.AppContextID, p.Cluster, objects, p.records, p.counts)
	if err != nil {
		return err
	}
	p.Apply = slices.Clone(p.Apply)
	for i, r := range p.Apply {
		h, held := left[r.Object]
		if !held {
			continue
		}
		delete(p.recreated, r.Object)
		if !p.deleted[r.Object] {
			continue
		}
		delete(p.deleted, r.Object)
		p.notes[r.Object] = "left for " + h.String()
		theirs, err := e.handedOver(ctx, &h, []appcontext.Resource{r}, false)
		if err != nil {
			return err
		}
		if len(theirs) > 0 {
			p.Apply[i] = theirs[0]
		}
	}
	return nil
}

// share keeps objects that other contexts hold, as the event does. Such an object is not deleted,
// and gets the manifest of the context that holds it.
func (e *Engine) share(ctx context.Context, p *diffPart) error {
	if !p.event.removes() {
		return e.shareHooks(ctx, p)
	}
	objects := objectsOf(slices.Concat(p.Apply, p.Delete)) // Apply has the hooks
	left, err := e.holders(ctx, p.AppContextID, p.Cluster, objects, p.records, func(n *neighbor, r *record) bool {
		if n.id == p.target { // the target holds its objects from the begin of the event
			return r.Generation == n.generation && !p.detached
		}
		return p.counts(n, r)
	})
	if err != nil || len(left) == 0 {
		return err
	}
	var held []appcontext.Resource
	leave := func(r appcontext.Resource) bool {
		h, ok := left[r.Object]
		if ok && (h.id != p.target || !h.common[objectToken(r.Object)]) { // otherwise the target's part has it
			held = append(held, r)
		}
		if ok {
			delete(p.recreated, r.Object)
			delete(p.deleted, r.Object)
		}
		return ok
	}
	p.Apply = slices.DeleteFunc(slices.Clone(p.Apply), leave)
	p.Delete = slices.DeleteFunc(slices.Clone(p.Delete), leave)
	for _, part := range byHolder(held, left) {
		again := filter(p.again, func(r appcontext.Resource) bool {
			of, ok := left[r.Object]
			return ok && of.String() == part.String()
		})
		theirs, err := e.handedOver(ctx, &part.holder, append(again, part.resources...), false)
		if err != nil {
			return err
		}
		p.Apply = append(p.Apply, theirs...)
		for _, r := range part.resources {
			note := "left for " + part.String()
			if slices.ContainsFunc(theirs, func(t appcontext.Resource) bool { return t.Object == r.Object }) {
				p.notes[r.Object] = note
			} else {
				p.known = append(p.known, connector.Change{
					Object: r.Object, Kind: connector.ChangeKindNone, Message: note,
				})
			}
		}
	}
	return nil
}
