// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
)

// Contexts can have objects in common. An event that deletes keeps objects that another context
// holds, and applies the manifest of that context to them. An event that applies waits until no
// other context deletes any of its objects.
// doc_durable.go describes why this is safe.

// others are the records of other contexts, as one event has read them after its begin.
type others struct {
	mu      sync.Mutex
	records map[string]record
}

// record returns the record of a neighbor on its cluster, which is read once in an event.
func (o *others) record(ctx context.Context, e *Engine, n *neighbor) (record, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, key := range n.keys() {
		if r, ok := o.records[key]; ok {
			return r, nil
		}
	}
	r, err := e.recordOf(ctx, n)
	if err == nil {
		if o.records == nil {
			o.records = map[string]record{}
		}
		key := n.keys()[0]
		if r.Partial {
			key = n.keys()[1]
		}
		o.records[key] = r
	}
	return r, err
}

func (o *others) forget(n *neighbor) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, key := range n.keys() {
		delete(o.records, key)
	}
}

// holder is a context that holds an object.
type holder struct {
	neighbor
	record
}

func (t EventType) removes() bool { return t == Terminate || t == UpdateDelete }

// releasingError is the reason why an op waits: an event of another context must end first.
type releasingError struct{ err error }

func (e *releasingError) Error() string { return e.err.Error() }

// share prepares the task of an op for objects that other contexts also have.
func (o *op) share(ctx context.Context) error {
	t := o.task
	if t.shared || t.event == Read {
		return nil
	}
	reads := o.run.session.reads
	select {
	case reads <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-reads }()
	var err error
	if t.event.removes() {
		err = o.awaitOrigin(ctx)
	} else {
		err = o.awaitRelease(ctx)
	}
	switch {
	case err != nil:
	case t.event == Heal:
		err = o.findOverriding(ctx)
	case t.event.removes():
		err = o.findHolders(ctx)
	}
	if err != nil && !errors.As(err, new(*releasingError)) {
		return storeTrouble(err)
	}
	t.shared = err == nil
	return err
}

func (t *task) objects() map[appcontext.Object]bool {
	out := map[appcontext.Object]bool{}
	for _, p := range t.phases {
		maps.Copy(out, objectsOf(p.resources))
	}
	return out
}

func objectsOf(resources []appcontext.Resource) map[appcontext.Object]bool {
	out := make(map[appcontext.Object]bool, len(resources))
	for i := range resources {
		out[resources[i].Object] = true
	}
	return out
}

// findHolders finds the objects that the task must not delete.
func (o *op) findHolders(ctx context.Context) (err error) {
	if !o.task.event.removes() {
		return o.findHoldersNow(ctx)
	}
	holds := func(_ *neighbor, r *record) bool { return r.Holds }
	o.task.left, err = o.run.engine.holders(ctx, o.run.id, o.cluster.id, o.task.objects(), o.task.others, holds)
	return err
}

// findOverriding finds the objects that a Heal must not apply, because the manifest of another
// context takes precedence.
func (o *op) findOverriding(ctx context.Context) error {
	_, own, err := o.run.engine.stateOf(ctx, o.run.id)
	if err == nil {
		o.task.left, err = o.run.engine.overriding(ctx, o.run.id, &own, o.cluster.id, o.task.objects())
	}
	return err
}

// overriding returns the objects of a context for which the manifest of another context takes
// precedence, with the holders of these manifests.
func (e *Engine) overriding(
	ctx context.Context, id string, own *record, c appcontext.ClusterID, objects map[appcontext.Object]bool,
) (map[appcontext.Object]holder, error) {
	mine := holder{neighbor{id: id}, *own}
	found, err := e.holders(ctx, id, c, objects, &others{}, func(n *neighbor, r *record) bool {
		return r.Holds && mine.yields(n, r)
	})
	// it only holds objects inside o
	maps.DeleteFunc(found, func(o appcontext.Object, h holder) bool { return !h.common[objectToken(o)] })
	return found, err
}

// holders returns the contexts that hold some objects of a context on a cluster, or objects inside
// them: in a namespace, or of a definition. It ignores neighbors for which holds returns false.
func (e *Engine) holders(
	ctx context.Context, id string, c appcontext.ClusterID, all map[appcontext.Object]bool, records *others,
	holds func(*neighbor, *record) bool,
) (map[appcontext.Object]holder, error) {
	objects := map[token][]appcontext.Object{}
	tokens := map[token]bool{}
	add := func(t token, object appcontext.Object) {
		tokens[t] = true
		objects[t] = append(objects[t], object)
	}
	for object := range all {
		add(objectToken(object), object)
		if t, ok := provides(object); ok {
			add(t.inside(), object)
		}
	}
	neighbors, err := e.neighbors(ctx, id, c, tokens)
	if err != nil {
		return nil, err
	}
	left := map[appcontext.Object]holder{}
	for _, n := range neighbors {
		r, err := records.record(ctx, e, &n)
		if err != nil {
			return nil, err
		}
		if !holds(&n, &r) {
			continue
		}
		for t := range n.common {
			for _, object := range objects[t] {
				if before, ok := left[object]; !ok || before.yields(&n, &r) {
					left[object] = holder{n, r}
				}
			}
		}
	}
	return left, nil
}

