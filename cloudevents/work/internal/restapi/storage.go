// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package restapi

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/clientset"
)

// storage implements the interfaces of the API server's handlers with the verbs of a clientset. It
// receives unstructured objects, since their JSON shows what a client has omitted, and returns typed
// objects, since these need no conversion.
type storage struct {
	rest.TableConvertor
	clientset   workclientset.Interface
	subresource clientset.Subresource
	checks      bool // whether the functions that check objects do anything: authorization and admission
}

var (
	_ rest.StandardStorage = &storage{}
	_ rest.Patcher         = &storage{}
)

func newStorage(c workclientset.Interface, sub clientset.Subresource, checks bool) *storage {
	return &storage{tables{}, c, sub, checks}
}

func (s *storage) verbs(ctx context.Context) clientset.Verbs {
	v, _ := clientset.VerbsOf(s.clientset, request.NamespaceValue(ctx))
	return v
}

// New implements [rest.Storage].
func (*storage) New() runtime.Object {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(ownType.APIVersion)
	u.SetKind(ownType.Kind) // for errors
	return u
}

// NewList implements [rest.Lister].
func (*storage) NewList() runtime.Object { return &workv1.ManifestWorkList{} }

// Destroy implements [rest.Storage]. The owner of the source or the agent ends it.
func (*storage) Destroy() {}

// NamespaceScoped implements [rest.Scoper].
func (*storage) NamespaceScoped() bool { return true }

// GetSingularName implements [rest.SingularNameProvider].
func (*storage) GetSingularName() string { return "manifestwork" }

// Get implements [rest.Getter].
func (s *storage) Get(ctx context.Context, name string, o *metav1.GetOptions) (runtime.Object, error) {
	if err := inPath("Name", name); err != nil {
		return nil, err
	}
	return result(s.verbs(ctx).Get(ctx, name, *o))
}

// List implements [rest.Lister].
func (s *storage) List(ctx context.Context, o *internalversion.ListOptions) (runtime.Object, error) {
	options, err := external(o)
	if err != nil {
		return nil, err
	}
	works, meta, err := s.verbs(ctx).List(ctx, options)
	if err != nil {
		return nil, asStatus(err)
	}
	list := &workv1.ManifestWorkList{ListMeta: meta, Items: make([]workv1.ManifestWork, len(works))}
	for i, w := range works {
		list.Items[i] = *w
		list.Items[i].TypeMeta = ownType
	}
	return list, nil
}

// Watch implements [rest.Watcher].
func (s *storage) Watch(ctx context.Context, o *internalversion.ListOptions) (watch.Interface, error) {
	options, err := external(o)
	if err != nil {
		return nil, err
	}
	w, err := s.verbs(ctx).Watch(ctx, options)
	return w, asStatus(err)
}

func external(o *internalversion.ListOptions) (out metav1.ListOptions, err error) {
	if err := internalversion.Convert_internalversion_ListOptions_To_v1_ListOptions(o, &out, nil); err != nil {
		return out, apierrors.NewBadRequest(err.Error())
	}
	return out, nil
}

// Create implements the creation of [rest.StandardStorage].
func (s *storage) Create(
	ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, o *metav1.CreateOptions,
) (runtime.Object, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil, clientset.InternalError("create: received unexpected type %T", obj)
	}
	return s.create(ctx, u, validate, clientset.Create{DryRun: len(o.DryRun) > 0})
}

func (s *storage) create(
	ctx context.Context, u *unstructured.Unstructured, validate rest.ValidateObjectFunc, c clientset.Create,
) (runtime.Object, error) {
	if s.checks {
		c.Check = func(next *workv1.ManifestWork) error {
			return validate(ctx, next.DeepCopy())
		}
	}
	return result(s.verbs(ctx).Create(ctx, u, c))
}

