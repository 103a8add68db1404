// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package spoke

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
	"github.com/spokewire/sdk-go/dynamicwatcher"
	"github.com/spokewire/sdk-go/examples/agent/internal/fields"
	"github.com/spokewire/sdk-go/examples/agent/internal/guard"
	"github.com/spokewire/sdk-go/examples/agent/internal/manifest"
	"github.com/spokewire/sdk-go/examples/agent/internal/rules"
)

// readers is the maximum number of concurrent reads for one work.
const readers = 8

var secretKind = schema.GroupKind{Kind: "Secret"}

// Target is an object to watch.
type Target = dynamicwatcher.ObjectIdentifier

// Targets are objects to watch, with the resourceVersions that were read; "" if unknown.
type Targets map[Target]string

// Outcome is the result of one manifest.
type Outcome struct {
	manifest.Manifest
	// Pending is whether the manifest is applied as soon as another object is removed: Err names
	// it.
	Pending bool
	// Kept is whether the object was left unchanged because the manifest is complete.
	Kept bool
	// Configured is whether an existing object of this work was written.
	Configured bool
	// Contested is whether others change the object as often as it is applied.
	Contested bool
	// Live is the current object: nil if there is none, or if ReadErr is the reason why it is
	// unknown.
	Live    *unstructured.Unstructured
	ReadErr error
	// Denied is whether the executor may not read the object. The agent does not watch such an object.
	Denied bool
	// Guarded is whether the object is a Secret that rules must not read.
	Guarded bool
	// InVersion reads the object in another version.
	InVersion rules.InVersion

	owner types.UID // of the AppliedWork of this work
}

// Rivals returns the names of the other AppliedWorks that own the object.
func (o *Outcome) Rivals() (names []string) {
	if o.Live == nil || o.owner == "" {
		return nil
	}
	for _, r := range o.Live.GetOwnerReferences() {
		if strings.HasPrefix(r.APIVersion, v1alpha1.GroupName+"/") && r.Kind == "AppliedWork" && r.UID != o.owner {
			names = append(names, "AppliedWork "+r.Name)
		}
	}
	return names
}

// Failed returns the number of manifests that are not applied, and the error of the first.
func (r *Result) Failed() (n int, first error) {
	if r.Err != nil {
		return max(len(r.Outcomes), 1), r.Err
	}
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		if o.Err == nil || o.Kept {
			continue
		}
		if n++; n > 1 {
			continue
		}
		switch text := o.Err.Error(); {
		case strings.HasPrefix(text, "manifest "):
			first = o.Err
		case o.Object == nil || strings.Contains(text, o.Key.String()):
			first = fmt.Errorf("manifest %d: %w", o.Ordinal, o.Err)
		default:
			first = fmt.Errorf("manifest %d, %s: %w", o.Ordinal, o.Key, o.Err)
		}
	}
	if n > 1 {
		first = fmt.Errorf("%d of %d manifests, the first being %w", n, len(r.Outcomes), first)
	}
	return n, first
}

// Result is the result of applying a work.
type Result struct {
	Outcomes []Outcome
	// Err is why the work could not be applied at all. It is also in the outcomes.
	Err error
	// Changed is whether the agent wrote to the objects of the work.
	Changed bool
	// PruneErr is why objects that left the work still exist; nil also while they are being
	// deleted.
	PruneErr error
	// Leaving are the objects that left the work and still exist.
	Leaving Targets
	// Record is the UID of the AppliedWork, if it exists.
	Record types.UID
	// Unwatched are the kinds of objects that the agent may not watch.
	Unwatched []string
}

// Apply applies the manifests of a work, prunes the objects that left the work, and reads the
// objects. keep reports whether a manifest must be left unchanged.
func (c *Cluster) Apply(ctx context.Context, w *workv1.ManifestWork, keep func(*manifest.Manifest) bool) Result {
	manifests := manifest.Read(ctx, w, c)
	r := Result{Outcomes: make([]Outcome, len(manifests))}
	for i, m := range manifests {
		guarded := !c.options.SecretFeedback && m.Key.GroupKind() == secretKind
		r.Outcomes[i] = Outcome{Manifest: m, Kept: keep(&m), Guarded: guarded}
	}
	id, err := c.identity(w.Spec.Executor)
	if err == nil {
		err = c.apply(ctx, w, id, settingsOf(w, manifests), &r)
	}
	if r.Err = err; err != nil {
		for i := range r.Outcomes {
			if o := &r.Outcomes[i]; o.Err == nil && !o.Kept {
				o.Err = err
			}
			if id == nil {
				r.Outcomes[i].ReadErr, r.Outcomes[i].Denied = err, true
			}
		}
	}
	if id != nil {
		c.look(ctx, id, r.Outcomes)
	}
	return r
}