// yields reports whether the manifest of another holder takes precedence. The new context of an
// update takes precedence over the contexts that it replaces. Otherwise the ID that sorts first
// decides.
func (h *holder) yields(n *neighbor, r *record) bool {
	return slices.Contains(r.Previous, h.id) || !slices.Contains(h.Previous, n.id) && n.id < h.id
}

// awaitRelease returns a releasingError while an event of another context deletes or heals objects
// that the task applies, or their namespace or definition.
func (o *op) awaitRelease(ctx context.Context) error {
	tokens := map[token]bool{}
	for object := range o.task.objects() {
		tokens[objectToken(object)] = true
		if object.Namespace != "" {
			tokens[namespaceToken(object.Namespace)] = true
		}
		if object.Group != "" {
			tokens[groupToken(object.Group)] = true
		}
	}
	neighbors, err := o.run.engine.neighbors(ctx, o.run.id, o.cluster.id, tokens)
	if err != nil {
		return err
	}
	for _, n := range neighbors {
		r, err := o.task.others.record(ctx, o.run.engine, &n)
		if err != nil {
			return err
		}
		if r.Current == 0 || r.Holds && r.State != Instantiated { // a Heal does not change the state
			continue
		}
		if err := o.releasing(ctx, &n, r.Current); err != nil {
			return err
		}
	}
	return nil
}

// releasing returns a releasingError while an event of a neighbor deletes or heals. A Heal does not
// wait for another Heal, because only one of them applies a common object.
func (o *op) releasing(ctx context.Context, n *neighbor, seq uint64) error {
	r, err := o.run.engine.recordOf(ctx, n)
	if err != nil || r.Current != seq {
		return err
	}
	kv, err := o.run.engine.store.Get(ctx, elementKey(n.id, seq))
	var e Element
	if err != nil || json.Unmarshal(kv.Value, &e) != nil {
		return err
	}
	if heals := e.Event == Heal && o.task.event != Heal; !heals && !e.Event.removes() {
		return nil
	}
	if ended, err := o.ended(ctx, n, seq); err != nil || ended {
		return err
	}
	if err := o.hurry(ctx, n, kv); err != nil {
		return err
	}
	return &releasingError{fmt.Errorf("%s of app context %s (event %d) has to end here, both have its objects",
		e.Event, n.id, seq)}
}

func (o *op) ended(ctx context.Context, n *neighbor, seq uint64) (bool, error) {
	kv, err := o.run.engine.store.Get(ctx, statusKey(n.id, n.app, o.cluster.id))
	if err != nil || !kv.Exists() {
		return false, err
	}
	var s ClusterStatus
	return json.Unmarshal(kv.Value, &s) == nil && s.Seq == seq && s.Phase.final(), nil
}

// replaced returns the contexts that the update in progress replaces. They do not count as holders
// for the update. Contexts that an earlier update replaced count: they may be instantiated again.
func (o *op) replaced(ctx context.Context) ([]string, error) {
	if o.task.event != Update {
		return nil, nil
	}
	_, own, err := o.run.engine.stateOf(ctx, o.run.id)
	return own.Previous, err
}

// holder returns another context that holds an object, or "". Contexts that the update in progress
// replaces do not count.
func (o *op) holder(ctx context.Context, object appcontext.Object) (string, error) {
	replaced, err := o.replaced(ctx)
	if err != nil {
		return "", storeTrouble(err)
	}
	return o.run.engine.otherHolder(ctx, o.run.id, replaced, o.cluster.id, object)
}

// otherHolder returns another context that holds an object and is not in replaced, or "".
func (e *Engine) otherHolder(
	ctx context.Context, id string, replaced []string, c appcontext.ClusterID, object appcontext.Object,
) (string, error) {
	holds := func(n *neighbor, r *record) bool { return r.Holds && !slices.Contains(replaced, n.id) }
	found, err := e.holders(ctx, id, c, map[appcontext.Object]bool{object: true}, &others{}, holds)
	if err != nil {
		return "", storeTrouble(err)
	}
	if h, ok := found[object]; ok {
		return h.String(), nil
	}
	return "", nil
}

// split divides resources into those that the task handles, with their indexes, and those that
// another context holds. An event that applies also handles the latter, except in phases that
// delete. A Heal does not.
func (t *task) split(v verb, all []appcontext.Resource, positions []int) (
	own []appcontext.Resource, indexes []int, left []appcontext.Resource,
) {
	if !t.event.removes() && t.event != Heal && v != deleteVerb && v != goneVerb {
		return all, positions, nil
	}
	for i, r := range all {
		if _, ok := t.left[r.Object]; ok {
			left = append(left, r)
		} else {
			own, indexes = append(own, r), append(indexes, positions[i])
		}
	}
	return own, indexes, left
}

