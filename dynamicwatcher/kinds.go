// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"
)

// ScopedGVR is the resource of a kind.
type ScopedGVR struct {
	schema.GroupVersionResource
	// Namespaced is whether its objects are in namespaces.
	Namespaced bool
}

// kinds caches the resources of kinds. Concurrent callers share the request for a group version.
type kinds struct {
	discovery discovery.DiscoveryInterfaceWithContext
	mapper    meta.RESTMapper // replaces discovery if it is set
	clock     clock.PassiveClock
	ttl       time.Duration
	missing   time.Duration
	flights   singleflight.Group
	ctx       context.Context // of the requests, which may outlast their callers
	cancel    context.CancelFunc
	group     sync.WaitGroup // of the requests

	mu     sync.Mutex
	closed bool
	groups map[schema.GroupVersion]*groupVersion
	names  map[schema.GroupKind]string // of resources that existed once
}

// groupVersion is a cached answer. It does not change.
type groupVersion struct {
	resources map[string]metav1.APIResource // by kind
	asked     time.Time
}

func newKinds(
	d discovery.DiscoveryInterfaceWithContext, mapper meta.RESTMapper, o ObjectCacheOptions, c clock.PassiveClock,
) *kinds {
	ctx, cancel := context.WithCancel(context.Background())
	return &kinds{
		ctx: ctx, cancel: cancel, discovery: d, mapper: mapper, clock: c,
		ttl: o.GVKToGVRCacheTTL, missing: o.MissingAPIResourceCacheTTL,
		groups: map[schema.GroupVersion]*groupVersion{}, names: map[schema.GroupKind]string{},
	}
}

// resolve returns the resource of a kind, a [*KindError], or the error of the request.
func (k *kinds) resolve(ctx context.Context, gvk schema.GroupVersionKind) (ScopedGVR, error) {
	if k.mapper != nil {
		return k.mapped(gvk)
	}
	if gvr, ok, err := k.known(gvk); ok {
		return gvr, err
	}
	if (ObjectIdentifier{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind}).validateParts() != nil {
		return ScopedGVR{}, &KindError{Kind: gvk, Reason: ErrNoVersionedResource} // impossible kind: no request
	}
	flight := k.flights.DoChan(gvk.GroupVersion().String(), func() (any, error) {
		if !k.begin() {
			return nil, errStopped
		}
		defer k.group.Done()
		return k.ask(k.ctx, gvk.GroupVersion())
	})
	select {
	case result := <-flight:
		if result.Err != nil {
			return ScopedGVR{}, fmt.Errorf("look up %s: %w", gvk, result.Err)
		}
		return result.Val.(*groupVersion).find(gvk) // even if it was forgotten meanwhile
	case <-ctx.Done():
		return ScopedGVR{}, fmt.Errorf("look up %s: %w", gvk, ctx.Err())
	}
}

func (k *kinds) begin() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.closed {
		k.group.Add(1)
	}
	return !k.closed
}

func (k *kinds) close() {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.cancel()
	k.group.Wait()
}

// maxGroups limits the cached group versions, including those that do not exist.
const maxGroups = 1000

// lookupTimeout limits one request for a group version.
const lookupTimeout = 10 * time.Second

func (k *kinds) ask(ctx context.Context, gv schema.GroupVersion) (*groupVersion, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	list, err := k.discovery.ServerResourcesForGroupVersionWithContext(ctx, gv.String())
	switch {
	case apierrors.IsNotFound(err):
		list = &metav1.APIResourceList{}
	case err != nil:
		return nil, err
	}
	g := &groupVersion{resources: map[string]metav1.APIResource{}, asked: k.clock.Now()}
	for _, r := range list.APIResources {
		if r.Kind != "" && !strings.Contains(r.Name, "/") { // not a subresource
			g.resources[r.Kind] = r
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(g.resources) == 0 { // absence is cached for a limited time
		maps.DeleteFunc(k.groups, func(_ schema.GroupVersion, old *groupVersion) bool {
			return len(old.resources) == 0 && k.clock.Since(old.asked) >= k.missing
		})
		if k.missing == 0 || len(k.groups) >= maxGroups {
			delete(k.groups, gv)
			return g, nil
		}
	}
	k.groups[gv] = g
	for kind, r := range g.resources {
		k.names[schema.GroupKind{Group: gv.Group, Kind: kind}] = r.Name
	}
	return g, nil
}

// name returns the name of the resource of a kind: its last known name, or a guess.
func (k *kinds) name(gk schema.GroupKind) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if name, ok := k.names[gk]; ok {
		return name
	}
	guess, _ := meta.UnsafeGuessKindToResource(gk.WithVersion(""))
	return guess.Resource
}

// known returns the cached resource of a kind, if it is fresh.
func (k *kinds) known(gvk schema.GroupVersionKind) (gvr ScopedGVR, ok bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	g := k.groups[gvk.GroupVersion()]
	if g == nil {
		return ScopedGVR{}, false, nil
	}
	gvr, err = g.find(gvk)
	fresh := k.ttl
	if _, there := g.resources[gvk.Kind]; !there {
		fresh = k.missing
	}
	return gvr, k.clock.Since(g.asked) < fresh, err
}

func (g *groupVersion) find(gvk schema.GroupVersionKind) (ScopedGVR, error) {
	r, ok := g.resources[gvk.Kind]
	switch {
	case !ok:
		return ScopedGVR{}, &KindError{Kind: gvk, Reason: ErrNoVersionedResource}
	case len(r.Verbs) > 0 && !slices.Contains(r.Verbs, "watch"): // fakes leave the verbs out
		return ScopedGVR{}, &KindError{Kind: gvk, Reason: ErrResourceUnwatchable}
	}
	return ScopedGVR{gvk.GroupVersion().WithResource(r.Name), r.Namespaced}, nil
}

func (k *kinds) forget(gv schema.GroupVersion) {
	k.mu.Lock()
	delete(k.groups, gv)
	k.mu.Unlock()
	if r, ok := k.mapper.(meta.ResettableRESTMapper); ok {
		r.Reset()
	}
}

func (k *kinds) forgetAll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.groups)
}

func (k *kinds) mapped(gvk schema.GroupVersionKind) (ScopedGVR, error) {
	m, err := k.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	switch {
	case meta.IsNoMatchError(err):
		return ScopedGVR{}, &KindError{Kind: gvk, Reason: ErrNoVersionedResource}
	case err != nil:
		return ScopedGVR{}, fmt.Errorf("look up %s: %w", gvk, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.names[gvk.GroupKind()] = m.Resource.Resource
	return ScopedGVR{m.Resource, m.Scope.Name() == meta.RESTScopeNameNamespace}, nil
}