// apply writes the AppliedWork and the objects, and prunes.
func (c *Cluster) apply(ctx context.Context, w *workv1.ManifestWork, id *identity, s settings, r *Result) error {
	record, err := c.record(ctx, w, s) // first, because it has the attempt
	if err != nil {
		return err
	}
	r.Record = record.UID
	policies, err := s.policies()
	if err != nil {
		return err
	}
	if err := c.send(ctx, id, record, policies, r); err != nil {
		return err
	}
	var desired []*unstructured.Unstructured
	for i := range r.Outcomes {
		if o := &r.Outcomes[i]; o.Strategy() != workv1.UpdateStrategyTypeReadOnly {
			desired = append(desired, o.Object)
		}
	}
	// The work of the hub is known, so an empty list of manifests is intended.
	pruned, err := id.pruner.Prune(ctx, record, desired,
		appliedwork.PruneOptions{Policies: policies, Propagation: propagation, AllowEmpty: true})
	r.PruneErr, r.Leaving = id.explain(err), targetsIn(record, pruned)
	r.Changed = r.Changed || pruned.Count(appliedwork.ActionDeleted, appliedwork.ActionReleased,
		appliedwork.ActionPending) > 0
	return nil
}

// send applies the manifests of all strategies that write. One call applies namespaces and CRDs
// before the objects that need them.
func (c *Cluster) send(
	ctx context.Context, id *identity, record *v1alpha1.AppliedWork, policies appliedwork.Policies, r *Result,
) error {
	options := appliedwork.ApplyOptions{
		Adoption: c.options.Adoption, Policies: policies, FieldManager: workv1.DefaultFieldManager,
		ByKey: map[appliedwork.Key]appliedwork.ObjectOptions{}, Executor: id.executor,
	}
	var objects []*unstructured.Unstructured
	var sent []int
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		if o.Err != nil || o.Kept || o.Strategy() == workv1.UpdateStrategyTypeReadOnly {
			continue
		}
		o.owner = record.UID
		var with appliedwork.ObjectOptions
		err := guard.Recover(ctx, "preparing the manifest", func() (err error) {
			with, err = id.optionsFor(ctx, o)
			return err
		})
		if err != nil {
			o.Err = id.explain(err)
			continue
		}
		options.ByKey[o.Key] = with
		objects, sent = append(objects, o.Object), append(sent, i)
	}
	changes, err := id.applier.Apply(ctx, record, objects, options)
	if len(changes.Entries) == 0 && err != nil {
		return err // nothing was applied at all
	}
	for n, i := range sent {
		change := changes.Entries[n]
		o := &r.Outcomes[i]
		o.Err, o.Pending, o.Live = id.explain(change.Err), change.Action == appliedwork.ActionPending, change.Live
		o.Configured = o.Configured || change.Action == appliedwork.ActionConfigured
		if o.Pending && o.Err == nil {
			o.Err = errors.New("it is not applied yet")
		}
	}
	r.Changed = r.Changed || changes.Count(appliedwork.ActionCreated, appliedwork.ActionConfigured,
		appliedwork.ActionAdopted) > 0
	if changes.Err() != nil {
		return nil // in the outcomes
	}
	return err
}

