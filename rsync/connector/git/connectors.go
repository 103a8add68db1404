// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package git

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"
	"go.yaml.in/yaml/v3"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/internal/driver"
)

// Connectors implements [connector.Connectors] for clusters with manifests in git. It may be used
// concurrently. It releases the resources of a repository when the last connector for the
// repository is closed.
type Connectors struct {
	clusters map[string]Repository
	options  Options

	mu   sync.Mutex
	open map[place]*repository
}

// place identifies a branch that connectors share.
type place struct{ url, branch string }

// New returns Connectors for clusters. A key is provider+cluster, provider+* for the other clusters
// of a provider, or * for all others. New does not connect to repositories. It returns
// [ErrInvalid].
func New(clusters map[string]Repository, options Options) (*Connectors, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Connectors{clusters: map[string]Repository{}, options: options, open: map[place]*repository{}}
	same := map[place]Repository{}
	for _, key := range slices.Sorted(maps.Keys(clusters)) {
		if err := driver.CheckKey(key); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		at, err := clusters[key].withDefaults()
		if err == nil {
			_, err = newRemote(at, 0)
		}
		if err != nil {
			return nil, fmt.Errorf("clusters %s: %w", key, err)
		}
		c.clusters[key] = at
		at.Path = ""
		where := place{at.URL, at.Branch}
		if other, ok := same[where]; ok && other != at {
			return nil, fmt.Errorf("%w: clusters %s: another Repository of the same URL and Branch must differ only "+
				"in Path", ErrInvalid, key)
		}
		same[where] = at
	}
	return c, nil
}

// Connector implements [connector.Connectors]. It does no I/O. For a cluster without a key in New
// it returns a terminal error.
func (c *Connectors) Connector(_ context.Context, provider, cluster string) (connector.Connector, error) {
	id := appcontext.ClusterID{Provider: provider, Name: cluster}
	at, ok := driver.Find(c.clusters, id)
	if !ok {
		return nil, driver.Terminal("no repository is configured for the cluster %s", id)
	}
	where := place{at.URL, at.Branch}
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.open[where]
	if r == nil {
		var err error
		if r, err = newRepository(at, c.options); err == nil {
			r.prober, err = newRepository(at, c.options)
		}
		if err != nil {
			return nil, &connector.Error{Class: connector.ErrTerminal, Err: err}
		}
		c.open[where] = r
	}
	r.users++
	return &conn{owner: c, repository: r, at: at, id: id}, nil
}

// release ends the use of a repository. The last release closes the repository.
func (c *Connectors) release(r *repository) {
	c.mu.Lock()
	r.users--
	last := r.users == 0
	if last {
		delete(c.open, place{r.remote.at.URL, r.remote.at.Branch})
	}
	c.mu.Unlock()
	if last {
		r.close()
		r.prober.close()
	}
}

// conn is the connector of one cluster.
type conn struct {
	owner      *Connectors
	repository *repository
	at         Repository
	id         appcontext.ClusterID

	closed sync.Once
}

// edit is a change of one file.
type edit struct {
	object appcontext.Object
	path   []string
	blob   *plumbing.MemoryObject // the manifest; nil deletes the file
}

// Apply commits the manifests, all or none.
func (c *conn) Apply(ctx context.Context, batch connector.Batch) error {
	edits := make([]edit, 0, len(batch.Resources))
	for i := range batch.Resources {
		r := &batch.Resources[i]
		if err := c.check(r); err != nil {
			return err
		}
		edits = append(edits, edit{r.Object, c.at.file(c.id, r.Object), memory(plumbing.BlobObject, r.Manifest)})
	}
	return c.write(ctx, VerbApply, batch, edits)
}

// check rejects manifests that stop an agent, and hooks that no agent would run.
func (c *conn) check(r *appcontext.Resource) error {
	refuse := func(format string, args ...any) error {
		return driver.Fault(connector.ErrTerminal, r.Object, format, args...)
	}
	if limit := c.repository.options.MaxManifestBytes; len(r.Manifest) > limit {
		return refuse("the manifest has %d bytes and Options.MaxManifestBytes allows %d", len(r.Manifest), limit)
	}
	object, err := appcontext.ParseObject(r.Manifest)
	switch {
	case err != nil:
		return refuse("%w", err)
	case object != r.Object:
		return refuse("the manifest has another object")
	case r.Has(appcontext.HookDeletePolicySucceeded) && c.repository.options.Status == nil:
		// The connector would delete the file before an agent has run the hook.
		return refuse("deletePolicies: %s needs git.Options.Status, which reports when the hook has run: set Status, or "+
			"remove the policy", appcontext.HookDeletePolicySucceeded)
	case fieldTwice(r.Manifest):
		return refuse("the manifest repeats a field: agents with Kustomize, for example Flux, reject all manifests of the " +
			"cluster")
	}
	return nil
}

// fieldTwice reports whether a map of a manifest has a field twice. It parses like Kustomize: a
// field in a map and in another map that is merged into it does not count as twice.
func fieldTwice(manifest []byte) bool {
	var content any
	var refused *yaml.TypeError // not for invalid YAML, for example JSON with tabs
	return errors.As(yaml.Unmarshal(manifest, &content), &refused)
}

// Delete commits the removal of the files.
func (c *conn) Delete(ctx context.Context, batch connector.Batch) error {
	edits := make([]edit, 0, len(batch.Resources))
	for i := range batch.Resources {
		o := batch.Resources[i].Object
		edits = append(edits, edit{object: o, path: c.at.file(c.id, o)})
	}
	return c.write(ctx, VerbDelete, batch, edits)
}

func (c *conn) write(ctx context.Context, verb Verb, batch connector.Batch, edits []edit) error {
	if len(edits) == 0 {
		return ctx.Err()
	}
	w := &call{kind: writing, edits: edits, folder: c.at.directory(c.id), commit: Commit{
		Verb: verb, AppContextID: batch.AppContextID, App: batch.App, Cluster: c.id,
	}}
	return c.repository.do(ctx, w)
}

// Get returns whether the files exist at the tip of the branch, and calls Options.Status.
func (c *conn) Get(ctx context.Context, batch connector.Batch) ([]connector.State, error) {
	ask := &call{kind: asking, found: make([]bool, len(batch.Resources))}
	states := make([]connector.State, len(batch.Resources))
	for i := range batch.Resources {
		ask.edits = append(ask.edits, edit{path: c.at.file(c.id, batch.Resources[i].Object)})
	}
	if err := c.repository.do(ctx, ask); err != nil {
		return nil, err
	}
	for i, found := range ask.found {
		states[i] = connector.State{Object: batch.Resources[i].Object, Exists: found, Ready: found}
		if found {
			states[i].Message = "committed"
		}
	}
	if status := c.repository.options.Status; status != nil {
		if err := status(ctx, batch, states); err != nil {
			return nil, err
		}
	}
	return states, nil
}

// Probe requests the list of branches. It also returns nil if the server rejects the request: the
// next call returns the error.
func (c *conn) Probe(ctx context.Context) error {
	err := c.repository.prober.do(ctx, &call{kind: probing})
	if errors.Is(err, connector.ErrUnreachable) || ctx.Err() != nil {
		return err
	}
	return nil
}

// Close ends the use of the repository.
func (c *conn) Close() error {
	c.closed.Do(func() { c.owner.release(c.repository) })
	return nil
}
