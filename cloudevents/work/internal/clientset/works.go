// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package clientset

import (
	"context"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"
)

// maxCommits bounds the attempts of a write without a resourceVersion against concurrent writers.
const maxCommits = 1000

// works is the client for the works of one namespace.
type works struct {
	worktyped.ManifestWorkExpansion
	backend   Backend
	namespace string
}

var _ worktyped.ManifestWorkInterface = &works{}

// Get returns a copy of the object, or NotFound. If the object does not exist, Get first waits for
// the initial sync: an agent may not have received the object yet.
func (w *works) Get(ctx context.Context, name string, opts metav1.GetOptions) (*workv1.ManifestWork, error) {
	obj, err := w.get(ctx, name, opts)
	return obj.DeepCopy(), err
}

func (w *works) get(ctx context.Context, name string, opts metav1.GetOptions) (*workv1.ManifestWork, error) {
	if err := w.named(ctx, "get", name); err != nil {
		return nil, err
	}
	version, err := parseVersion(opts.ResourceVersion)
	if err != nil {
		return nil, InternalError("resourceVersion: Invalid value: %q: %v", opts.ResourceVersion, err)
	}
	if version > 0 {
		if err := w.backend.Reached(ctx, version); err != nil {
			return nil, err
		}
	}
	return w.find(ctx, name)
}

// find returns the current snapshot, or NotFound if there is none after the initial sync.
func (w *works) find(ctx context.Context, name string) (*workv1.ManifestWork, error) {
	if obj := w.backend.Object(w.namespace, name); obj != nil {
		return obj, nil
	}
	if err := w.backend.WaitSynced(ctx); err != nil {
		return nil, err
	}
	if obj := w.backend.Object(w.namespace, name); obj != nil {
		return obj, nil
	}
	return nil, apierrors.NewNotFound(Resource, name)
}

// Create adds an object.
func (w *works) Create(
	ctx context.Context, obj *workv1.ManifestWork, opts metav1.CreateOptions,
) (*workv1.ManifestWork, error) {
	if err := w.begin(ctx, "create", whole); err != nil {
		return nil, err
	}
	if err := checkCreateOptions(&opts); err != nil {
		return nil, err
	}
	if w.namespace == "" {
		return nil, noSuchPath("post", "")
	}
	if obj == nil {
		return nil, apierrors.NewBadRequest("the ManifestWork must not be nil")
	}
	in := obj.DeepCopy()
	in.ManagedFields = nil
	tidy(&in.ObjectMeta)
	if err := w.place(in); err != nil {
		return nil, err
	}
	out, err := w.backend.Create(ctx, in, Create{DryRun: len(opts.DryRun) > 0})
	if err != nil {
		return nil, err
	}
	return out.DeepCopy(), nil
}

// place sets the namespace of an object. It returns an error if the object has another namespace
// than the client.
func (w *works) place(obj *workv1.ManifestWork) error {
	if obj.Namespace != "" && obj.Namespace != w.namespace {
		return otherNamespace()
	}
	obj.Namespace = w.namespace
	return nil
}

func otherNamespace() error {
	return apierrors.NewBadRequest(
		"the namespace of the provided object does not match the namespace sent on the request")
}

// Update replaces spec and metadata.
func (w *works) Update(
	ctx context.Context, obj *workv1.ManifestWork, opts metav1.UpdateOptions,
) (*workv1.ManifestWork, error) {
	return w.replace(ctx, obj, opts, whole)
}

// UpdateStatus replaces the status.
func (w *works) UpdateStatus(
	ctx context.Context, obj *workv1.ManifestWork, opts metav1.UpdateOptions,
) (*workv1.ManifestWork, error) {
	return w.replace(ctx, obj, opts, StatusPart)
}

