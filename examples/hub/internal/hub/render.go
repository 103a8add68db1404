// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/spokewire/sdk-go/dynamicwatcher/values"
	"github.com/spokewire/sdk-go/examples/hub/internal/document"
	"github.com/spokewire/sdk-go/examples/hub/internal/render"
	"github.com/spokewire/sdk-go/interpreter/caller"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/revisions"
)

// result is the result of rendering an application: a target without a cause, an error, or both if
// the target has earlier values.
type result struct {
	name string
	revisions.Target
	rendering *render.Rendering
	err       error
}

// check checks whether documents can be accepted, and renders their applications. The error is a
// [*document.Error]. Missing values, and values with which an application does not render, are
// errors in the results. So are the errors of an application that has not rendered since the hub
// started with its document: the document was accepted by an earlier process, for example with a
// --kubeconfig.
func (h *Hub) check(ctx context.Context, set *document.Set, kept bool) ([]result, error) {
	if err := set.Validate(); err != nil {
		return nil, err
	}
	if d := set.Document(document.ClusterKind, h.options.Source); d != nil {
		return nil, &document.Error{Where: d.Where, Field: "metadata.name", Problem: fmt.Sprintf(
			"%q is the hub's own name at the broker (--source): the agent could read and write the "+
				"hub's messages", d.Name)}
	}
	if err := h.checkWebhooks(set); err != nil {
		return nil, &document.Error{Where: "the configurations of webhooks", Problem: err.Error()}
	}
	results := h.renderAll(ctx, set, set.Documents(document.ApplicationKind))
	for i, r := range results {
		if kept {
			results[i] = h.alone(set, r)
		} else if r.err != nil && r.rendering == nil && !errors.As(r.err, new(*values.MissingError)) &&
			!h.neverRendered(set, r.name) {
			return nil, r.err
		}
	}
	if err := h.checkMemory(set, results); err != nil && !kept { // a hub starts with its stored documents
		return nil, err
	}
	return results, h.checkMoves(set, results)
}

// documentCopies is the factor for the memory of a document: it is kept as text, decoded, and while
// it is stored.
const documentCopies = 3

// checkMemory refuses documents if they and their objects need more than MaxMemory, and more than
// the current documents.
func (h *Hub) checkMemory(set *document.Set, results []result) error {
	renderings := map[string]*render.Rendering{}
	for _, r := range results {
		renderings[r.name] = r.rendering
	}
	needed, largest, most := memoryOf(set, renderings)
	if needed <= h.options.MaxMemory {
		return nil
	}
	h.mu.Lock()
	for name, a := range h.applications {
		renderings[name] = a.rendering
	}
	now, _, _ := memoryOf(h.set, renderings)
	h.mu.Unlock()
	if needed <= now {
		return nil
	}
	return &document.Error{Where: largest.Where, Field: "spec", Problem: fmt.Sprintf(
		"all documents and their objects need %d MiB of memory, more than %d MiB: reduce the objects, or start the "+
			"hub with a higher --max-memory; %s %s needs most, %d MiB",
		toMiB(needed), toMiB(h.options.MaxMemory), largest.Kind, largest.Name, toMiB(most))}
}

// memoryOf estimates the memory of documents and their objects. It returns the document that needs
// most of it, and its memory.
func memoryOf(
	set *document.Set, renderings map[string]*render.Rendering,
) (all int, largest *document.Document, most int) {
	for _, kind := range document.Kinds() {
		for _, d := range set.Documents(kind) {
			bytes := documentCopies * len(d.JSON)
			if r := renderings[d.Name]; r != nil && kind == document.ApplicationKind {
				bytes += r.Memory
			}
			if all += bytes; bytes > most {
				largest, most = d, bytes
			}
		}
	}
	return all, largest, most
}

func toMiB(bytes int) int { return (bytes + 1<<20 - 1) >> 20 }

// neverRendered reports whether an application still has the document of the start, and has not
// rendered since.
func (h *Hub) neverRendered(set *document.Set, name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.applications[name]
	if a == nil || a.problem == "" || a.rendering != nil {
		return false
	}
	was, is := h.set.Document(document.ApplicationKind, name), set.Document(document.ApplicationKind, name)
	return was != nil && string(was.JSON) == string(is.JSON)
}

