// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kind is how a cluster serves a kind.
type kind struct {
	resource   schema.GroupVersionResource
	namespaced bool
	patched    bool // whether objects can be patched, which apply requires
}

// kinds caches the kinds that a cluster serves.
type kinds struct {
	mu     sync.Mutex
	served map[schema.GroupVersionKind]kind
}

// errNotServed is returned when the cluster has just answered that it does not serve a kind.
var errNotServed = errors.New("the cluster does not serve this kind")

// otherVersionError is errNotServed for a version only.
type otherVersionError struct{ want, served string }

func (e *otherVersionError) Error() string {
	return fmt.Sprintf("the cluster does not serve this kind in version %q, but in %q", e.want, e.served)
}

// find returns the kind in this version, or in any version if it is empty. It sends requests only
// if fresh is set or the kind is not cached, and only for that group.
func (k *kinds) find(ctx context.Context, cl *client, gvk schema.GroupVersionKind, fresh bool) (kind, error) {
	if !fresh {
		k.mu.Lock()
		found, ok := k.served[gvk]
		k.mu.Unlock()
		if ok {
			return found, nil
		}
	}
	k.forget(gvk)
	if gvk.Version != "" {
		found, err := k.ask(ctx, cl, gvk)
		if err == nil || !errors.Is(err, errNotServed) {
			return found, err
		}
	}
	versions, err := cl.versions(ctx, gvk.Group)
	if err != nil {
		return kind{}, err
	}
	for _, version := range versions {
		if version == gvk.Version {
			continue
		}
		found, err := k.ask(ctx, cl, gvk.GroupKind().WithVersion(version))
		switch {
		case err == nil && gvk.Version != "":
			return found, &otherVersionError{gvk.Version, version}
		case err == nil || !errors.Is(err, errNotServed):
			return found, err
		}
	}
	return kind{}, errNotServed
}

func (k *kinds) forget(gvk schema.GroupVersionKind) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.served, gvk)
}

// ask requests the resources of a group and version.
func (k *kinds) ask(ctx context.Context, cl *client, gvk schema.GroupVersionKind) (kind, error) {
	var list metav1.APIResourceList
	switch err := cl.rest.Get().AbsPath(apiPath(gvk.GroupVersion())...).MaxRetries(0).Do(ctx).Into(&list); {
	case apierrors.IsNotFound(err):
		return kind{}, errNotServed
	case err != nil:
		return kind{}, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.served == nil {
		k.served = map[schema.GroupVersionKind]kind{}
	}
	gv := gvk.GroupVersion()
	for i := range list.APIResources {
		r := &list.APIResources[i]
		if !strings.Contains(r.Name, "/") {
			k.served[gv.WithKind(r.Kind)] = kind{gv.WithResource(r.Name), r.Namespaced, slices.Contains(r.Verbs, "patch")}
		}
	}
	if found, ok := k.served[gvk]; ok {
		return found, nil
	}
	return kind{}, errNotServed
}

// versions returns the versions of a group, the preferred version first.
func (cl *client) versions(ctx context.Context, group string) ([]string, error) {
	if group == "" {
		return []string{"v1"}, nil
	}
	var found metav1.APIGroup
	switch err := cl.rest.Get().AbsPath("/apis", group).MaxRetries(0).Do(ctx).Into(&found); {
	case apierrors.IsNotFound(err):
		return nil, errNotServed
	case err != nil:
		return nil, err
	}
	versions := []string{found.PreferredVersion.Version}
	for _, v := range found.Versions {
		versions = append(versions, v.Version)
	}
	slices.Sort(versions[1:])
	return slices.Compact(versions), nil
}

// pathGone reports whether nothing is served at a path. Then an answer has no Status.
func pathGone(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