func (w *works) replace(
	ctx context.Context, obj *workv1.ManifestWork, opts metav1.UpdateOptions, sub Subresource,
) (*workv1.ManifestWork, error) {
	if err := w.begin(ctx, "update", sub); err != nil {
		return nil, err
	}
	if err := checkUpdateOptions(&opts); err != nil {
		return nil, err
	}
	if obj == nil {
		return nil, apierrors.NewBadRequest("the ManifestWork must not be nil")
	}
	if err := w.named(ctx, "put", obj.Name); err != nil {
		return nil, err
	}
	in := obj.DeepCopy()
	in.TypeMeta = ownType // as a typed client sends it
	if err := w.place(in); err != nil {
		return nil, err
	}
	if err := Normalize(in); err != nil {
		return nil, err
	}
	o := changeOptions{sub: sub, dryRun: len(opts.DryRun) > 0, manager: opts.FieldManager}
	out, err := w.mutate(ctx, in.Name, o, func(*workv1.ManifestWork) (*workv1.ManifestWork, field.ErrorList, error) {
		next := *in // Admit edits it, and a second attempt may follow
		return &next, nil, nil
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		if unread := unreadable(&in.Spec); unread != nil {
			return nil, unread // the API server decodes the request before it looks up the object
		}
	}
	return out, err
}

// changeOptions configure a change.
type changeOptions struct {
	sub     Subresource
	dryRun  bool
	manager string // field manager; empty for the name of the process
	patched bool   // the change is a patch of any type
	applied bool   // the change is a server-side apply
	managed bool   // the change sets managedFields
	// check may refuse the complete next state. It may be nil.
	check func(next, current *workv1.ManifestWork) error
}

// change returns the next state of an object. The schema errors are returned separately: as on the
// API server, an outdated version is reported first.
type change func(current *workv1.ManifestWork) (next *workv1.ManifestWork, invalid field.ErrorList, err error)

// mutate is commit, and returns a copy.
func (w *works) mutate(ctx context.Context, name string, o changeOptions, change change) (*workv1.ManifestWork, error) {
	out, err := w.commit(ctx, name, o, change)
	return out.DeepCopy(), err
}

// commit makes a change of the current snapshot and returns the new one. It starts again if another
// writer was faster.
func (w *works) commit(ctx context.Context, name string, o changeOptions, change change) (*workv1.ManifestWork, error) {
	refresher := NewRefresher(w.backend.Refresh, o.dryRun)
	for range maxCommits {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		current, err := w.find(ctx, name)
		if apierrors.IsNotFound(err) {
			if again, err := refresher.Again(ctx); err != nil {
				return nil, err
			} else if again {
				continue
			}
		}
		if err != nil {
			return nil, err
		}
		next, invalid, err := change(current)
		if err != nil {
			return nil, err
		}
		if err := precondition(current, next, o); err != nil {
			return nil, err
		}
		if err := w.admit(current, next, o, invalid); err != nil {
			return nil, err
		}
		if o.check != nil {
			if err := o.check(next, current); err != nil {
				return nil, err
			}
		}
		if unchanged(current, next) {
			if again, err := refresher.Again(ctx); err != nil {
				return nil, err
			} else if again {
				continue
			}
			if !o.dryRun { // current may not be in the Store yet
				if err := w.backend.WaitDurable(ctx); err != nil {
					return nil, err
				}
			}
			return current, nil
		}
		if o.dryRun {
			return next, nil
		}
		out, ok, err := w.backend.Commit(ctx, current, next)
		if err != nil {
			return nil, err
		}
		if ok {
			return out, nil
		}
	}
	return nil, conflict(name)
}

// admit completes the metadata of the next state and checks it.
func (w *works) admit(current, next *workv1.ManifestWork, o changeOptions, invalid field.ErrorList) error {
	managed := next.ManagedFields
	tidy(&next.ObjectMeta)
	KeepEqualManifests(&current.Spec, &next.Spec)
	if err := w.backend.Admit(current, next, o.sub, invalid); err != nil {
		return err
	}
	switch {
	case o.managed:
		next.ManagedFields = managed
	case len(current.ManagedFields) > 0:
		next.ManagedFields = managed
		track(current, next, o.sub, managerOrProcess(o.manager))
	}
	return nil
}

// precondition checks uid and resourceVersion of a change against the current object. An apply may
// have no version. A patch with another uid is no precondition: it tries to change the uid.
func precondition(current, next *workv1.ManifestWork, o changeOptions) error {
	if next.UID != "" && next.UID != current.UID && !o.patched {
		return apierrors.NewConflict(Resource, current.Name, fmt.Errorf( //nolint:staticcheck // as the API server has it
			"Precondition failed: UID in precondition: %v, UID in object meta: %v", next.UID, current.UID))
	}
	if next.ResourceVersion == current.ResourceVersion || next.ResourceVersion == "" && o.applied {
		return nil
	}
	switch version, err := parseVersion(next.ResourceVersion); {
	case err != nil:
		return InternalError("%v", err)
	case version == 0:
		return versionMissing(current.Name)
	}
	return conflict(current.Name)
}

func versionMissing(name string) error {
	asResource := schema.GroupKind{Group: Resource.Group, Kind: Resource.Resource} // as the API server has it here
	return apierrors.NewInvalid(asResource, name, field.ErrorList{field.Invalid(
		field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update")})
}

func conflict(name string) error {
	return apierrors.NewConflict(Resource, name, fmt.Errorf(
		"the object has been modified; please apply your changes to the latest version and try again"))
}

// Delete begins the deletion of an object.
func (w *works) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	_, err := w.remove(ctx, name, opts)
	return err
}

// remove begins the deletion of an object and returns its last state.
func (w *works) remove(ctx context.Context, name string, opts metav1.DeleteOptions) (*workv1.ManifestWork, error) {
	if err := w.begin(ctx, "delete", whole); err != nil {
		return nil, err
	}
	if err := checkDeleteOptions(&opts); err != nil {
		return nil, err
	}
	if err := w.named(ctx, "delete", name); err != nil {
		return nil, err
	}
	refresher := NewRefresher(w.backend.Refresh, len(opts.DryRun) > 0)
	for range maxCommits {
		current := w.backend.Object(w.namespace, name)
		if current == nil || current.DeletionTimestamp != nil {
			if again, err := refresher.Again(ctx); err != nil {
				return nil, err
			} else if again {
				continue
			}
		}
		if current == nil {
			return nil, apierrors.NewNotFound(Resource, name)
		}
		if err := deletable(current, opts.Preconditions); err != nil {
			return nil, err
		}
		if last, ok, err := w.backend.Remove(ctx, current, len(opts.DryRun) > 0); ok || err != nil {
			return last, err
		}
	}
	return nil, conflict(name)
}

func deletable(current *workv1.ManifestWork, p *metav1.Preconditions) error {
	if p == nil {
		return nil
	}
	of := schema.GroupResource{Group: Kind.Group, Resource: Kind.Kind} // as the API server has it here
	if p.UID != nil && *p.UID != current.UID {
		return apierrors.NewConflict(of, current.Name, fmt.Errorf("the UID in the precondition (%s) does not match "+
			"the UID in record (%s). The object might have been deleted and then recreated", *p.UID, current.UID))
	}
	if p.ResourceVersion != nil && *p.ResourceVersion != current.ResourceVersion {
		return apierrors.NewConflict(of, current.Name, fmt.Errorf("the ResourceVersion in the precondition (%s) does not "+
			"match the ResourceVersion in record (%s). The object might have been modified",
			*p.ResourceVersion, current.ResourceVersion))
	}
	return nil
}

// DeleteCollection begins the deletion of all objects that the list options select.
func (w *works) DeleteCollection(ctx context.Context, opts metav1.DeleteOptions, listOpts metav1.ListOptions) error {
	if err := w.begin(ctx, "deletecollection", whole); err != nil {
		return err
	}
	if err := checkDeleteOptions(&opts); err != nil {
		return err
	}
	if w.namespace == "" {
		return noSuchPath("delete", "")
	}
	list, err := w.List(ctx, listOpts)
	if err != nil {
		return err
	}
	for i := range list.Items {
		if err := w.Delete(ctx, list.Items[i].Name, opts); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// begin runs the checks of every write.
func (w *works) begin(ctx context.Context, verb string, sub Subresource) error {
	if err := w.reachable(ctx); err != nil {
		return err
	}
	return w.backend.Supports(verb, sub)
}

// reachable runs the checks of every verb.
func (w *works) reachable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return inPath("namespace", w.namespace)
}

// named runs the checks of every verb on one object.
func (w *works) named(ctx context.Context, method, name string) error {
	if err := w.reachable(ctx); err != nil {
		return err
	}
	if name == "" {
		return fmt.Errorf("resource name may not be empty")
	}
	if err := inPath("resource name", name); err != nil {
		return err
	}
	if w.namespace == "" {
		return noSuchPath(method, name)
	}
	return nil
}

// inPath returns the error of client-go for a value that cannot be part of a URL's path. client-go
// sends no request then.
func inPath(what, value string) error {
	if wrong := content.IsPathSegmentName(value); len(wrong) > 0 {
		return fmt.Errorf("invalid %s %q: %v", what, value, wrong)
	}
	return nil
}

// noSuchPath returns the API server's error for a request without the required namespace.
func noSuchPath(method, name string) error {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, method, Resource, name, "404 page not found", 0, true)
}

// InternalError returns the error of an API server with an internal failure. It has no reason.
func InternalError(format string, args ...any) error { return asStatus(fmt.Errorf(format, args...)) }