// look reads the objects that the apply has not returned.
func (c *Cluster) look(ctx context.Context, id *identity, outcomes []Outcome) {
	var group errgroup.Group
	group.SetLimit(readers)
	for i := range outcomes {
		o := &outcomes[i]
		o.Locate(ctx, c) // this work may have applied its CRD
		if !o.Served || !o.Identified() {
			continue
		}
		o.InVersion = func(ctx context.Context, version string) (*unstructured.Unstructured, error) {
			return id.read(ctx, &o.Manifest, version)
		}
		if o.Live != nil {
			continue
		}
		group.Go(func() error {
			var live *unstructured.Unstructured
			err := guard.Recover(ctx, "reading the object", func() (err error) {
				live, err = id.read(ctx, &o.Manifest, o.Resource.Version)
				return err
			})
			switch {
			case err == nil:
				o.Live = live
			case !apierrors.IsNotFound(err):
				o.ReadErr = id.explain(fmt.Errorf("read %s: %w", o.Key, err))
				o.Denied = id.executor != nil && apierrors.IsForbidden(err)
			}
			return nil
		})
	}
	_ = group.Wait() // always nil
}

// read reads the object of a manifest. The error is NotFound if it does not exist.
func (id *identity) read(
	ctx context.Context, m *manifest.Manifest, version string,
) (*unstructured.Unstructured, error) {
	resource := m.Resource
	resource.Version = version
	return id.client.Resource(resource).Namespace(m.Key.Namespace).Get(ctx, m.Key.Name, metav1.GetOptions{})
}

// Watched returns the objects to watch: those of the manifests, and those that are being pruned.
// The watches use the rights of the agent, so an object that the executor may not read is not
// watched.
func (r *Result) Watched() Targets {
	targets := Targets{}
	maps.Copy(targets, r.Leaving)
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		if o.Denied || !o.Identified() {
			continue
		}
		t := Target{
			Group: o.Key.Group, Version: o.Object.GroupVersionKind().Version, Kind: o.Key.Kind,
			Namespace: o.Key.Namespace, Name: o.Key.Name,
		}
		if o.Live != nil {
			targets[t] = o.Live.GetResourceVersion()
		} else {
			targets[t] = ""
		}
	}
	return targets
}

// optionsFor returns the options to apply a manifest, by its update strategy.
func (id *identity) optionsFor(ctx context.Context, o *Outcome) (appliedwork.ObjectOptions, error) {
	switch o.Strategy() {
	case workv1.UpdateStrategyTypeUpdate: // StrategyUpdate would need the right to update instead of patch
		return appliedwork.ObjectOptions{Force: true}, nil
	case workv1.UpdateStrategyTypeCreateOnly:
		return appliedwork.ObjectOptions{Strategy: appliedwork.StrategyCreateOnly}, nil
	case workv1.UpdateStrategyTypeServerSideApply:
		if config := o.Config.UpdateStrategy.ServerSideApply; config != nil {
			return id.serverSideApply(ctx, o, config)
		}
		return appliedwork.ObjectOptions{}, nil
	}
	return appliedwork.ObjectOptions{}, fmt.Errorf("the update strategy %q is unknown: write Update, "+
		"CreateOnly, ServerSideApply or ReadOnly", o.Strategy())
}

// serverSideApply returns the options of a server-side apply, with the ignored fields.
func (id *identity) serverSideApply(
	ctx context.Context, o *Outcome, config *workv1.ServerSideApplyConfig,
) (with appliedwork.ObjectOptions, err error) {
	with.FieldManager, with.Force = config.FieldManager, config.Force
	if m := with.FieldManager; m != "" && (!strings.HasPrefix(m, workv1.DefaultFieldManager) || len(m) > 90) {
		return with, fmt.Errorf("the field manager %.100q is not allowed: it must begin with %s and have at "+
			"most 90 characters", m, workv1.DefaultFieldManager)
	}
	for _, f := range config.IgnoreFields {
		// Whether a field is found by comparing values, and how long that takes, would reveal the
		// values of a Secret to the hub.
		if texts := slices.Concat(f.JSONPaths, f.JQPathExpressions); o.Guarded && len(texts) > 0 {
			return with, &fields.Error{Path: texts[0], Err: errors.New(
				"rules must not read Secrets: name the field in jsonPointers, or start the agent with " +
					"--secret-feedback")}
		}
	}
	var live *unstructured.Unstructured
	if o.Served && fields.NeedsLive(config.IgnoreFields) {
		live, err = id.read(ctx, &o.Manifest, o.Resource.Version)
		if err != nil && !apierrors.IsNotFound(err) {
			return with, fmt.Errorf("read %s: %w", o.Key, err)
		}
	}
	err = fields.Ignored(ctx, o.Object, live, config.IgnoreFields, &with)
	return with, err
}
