// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/spokewire/sdk-go/examples/hub/internal/document"
	"github.com/spokewire/sdk-go/examples/hub/internal/health"
	"github.com/spokewire/sdk-go/examples/hub/internal/render"
	"github.com/spokewire/sdk-go/examples/hub/internal/rollout"
	"github.com/spokewire/sdk-go/internal/wait"
	"github.com/spokewire/sdk-go/interpreter/caller"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/store"
)

// Objects reads what templates need of the hub's cluster: see package objects.
type Objects interface {
	Read(ctx context.Context, application string, read func(render.Objects) error) error
	Forget(application string) error
}

// Options are the parts that a [Hub] is made of. All are required.
type Options struct {
	Engine   *rsync.Engine
	Store    store.Store // the engine's own
	Rollouts *rollout.Manager
	Health   *health.Tracker
	Webhooks *caller.Caller
	Objects  Objects
	// Mapper knows the resources that rules of webhooks name; nil knows none.
	Mapper meta.RESTMapper
	// Source is the name of the hub at the broker, which no cluster can have.
	Source string
	// Dir is the folder that documents come from. Where it is "" they come by Put and Delete alone, and are kept in the store.
	Dir string
	// LeaveDir lets documents come by Put and Delete where they came from a folder before. What that had stays as it is until it is placed again, or [Hub.Complete].
	LeaveDir bool
	// MaxMemory limits the estimated memory of all documents and their objects, in bytes.
	MaxMemory int
	// Check returns a [*render.InvalidError] for what the agent of a cluster cannot be given. It must not wait for agents.
	Check func(ctx context.Context, cluster string, resources []appcontext.Resource) error
	// Settled is called once, when all applications are what they are to be for the first time, and the agents of their clusters have applied that.
	Settled func(context.Context) error
	// Forget lets go of the works of a cluster that are being deleted.
	Forget func(ctx context.Context, cluster string) error
	// Heard returns when the agent of a cluster was last heard of, zero for never. Those that have works are heard of once in a Beat.
	Heard func(cluster string) time.Time
	Beat  time.Duration
	// Say is told what happens, in a line, and Changed that [Hub.State] has changed.
	Say     func(format string, args ...any)
	Changed func()
}

// Hub has the documents. All methods may be called from any goroutine.
type Hub struct {
	options Options
	began   time.Time
	loaded  chan struct{}
	works   chan struct{} // has an element when there is something new about works
	turns   chan struct{} // has an element for each template that is at work

	complete  chan struct{} // closed when no document is to come that the store does not have
	completed func()        // closes it

	change sync.Mutex // held for the whole of a change, which may take its time

	mu           sync.Mutex     // for what follows
	news         wait.Broadcast // something is new about works
	turned       wait.Broadcast // an application is held up, or no longer
	set          *document.Set
	taken        time.Time
	refused      string // why something newer does not count
	applications map[string]*application
	prepared     map[*document.Document]prepared // of changes that wait for their turn
	owners       map[appcontext.Identity]string  // which application was the last to have an object
	earlier      map[string]bool                 // applications of an earlier life without a new revision
	origin       origin
}

// application is what a hub knows of one beside its document.
type application struct {
	// problem says why it stays as it is.
	problem string
	since   time.Time
	held    int              // the revision of a rollback, or 0
	newest  rollout.Revision // what it is to be, with no more than the digests
	has     map[appcontext.Identity]bool
	on      map[string]bool // the clusters that it has something on
	// rendering is what it is to be, made from the document for the clusters.
	rendering *render.Rendering
	document  []byte
	clusters  []*document.Cluster
}

// New returns a hub without documents.
func New(options Options) *Hub {
	set, _ := document.NewSet()
	complete := make(chan struct{})
	return &Hub{
		options: options, complete: complete, completed: sync.OnceFunc(func() { close(complete) }),
		began: time.Now(), loaded: make(chan struct{}), works: make(chan struct{}, 1),
		turns: make(chan struct{}, runtime.GOMAXPROCS(0)),
		set:   set, applications: map[string]*application{}, prepared: map[*document.Document]prepared{},
		owners: map[appcontext.Identity]string{}, earlier: map[string]bool{},
	}
}

// Documents returns the documents that count.
func (h *Hub) Documents() *document.Set {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.set
}

// Replace takes other documents in the place of all. Its error is a [*document.Error], after which all is as it was.
func (h *Hub) Replace(ctx context.Context, set *document.Set) error {
	h.change.Lock()
	defer h.change.Unlock()
	err := h.take(ctx, set, "the documents have changed")
	h.refuse(err)
	return err
}

func (h *Hub) refuse(err error) {
	h.mu.Lock()
	h.refused = ""
	if err != nil {
		h.refused = err.Error()
	}
	h.mu.Unlock()
	h.options.Changed()
}

// begin waits for its turn to make a change, which done ends. A change that has begun is made as a whole, also where who asked for it hangs up.
func (h *Hub) begin(ctx context.Context) (_ context.Context, done func(), err error) {
	h.change.Lock()
	if err := ctx.Err(); err != nil {
		h.change.Unlock()
		return nil, nil, err
	}
	return context.WithoutCancel(ctx), h.change.Unlock, nil
}

// Put takes one document. It reports whether it is new. Its errors are as those of Replace.
func (h *Hub) Put(ctx context.Context, d *document.Document) (created bool, err error) {
	defer h.prepare(ctx, d)()
	ctx, done, err := h.begin(ctx)
	if err != nil {
		return false, err
	}
	defer done()
	set := h.Documents()
	return set.Document(d.Kind, d.Name) == nil, h.take(ctx, set.With(d), fmt.Sprintf("%s %s has changed", d.Kind, d.Name))
}