// handOver applies the manifests of their holders to objects that are kept. If a holder has
// released its objects, handOver finds the holders again. Objects without a holder are not kept.
func (o *op) handOver(ctx context.Context, conn connector.Connector, all []appcontext.Resource, positions []int) error {
	for {
		_, _, left := o.task.split(deleteVerb, all, positions)
		released, err := o.handOverTo(ctx, conn, left)
		if err != nil || !released {
			return err
		}
		if err := o.findHolders(ctx); err != nil {
			return storeTrouble(err)
		}
	}
}

// handOverTo is one pass of handOver. It reports whether a holder has released its objects
// meanwhile, perhaps before the apply. Another context may then hold them.
func (o *op) handOverTo(
	ctx context.Context, conn connector.Connector, left []appcontext.Resource,
) (released bool, err error) {
	for _, p := range byHolder(left, o.task.left) {
		if holds, err := o.holdsStill(ctx, &p.neighbor); err != nil || !holds { // its record may be old
			if err != nil {
				return false, err
			}
			released = true
			continue
		}
		if applied, err := o.applyFor(ctx, conn, &p.holder, p.resources, false); err != nil || !applied {
			if err != nil {
				return false, err
			}
			continue
		}
		holds, err := o.holdsStill(ctx, &p.neighbor)
		if err != nil {
			return false, err
		}
		released = released || !holds
	}
	return released, nil
}

// heldPart has resources with the same holder.
type heldPart struct {
	holder
	resources []appcontext.Resource
}

// byHolder divides resources by their holders, in the order of the holders' names.
func byHolder(list []appcontext.Resource, holders map[appcontext.Object]holder) []*heldPart {
	parts := map[string]*heldPart{}
	for _, r := range list {
		h := holders[r.Object]
		name := h.String()
		if parts[name] == nil {
			parts[name] = &heldPart{holder: h}
		}
		parts[name].resources = append(parts[name].resources, r)
	}
	return slices.SortedFunc(maps.Values(parts), func(a, b *heldPart) int { return cmp.Compare(a.String(), b.String()) })
}

// holdsStill reports whether a holder holds its objects now. If it does not, its record is read
// again when needed.
func (o *op) holdsStill(ctx context.Context, n *neighbor) (bool, error) {
	now, err := o.run.engine.recordOf(ctx, n)
	if err != nil {
		return false, storeTrouble(err)
	}
	if !now.Holds {
		o.task.others.forget(n)
	}
	return now.Holds, nil
}

// storeTrouble returns an error of the store in a call to a cluster. It does not wrap the error: a
// timeout of the store must not count as a timeout of the cluster.
func storeTrouble(err error) error { return errors.New("read other app contexts: " + err.Error()) }

// applyFor applies the manifests of a holder for objects: all of them, or only those that differ.
// It reports whether there were any. It ignores a permanent rejection by the cluster: the holder's
// own event has failed with it, or will.
func (o *op) applyFor(
	ctx context.Context, conn connector.Connector, h *holder, resources []appcontext.Resource, all bool,
) (bool, error) {
	theirs, err := o.run.engine.handedOver(ctx, h, resources, all)
	if err != nil {
		return false, storeTrouble(err)
	}
	if len(theirs) == 0 {
		return false, nil
	}
	err = conn.Apply(ctx, connector.Batch{
		AppContextID: h.id, App: h.app, Cluster: o.cluster.id, Resources: theirs,
		Progress: func(int) { o.progress(handedOver) },
		// the holder does not change
		Holder: func(context.Context, appcontext.Object) (string, error) { return h.String(), nil },
	})
	if errors.Is(connector.ClassOf(err), connector.ErrTerminal) {
		err = nil
	}
	return true, err
}

// handedOver returns the manifests of a holder for the objects of resources: all of them, or only
// those that differ from the resources.
func (e *Engine) handedOver(
	ctx context.Context, h *holder, resources []appcontext.Resource, all bool,
) ([]appcontext.Resource, error) {
	theirs, err := e.resourcesOf(ctx, &h.neighbor)
	if err != nil {
		return nil, err
	}
	var out []appcontext.Resource
	p := planner{changed: e.options.Comparer}
	for i := range theirs {
		differs := slices.ContainsFunc(resources, func(r appcontext.Resource) bool {
			return r.Object == theirs[i].Object && (all || p.compare(&r, &theirs[i]) || p.broken != "")
		})
		if differs && !isEnd(&theirs[i]) {
			out = append(out, theirs[i])
		}
	}
	return out, nil
}

func (t *task) leftMessage() string {
	if len(t.left) == 0 {
		return ""
	}
	var names []string
	for object, h := range t.left {
		names = append(names, fmt.Sprintf("%s (%s)", object, &h.neighbor))
	}
	slices.Sort(names)
	more := ""
	if n := len(names) - maxNamed; n > 0 {
		names, more = names[:maxNamed], fmt.Sprintf("; and %d more", n)
	}
	return shortenTo("left for other app contexts: "+strings.Join(names, "; "), maxMessage) + more
}
