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
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/dynamicwatcher/values"
	"github.com/spokewire/sdk-go/examples/hub/internal/document"
	"github.com/spokewire/sdk-go/examples/hub/internal/render"
	"github.com/spokewire/sdk-go/examples/hub/internal/status"
	"github.com/spokewire/sdk-go/examples/internal/login"
	"github.com/spokewire/sdk-go/internal/wait"
	"github.com/spokewire/sdk-go/interpreter/caller"
	"github.com/spokewire/sdk-go/interpreter/workhealth"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/revisions"
	"github.com/spokewire/sdk-go/rsync/store"
)

// Objects reads the objects of the hub's cluster for templates: see package values.
type Objects interface {
	Read(ctx context.Context, application string, read func(values.Reader) error) error
	Forget(application string) error
}

// Options are the parts of a [Hub]. All are required, except as described.
type Options struct {
	Store    store.Store // the store of Rollouts
	Rollouts *revisions.Manager
	Health   *workhealth.Tracker
	Webhooks *caller.Caller
	Objects  Objects
	// Mapper maps the resources in the rules of webhooks; nil maps none.
	Mapper meta.RESTMapper
	// Source is the source ID of the hub at the broker, which no cluster may have.
	Source string
	// Dir is the folder of the documents. If it is "", documents are changed by Apply and Delete
	// only, and are stored.
	Dir string
	// LeaveDir allows Apply and Delete although documents came from a folder before. The applications
	// of the folder stay unchanged until they are placed again, or [Hub.Complete] is called.
	LeaveDir bool
	// MaxMemory limits the estimated memory of all documents and their objects, in bytes.
	MaxMemory int
	// Check returns a [*manifestwork.InvalidError] for resources that the agent of a cluster cannot
	// receive. It must not wait for agents.
	Check func(ctx context.Context, cluster string, resources []appcontext.Resource) error
	// Settled is called when all applications are deployed for the first time, and the agents of
	// their clusters have applied them, and again after each [Hub.Complete]. With Declared, the store
	// has an earlier call. It may be a restored backup then, which lacks newer works on clusters: the
	// first call also waits for Complete, unless the documents are in Dir.
	Settled  func(context.Context) error
	Declared bool
	// Forget abandons the works of a cluster that are being deleted.
	Forget func(ctx context.Context, cluster string) error
	// LastReports returns when the last message of the agent of each cluster arrived. Agents with
	// works send at least one message in each Beat.
	LastReports func() map[string]time.Time
	Beat        time.Duration
	// Strangers returns the sources that agents have asked for in place of Source, by cluster, as far
	// as the hub can see them. Revoked returns whether the certificates of a cluster are revoked. Links
	// returns the connections of the hub. Nil returns none.
	Strangers func() map[string]string
	Revoked   func(cluster string) bool
	Links     func(context.Context) []status.Link
	// Actions are the actions of users, for the history.
	Actions *login.History
	// Log receives failures, recoveries and changes. Changed is called when [Hub.State] has changed.
	Log     klog.Logger
	Changed func()
}

// Hub manages the documents and their applications. Its methods may be called concurrently.
type Hub struct {
	options Options
	began   time.Time
	loaded  chan struct{}
	// completed has an element after Complete.
	completed chan struct{}
	turns     chan struct{} // has an element for each running template

	rollouts sync.Map     // has the settled of each deployed application
	news     wait.Changes // works, held up applications or the origin have changed

	change     sync.Mutex                    // held during a change, which may take long; guards the following
	decoded    map[string]*document.Document // the stored documents, by their content
	configured *document.Set                 // has the configurations of the webhooks, or nil

	mu           sync.Mutex // guards the following fields
	set          *document.Set
	taken        time.Time
	refused      string // why the newest documents were refused
	applications map[string]*application
	prepared     map[*document.Document]*render.Rendering // of waiting changes
	owners       map[appcontext.Identity]string           // the last application that had an object
	origin       origin
}

// application is the state of an application, besides its document.
type application struct {
	// problem is why it is held up.
	problem string
	since   time.Time
	held    int // the revision of a rollback, or 0
	// rendering is the target.
	rendering *render.Rendering
}

// New returns a hub without documents.
func New(options Options) *Hub {
	set, _ := document.NewSet()
	return &Hub{
		options: options, began: time.Now(), loaded: make(chan struct{}), completed: make(chan struct{}, 1),
		turns: make(chan struct{}, runtime.GOMAXPROCS(0)),
		set:   set, applications: map[string]*application{}, prepared: map[*document.Document]*render.Rendering{},
		owners: map[appcontext.Identity]string{},
	}
}

// Documents returns the accepted documents.
func (h *Hub) Documents() *document.Set {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.set
}

// Replace replaces all documents. The error is a [*document.Error] if they are invalid; then
// nothing has changed.
func (h *Hub) Replace(ctx context.Context, set *document.Set) error {
	h.change.Lock()
	defer h.change.Unlock()
	err := h.take(ctx, set, "the documents have changed")
	h.refuse(ctx, err)
	return err
}

func (h *Hub) refuse(ctx context.Context, err error) {
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	h.mu.Lock()
	was := h.refused
	h.refused = problem
	h.mu.Unlock()
	if problem != "" && problem != was {
		h.options.Log.Error(err, "Rejected documents, the previous documents stay in effect", "folder", h.options.Dir)
		h.options.Actions.Add(ctx, login.Action{Text: "refused documents: " + problem})
	}
	h.options.Changed()
}