// Update implements [rest.Updater].
func (s *storage) Update(
	ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, forceAllowCreate bool, o *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	if err := inPath("Name", name); err != nil {
		return nil, false, err
	}
	verbs := s.verbs(ctx)
	patch := false
	if of, ok := request.RequestInfoFrom(ctx); ok {
		patch = of.Verb == "patch"
	}
	next := func(live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		obj, err := info.UpdatedObject(ctx, live)
		if err != nil {
			return nil, err
		}
		u, ok := obj.(*unstructured.Unstructured)
		if !ok {
			return nil, clientset.InternalError("update: received unexpected type %T", obj)
		}
		return u, nil
	}
	change := clientset.Update{
		Subresource: s.subresource, DryRun: len(o.DryRun) > 0,
		Patch: patch, Apply: forceAllowCreate, Next: next,
	}
	if s.checks {
		change.Check = func(next, live *workv1.ManifestWork) error {
			return update(ctx, next.DeepCopy(), live.DeepCopy())
		}
	}
	creates := forceAllowCreate && s.subresource == "" && verbs.Supports("create", "") == nil
	for {
		out, err := verbs.Update(ctx, name, change)
		if !creates || !apierrors.IsNotFound(err) {
			obj, err := result(out, err)
			return obj, false, err
		}
		obj, err := next(&unstructured.Unstructured{Object: map[string]any{}})
		if err != nil {
			return nil, false, err
		}
		created, err := s.create(ctx, obj, create, clientset.Create{DryRun: change.DryRun, Apply: true})
		if !apierrors.IsAlreadyExists(err) { // otherwise another apply was faster
			return created, err == nil, err
		}
	}
}

// Delete implements [rest.GracefulDeleter]. A work that its agent must clean up is returned: it is
// deleted later.
func (s *storage) Delete(
	ctx context.Context, name string, validate rest.ValidateObjectFunc, o *metav1.DeleteOptions,
) (runtime.Object, bool, error) {
	if err := inPath("Name", name); err != nil {
		return nil, false, err
	}
	verbs := s.verbs(ctx)
	if err := verbs.Supports("delete", s.subresource); err != nil {
		return nil, false, err
	}
	last, err := s.delete(ctx, verbs, name, validate, o)
	obj, err := result(last, err)
	return obj, err == nil && len(last.Finalizers) == 0, err
}

// delete deletes the version that validate has accepted. It starts again after a concurrent write.
func (s *storage) delete(
	ctx context.Context, verbs clientset.Verbs, name string, validate rest.ValidateObjectFunc, o *metav1.DeleteOptions,
) (*workv1.ManifestWork, error) {
	if !s.checks {
		return verbs.Delete(ctx, name, *o)
	}
	live, err := verbs.Get(ctx, name, metav1.GetOptions{})
	for err == nil {
		if err := validate(ctx, live.DeepCopy()); err != nil {
			return nil, err
		}
		accepted := o.DeepCopy()
		accepted.IgnoreStoreReadErrorWithClusterBreakingPotential = nil // not with preconditions; works can be read
		if accepted.Preconditions == nil {
			accepted.Preconditions = &metav1.Preconditions{}
		}
		if accepted.Preconditions.ResourceVersion == nil {
			accepted.Preconditions.ResourceVersion = &live.ResourceVersion
		}
		last, failed := verbs.Delete(ctx, name, *accepted)
		if !apierrors.IsConflict(failed) {
			return last, failed
		}
		before := live.ResourceVersion
		if live, err = verbs.Get(ctx, name, metav1.GetOptions{}); err == nil && live.ResourceVersion == before {
			return nil, failed // a precondition of the request
		}
	}
	return nil, err
}

// GetCorruptObjDeleter implements [rest.CorruptObjectDeleterProvider]: all objects can be read.
func (s *storage) GetCorruptObjDeleter() rest.GracefulDeleter { return s }

// DeleteReturnsDeletedObject implements [rest.MayReturnFullObjectDeleter].
func (*storage) DeleteReturnsDeletedObject() bool { return false }

// DeleteCollection implements [rest.CollectionDeleter].
func (s *storage) DeleteCollection(
	ctx context.Context, validate rest.ValidateObjectFunc, o *metav1.DeleteOptions, lo *internalversion.ListOptions,
) (runtime.Object, error) {
	if err := s.verbs(ctx).Supports("deletecollection", s.subresource); err != nil {
		return nil, err
	}
	obj, err := s.List(ctx, lo)
	if err != nil {
		return nil, err
	}
	list, _ := obj.(*workv1.ManifestWorkList)
	for i := range list.Items {
		if _, _, err := s.Delete(ctx, list.Items[i].Name, validate, o.DeepCopy()); err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
	}
	return list, nil
}

var ownType = metav1.TypeMeta{APIVersion: workv1.GroupName + "/v1", Kind: clientset.Kind.Kind}

// result returns a shallow copy of a snapshot: encoders set the kind.
func result(w *workv1.ManifestWork, err error) (runtime.Object, error) {
	if err != nil {
		return nil, asStatus(err)
	}
	out := *w
	out.TypeMeta = ownType
	return &out, nil
}