// checkMoves refuses objects that two applications have on one cluster, because removing one
// application would delete the object of the other. It also refuses objects that another
// application has or has not removed yet, which would delete them after they are applied.
func (h *Hub) checkMoves(set *document.Set, results []result) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	owners := map[appcontext.Identity]string{}
	for _, r := range results {
		if r.rendering == nil {
			continue
		}
		refuse := func(format string, id appcontext.Identity, owner string) error {
			d := set.Document(document.ApplicationKind, r.name)
			return &document.Error{
				Where: d.Where, Field: "spec.parts", Problem: fmt.Sprintf(format, id.Object, owner, id.Cluster.Name),
			}
		}
		for id := range appcontext.Resources(r.rendering.Apps) {
			if owner, ok := owners[id]; ok {
				return refuse("%s is also in the application %s, on the cluster %s", id, owner)
			}
			owners[id] = r.name
			if owner := h.owners[id]; owner != "" && owner != r.name && !h.letGo(owner, id) {
				return refuse("%s is in the application %s, on the cluster %s: remove it there first, and add it here "+
					"when that is deployed", id, owner)
			}
		}
	}
	return nil
}

// recall records the objects that applications had in an earlier process of the hub, and may have
// on clusters. It returns these applications.
func (h *Hub) recall(ctx context.Context) (names []string, err error) {
	stored, err := h.options.Rollouts.Applications(ctx)
	if err != nil {
		return nil, err
	}
	for name, digest := range stored {
		h.mu.Lock()
		a := h.applications[name] // of a standby
		h.mu.Unlock()
		var live []*appcontext.AppContext
		if a != nil && a.rendering.Digest() == digest {
			live = append(live, &appcontext.AppContext{Apps: a.rendering.Apps})
		} else if live, err = h.options.Rollouts.Live(ctx, name); err != nil {
			return nil, err
		}
		h.mu.Lock()
		for _, revision := range live {
			for id := range appcontext.Resources(revision.Apps) {
				h.owners[id] = max(h.owners[id], name)
			}
		}
		h.mu.Unlock()
	}
	return slices.Sorted(maps.Keys(stored)), nil
}

// alone returns a result with an error instead of its rendering if another application has one of
// its objects.
func (h *Hub) alone(set *document.Set, r result) result {
	if err := h.checkMoves(set, []result{r}); err != nil {
		r.rendering, r.err = nil, err
	}
	return r
}

// letGo reports whether an application that had an object is deployed without it, or removed. The
// caller holds h.mu.
func (h *Hub) letGo(owner string, id appcontext.Identity) bool {
	if h.taken.IsZero() || slices.Contains(h.origin.Left, owner) { // of an earlier process
		return false
	}
	status, known := h.options.Rollouts.Status(owner)
	if known && (!status.Settled || status.State != revisions.Deployed) {
		return false
	}
	a := h.applications[owner]
	return a == nil || a.rendering == nil || a.rendering.Resources[id] == nil
}

// renderAll renders applications. They wait for their objects concurrently: while the hub's cluster
// is unreachable, each wait takes seconds.
func (h *Hub) renderAll(ctx context.Context, set *document.Set, applications []*document.Document) []result {
	results := make([]result, len(applications))
	holds, err := h.options.Rollouts.Holds(ctx)
	var group sync.WaitGroup
	for i, d := range applications {
		if results[i] = (result{name: d.Name, err: err}); err == nil {
			group.Go(func() { results[i] = h.render(ctx, set, d, holdOf(holds, d)) })
		}
	}
	group.Wait()
	return results
}

// atWork are the objects for a running template. It gives up its turn while it waits for a value.
type atWork struct {
	values.Reader
	turns chan struct{}
}

// Value implements [values.Reader].
func (a atWork) Value(ref values.Ref) (string, error) {
	<-a.turns
	defer func() { a.turns <- struct{}{} }()
	return a.Reader.Value(ref)
}

// render renders one application, by its hold or its document.
func (h *Hub) render(ctx context.Context, set *document.Set, d *document.Document, held *revisions.Hold) (r result) {
	clusters, current := set.On(d.Name), d
	r.name = d.Name
	kept := map[string]string{}
	if held != nil {
		source, err := render.DecodeSource(held.Source, nil)
		if err == nil {
			d, err = document.DecodeOne(source.Document)
		}
		if err != nil {
			r.err = err
			return r
		}
		r.Revision, kept = held.Revision, source.Values
	}
	if r.rendering = h.rendered(d, clusters); r.rendering == nil {
		r.rendering, r.err = h.read(ctx, d, clusters, kept)
	} else { // a refused version of the document may have read objects
		r.err = h.options.Objects.Read(ctx, d.Name, func(values.Reader) error { return nil })
	}
	// If the document renders with the earlier values, the new values are the problem.
	if errors.As(r.err, new(*values.MissingError)) || r.err != nil && held == nil {
		r.rendering = h.renderKept(ctx, d, clusters)
	}
	if r.rendering != nil {
		// A rollback uses the rollout of the current document: groups of an earlier one may not
		// exist any more.
		rollout, err := current.Rollout(clusters)
		if r.Rollout = rollout; err != nil {
			r.rendering, r.err = nil, err
		}
	}
	return r
}