// Delete takes one away. It returns [ErrNotFound], and errors as those of Replace where others refer to it.
func (h *Hub) Delete(ctx context.Context, key document.Key) error {
	ctx, done, err := h.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	set := h.Documents()
	if set.Document(key.Kind, key.Name) == nil {
		return fmt.Errorf("%s %s: %w", key.Kind, key.Name, ErrNotFound)
	}
	return h.take(ctx, set.Without(key), fmt.Sprintf("%s %s is gone", key.Kind, key.Name))
}

// take makes other documents count. With change held.
func (h *Hub) take(ctx context.Context, set *document.Set, cause string) error {
	before := h.Documents()
	h.mu.Lock()
	first := h.taken.IsZero()
	h.mu.Unlock()
	var was *origin
	h.mu.Lock()
	now := h.origin.without(set)
	h.mu.Unlock()
	if first {
		err := h.recall(ctx)
		if err == nil {
			was, now, err = h.arrive(ctx)
		}
		if err != nil {
			return err
		}
	}
	results, err := h.check(ctx, set, first && h.options.Dir == "")
	if err == nil && first {
		err = h.checkOrigin(ctx, was, set, results)
	}
	if err != nil {
		h.watchAgain(ctx, before, before.Documents(document.ApplicationKind)...)
		for _, d := range set.Documents(document.ApplicationKind) {
			if before.Document(document.ApplicationKind, d.Name) == nil {
				err = errors.Join(err, h.options.Objects.Forget(d.Name))
			}
		}
		return err
	}
	if err := h.remember(ctx, set); err != nil {
		return err
	}
	if err := h.keep(ctx, before, set, now, first); err != nil {
		return err
	}
	if err := h.endHolds(ctx, results); err != nil { // last: a document that was rolled back must not count by itself after a crash
		return err
	}
	if first || !sameWebhooks(before, set) {
		if err := h.options.Webhooks.SetConfigurations(set.Webhooks()); err != nil {
			return err // check has found none
		}
		h.options.Health.Refresh()
	}
	h.mu.Lock()
	h.set, h.taken = set, time.Now()
	maps.DeleteFunc(h.owners, func(id appcontext.Identity, owner string) bool { return h.letGo(owner, id) })
	h.mu.Unlock()
	h.setOrigin(now)
	for _, r := range results {
		h.roll(r, cause)
	}
	return h.removeOthers(ctx, set)
}

// removeOthers takes applications away that have no document, also such as were there in an earlier life, but for those of a folder that was left.
func (h *Hub) removeOthers(ctx context.Context, set *document.Set) error {
	names, err := h.options.Rollouts.Applications(ctx)
	if err != nil {
		return err
	}
	left := map[string]bool{}
	h.mu.Lock()
	for name := range h.applications {
		names = append(names, name)
	}
	for _, name := range h.origin.Left {
		left[name] = true
	}
	h.mu.Unlock()
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if left[name] || set.Document(document.ApplicationKind, name) != nil {
			continue
		}
		h.options.Rollouts.Set(name, rollout.Target{Cause: "it has no document any more"})
		if err := h.release(ctx, name); err != nil {
			return err
		}
		h.mu.Lock()
		delete(h.applications, name)
		h.turn()
		h.mu.Unlock()
		if err := h.options.Objects.Forget(name); err != nil {
			return err
		}
	}
	h.mu.Lock()
	maps.DeleteFunc(h.earlier, func(name string, _ bool) bool { return !left[name] })
	h.mu.Unlock()
	h.options.Changed()
	return nil
}

// Changed renders an application anew, because of something that its templates have read.
func (h *Hub) Changed(ctx context.Context, name, cause string) error {
	h.change.Lock()
	defer h.change.Unlock()
	set := h.Documents()
	d := set.Document(document.ApplicationKind, name)
	if d == nil {
		return nil
	}
	h.roll(h.alone(set, h.render(ctx, set, d)), cause)
	return nil
}

// watchAgain renders applications as they are, so that what they read is watched again, and nothing else, after documents were refused. What has changed while
// it was not watched counts.
func (h *Hub) watchAgain(ctx context.Context, set *document.Set, applications ...*document.Document) {
	for _, r := range h.renderAll(ctx, set, applications) {
		h.roll(h.alone(set, r), "objects that its templates read have changed")
	}
}

// roll says what an application is to be, after it was rendered.
func (h *Hub) roll(r result, cause string) {
	h.mu.Lock()
	if slices.Contains(h.origin.Left, r.name) {
		h.mu.Unlock()
		return // it is not placed yet
	}
	a := h.applications[r.name]
	if a == nil {
		a = &application{}
		h.applications[r.name] = a
	}
	a.held = r.revision
	problem := ""
	if r.err != nil {
		problem = strings.ReplaceAll(r.err.Error(), "\n", "; ") // errors that were joined
	}
	if a.problem != problem {
		a.problem, a.since = problem, time.Now()
		h.turn()
		if problem != "" {
			h.options.Say("%s: stays as it is: %s", r.name, problem)
		}
	}
	if r.rendering != nil && r.rendering != a.rendering {
		h.own(a, r)
		a.rendering, a.document, a.clusters = r.rendering, r.source.Document, r.clusters
		a.newest = rollout.Revision{Digest: r.rendering.Digest(), Content: r.source.Digest()}
	}
	h.mu.Unlock()
	if r.rendering != nil {
		h.options.Rollouts.Set(r.name, rollout.Target{
			Rendering: r.rendering, Rollout: r.rollout, Source: r.source, Cause: cause, Revision: r.revision,
		})
	}
	h.options.Changed()
}