// begin waits for its turn to make a change; done ends the change. A change that has started is
// completed even if the client disconnects.
func (h *Hub) begin(ctx context.Context) (_ context.Context, done func(), err error) {
	h.change.Lock()
	if err := ctx.Err(); err != nil {
		h.change.Unlock()
		return nil, nil, err
	}
	return context.WithoutCancel(ctx), h.change.Unlock, nil
}

// Delete deletes a document. It returns [ErrNotFound] for a missing one, and the errors of Replace
// if others refer to it.
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
	return h.take(ctx, set.Without(key), fmt.Sprintf("%s %s was deleted", key.Kind, key.Name))
}

// take replaces the accepted documents. The caller holds change.
func (h *Hub) take(ctx context.Context, set *document.Set, cause string) error {
	before := h.Documents()
	h.mu.Lock()
	first, now := h.taken.IsZero(), h.origin.without(set)
	h.mu.Unlock()
	var was *origin
	if first {
		names, err := h.recall(ctx)
		if err == nil {
			was, now, err = h.arrive(ctx, names)
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
		return errors.Join(err, h.undo(ctx, before, set))
	}
	if err := h.remember(ctx, set); err != nil {
		return err
	}
	if err := h.keep(ctx, before, set, now, first); err != nil {
		return err
	}
	if err := h.endHolds(ctx, results); err != nil { // last: a crash must not put a rolled back document into effect
		return err
	}
	if err := h.configure(set); err != nil {
		return err // check has found no error
	}
	h.mu.Lock()
	maps.DeleteFunc(h.owners, func(id appcontext.Identity, owner string) bool { return h.letGo(owner, id) })
	h.set, h.taken = set, time.Now()
	h.mu.Unlock()
	h.setOrigin(now)
	h.options.Log.Info("Accepted documents", "cause", cause, "documents", set.Len())
	for _, r := range results {
		h.roll(ctx, r, cause)
	}
	return h.removeOthers(ctx, set)
}

// removeOthers removes applications without a document, including those of an earlier process, but
// not those of a folder that was left.
func (h *Hub) removeOthers(ctx context.Context, set *document.Set) error {
	stored, err := h.options.Rollouts.Applications(ctx)
	if err != nil {
		return err
	}
	h.mu.Lock()
	names := slices.AppendSeq(slices.Collect(maps.Keys(stored)), maps.Keys(h.applications))
	left := h.origin.Left
	h.mu.Unlock()
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if slices.Contains(left, name) || set.Document(document.ApplicationKind, name) != nil {
			continue
		}
		h.options.Rollouts.Set(name, revisions.Target{Cause: "its document was deleted"})
		if err := h.options.Rollouts.Release(ctx, name); err != nil {
			return err
		}
		h.mu.Lock()
		delete(h.applications, name)
		h.rollouts.Delete(name)
		h.news.Wake()
		h.mu.Unlock()
		if err := h.options.Objects.Forget(name); err != nil {
			return err
		}
	}
	h.options.Changed()
	return nil
}

// Changed renders an application again, after a change of an object that its templates have read.
func (h *Hub) Changed(ctx context.Context, name, cause string) error {
	h.change.Lock()
	defer h.change.Unlock()
	set := h.Documents()
	d := set.Document(document.ApplicationKind, name)
	if d == nil {
		return nil
	}
	h.rerender(ctx, set, cause, d)
	return nil
}

// rerender renders applications again, and sets their targets.
func (h *Hub) rerender(ctx context.Context, set *document.Set, cause string, applications ...*document.Document) {
	for _, r := range h.renderAll(ctx, set, applications) {
		h.roll(ctx, h.alone(set, r), cause)
	}
}

// watchAgain renders applications again after documents were refused, so that only the objects that
// they read are watched. Changes of the meantime take effect.
func (h *Hub) watchAgain(ctx context.Context, set *document.Set, applications ...*document.Document) {
	h.rerender(request.WithUser(ctx, nil), set, "objects that its templates read have changed", applications...)
}

// undo restores the watched objects after documents were checked and not accepted.
func (h *Hub) undo(ctx context.Context, before, set *document.Set) (err error) {
	h.watchAgain(ctx, before, before.Documents(document.ApplicationKind)...)
	for _, d := range set.Documents(document.ApplicationKind) {
		if before.Document(document.ApplicationKind, d.Name) == nil {
			err = errors.Join(err, h.options.Objects.Forget(d.Name))
		}
	}
	return err
}

// roll sets the target of an application, after it was rendered.
func (h *Hub) roll(ctx context.Context, r result, cause string) {
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
	a.held = r.Revision
	problem := ""
	if r.err != nil {
		problem = strings.ReplaceAll(r.err.Error(), "\n", "; ") // joined errors
	}
	if a.problem != problem {
		a.problem, a.since = problem, time.Now()
		h.news.Wake()
		if log := h.options.Log.WithValues("application", r.name); r.err != nil {
			log.Error(errors.New(problem), "Failed to render an application, it stays unchanged")
		} else {
			log.Info("Rendered an application again")
		}
	}
	if r.rendering != nil {
		for id := range r.rendering.Resources {
			h.owners[id] = r.name
		}
		a.rendering = r.rendering
	}
	h.mu.Unlock()
	if r.rendering != nil {
		r.Cause, r.By, r.Content = cause, login.User(ctx), &r.rendering.Content
		h.options.Rollouts.Set(r.name, r.Target)
	}
	h.options.Changed()
}