// large is the size from which prepare renders a document. Package httpserve handles bodies of this
// size one at a time.
const large = 64 << 10

// prepare renders a large application before its change has its turn, so that other changes do not
// wait for it. Documents that read objects, or do not render, are left to the change.
func (h *Hub) prepare(ctx context.Context, d *document.Document) (forget func()) {
	clusters := h.Documents().With(d).On(d.Name)
	if d.Kind != document.ApplicationKind || len(d.JSON) < large || len(clusters) == 0 ||
		h.rendered(d, clusters) != nil {
		return func() {}
	}
	rendering, err := h.renderWith(ctx, d, clusters, render.Without)
	if err != nil {
		return func() {}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.prepared[d] = rendering
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.prepared, d)
	}
}

// rendered returns the rendering of an application if the document and its clusters have not
// changed since, and no template reads objects.
func (h *Hub) rendered(d *document.Document, clusters []*document.Cluster) *render.Rendering {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.prepared[d]; r != nil && slices.EqualFunc(r.Clusters, clusters, sameCluster) {
		return r
	}
	a := h.applications[d.Name]
	if a == nil || a.rendering == nil || len(a.rendering.Values) > 0 || !bytes.Equal(a.rendering.Document, d.JSON) ||
		!slices.EqualFunc(a.rendering.Clusters, clusters, sameCluster) {
		return nil
	}
	return a.rendering
}

func sameCluster(a, b *document.Cluster) bool {
	return a.Metadata.Name == b.Metadata.Name && maps.Equal(a.Metadata.Labels, b.Metadata.Labels)
}

// read renders with the kept values, and reads the others.
func (h *Hub) read(
	ctx context.Context, d *document.Document, clusters []*document.Cluster, kept map[string]string,
) (out *render.Rendering, err error) {
	err = h.options.Objects.Read(ctx, d.Name, func(objects values.Reader) (err error) {
		out, err = h.renderWith(ctx, d, clusters, values.Kept{Values: kept, Other: atWork{objects, h.turns}})
		return err
	})
	return out, err
}

// renderWith renders when it has its turn. It checks objects before any object of their application
// is written.
func (h *Hub) renderWith(
	ctx context.Context, d *document.Document, clusters []*document.Cluster, objects values.Reader,
) (*render.Rendering, error) {
	h.turns <- struct{}{}
	defer func() { <-h.turns }()
	return render.Render(d, clusters, objects, func(cluster string, resources []appcontext.Resource) error {
		return h.options.Check(ctx, cluster, resources)
	})
}

// renderKept renders with the values of the wanted revision if it has the same document; otherwise
// it returns nil.
func (h *Hub) renderKept(ctx context.Context, d *document.Document, clusters []*document.Cluster) *render.Rendering {
	_, wanted, err := h.options.Rollouts.Revisions(ctx, d.Name)
	if err != nil || wanted == 0 {
		return nil
	}
	source, err := render.DecodeSource(h.source(ctx, d.Name, wanted))
	if err != nil || string(source.Document) != string(d.JSON) {
		return nil
	}
	out, err := h.renderWith(ctx, d, clusters, values.Kept{Values: source.Values, Other: render.Without})
	if err != nil {
		return nil
	}
	return out
}

// checkWebhooks checks the configurations of webhooks together: it sets them on a temporary caller.
func (h *Hub) checkWebhooks(set *document.Set) error {
	trial, err := caller.New(caller.Options{Mapper: h.options.Mapper})
	if err != nil {
		return err
	}
	defer trial.Close()
	return trial.SetConfigurations(set.Webhooks())
}

// configure sets the configurations of webhooks. The caller holds change.
func (h *Hub) configure(set *document.Set) error {
	if h.configured != nil && reflect.DeepEqual(h.configured.Webhooks(), set.Webhooks()) {
		return nil
	}
	if err := h.options.Webhooks.SetConfigurations(set.Webhooks()); err != nil {
		return err
	}
	h.configured = set
	h.options.Health.Refresh()
	return nil
}
