// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package discovery finds the resources of kinds, as the discovery of an API server reports them.
package discovery

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
)

// MaxAge is the maximum age of an answer that a kind does not exist. An answer that a kind exists
// is valid until a request for it fails.
const MaxAge = time.Second

// Mapping has the resource of a kind, and its properties.
type Mapping struct {
	Resource   schema.GroupVersionResource
	Kind       string
	Namespaced bool
	Verbs      metav1.Verbs
}

// GroupKind returns the kind without a version.
func (m Mapping) GroupKind() schema.GroupKind {
	return schema.GroupKind{Group: m.Resource.Group, Kind: m.Kind}
}

func mappingOf(gv schema.GroupVersion, r metav1.APIResource) Mapping {
	return Mapping{Resource: gv.WithResource(r.Name), Kind: r.Kind, Namespaced: r.Namespaced, Verbs: r.Verbs}
}

// Client is the part of client-go's discovery.DiscoveryInterfaceWithContext that a [Cache] needs. A
// client for aggregated discovery makes fewer requests.
type Client interface {
	ServerGroupsWithContext(ctx context.Context) (*metav1.APIGroupList, error)
	ServerResourcesForGroupVersionWithContext(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error)
}

// Cache stores the answers of discovery. All methods may be called concurrently. A slow server of a
// group delays only the callers that need that group.
type Cache struct {
	client    Client
	clock     clock.PassiveClock
	notServed func(schema.GroupKind) error

	mu       sync.Mutex
	versions map[schema.GroupVersion]versionAnswer
	groups   groupsAnswer
	calls    map[schema.GroupVersion]*call // requests in progress; the request for all groups has no version
}

type versionAnswer struct {
	resources []metav1.APIResource // empty if the version is not served
	at        time.Time
}

type groupsAnswer struct {
	groups map[string]metav1.APIGroup
	away   []schema.GroupVersion // versions without a server; without a version, the whole group
	at     time.Time
}

// errAway: the server of a group version does not answer, so it is unknown what the version has.
var errAway = errors.New("the API server of a version does not answer")

// call is a request that several callers wait for.
type call struct {
	done      chan struct{}
	err       error // valid when done is closed
	cancelled bool  // the context of the caller that made the request has ended; valid when done is closed
	forgotten bool  // the answer may be from before the last Forget; guarded by Cache.mu
}

var allGroups schema.GroupVersion

// New returns an empty Cache. The function notServed returns the error for a kind that is not served.
func New(client Client, c clock.PassiveClock, notServed func(schema.GroupKind) error) *Cache {
	return &Cache{
		client: client, clock: c, notServed: notServed,
		versions: map[schema.GroupVersion]versionAnswer{}, calls: map[schema.GroupVersion]*call{},
	}
}

// ask makes a request, or waits for the same request of another caller. The function request
// returns a function that stores the answer, which ask calls with mu locked.
func (k *Cache) ask(ctx context.Context, what schema.GroupVersion, request func() (store func(), err error)) error {
	for {
		k.mu.Lock()
		c, underWay := k.calls[what]
		if !underWay {
			c = &call{done: make(chan struct{})}
			k.calls[what] = c
		}
		k.mu.Unlock()
		if !underWay {
			return k.lead(ctx, what, c, request)
		}
		select {
		case <-c.done:
			if !c.cancelled {
				return c.err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (k *Cache) lead(ctx context.Context, what schema.GroupVersion, c *call, request func() (func(), error)) error {
	store, err := request()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.calls[what] == c {
		delete(k.calls, what)
	}
	if err == nil && !c.forgotten {
		store()
	}
	c.err, c.cancelled = err, err != nil && ctx.Err() != nil
	close(c.done)
	return err
}

// Resolve returns the mapping of a kind in the given version, otherwise in the preferred version of
// the server, otherwise in any other. The error is that of notServed if a fresh answer has the kind
// in no version.
func (k *Cache) Resolve(ctx context.Context, gk schema.GroupKind, version string) (Mapping, error) {
	return k.find(ctx, gk, version, func(r metav1.APIResource) bool { return r.Kind == gk.Kind })
}

// ResolveResource is Resolve for a resource without a known kind.
func (k *Cache) ResolveResource(ctx context.Context, gr schema.GroupResource, version string) (Mapping, error) {
	gk := schema.GroupKind{Group: gr.Group, Kind: gr.Resource}
	return k.find(ctx, gk, version, func(r metav1.APIResource) bool { return r.Name == gr.Resource })
}

func (k *Cache) find(
	ctx context.Context, gk schema.GroupKind, version string, is func(metav1.APIResource) bool,
) (Mapping, error) {
	tried := map[string]bool{}
	try := func(version string) (Mapping, bool, error) {
		if version == "" || tried[version] {
			return Mapping{}, false, nil
		}
		tried[version] = true
		return k.inVersion(ctx, schema.GroupVersion{Group: gk.Group, Version: version}, is)
	}
	if m, ok, err := try(version); ok || err != nil {
		return m, err
	}
	answer, err := k.groupsNow(ctx)
	if err != nil {
		return Mapping{}, err
	}
	group := answer.groups[gk.Group]
	if m, ok, err := try(group.PreferredVersion.Version); ok || err != nil {
		return m, err
	}
	for _, v := range group.Versions {
		if m, ok, err := try(v.Version); ok || err != nil {
			return m, err
		}
	}
	if slices.ContainsFunc(answer.away, func(gv schema.GroupVersion) bool { return gv.Group == gk.Group }) {
		return Mapping{}, fmt.Errorf("discover %s: %w", gk, errAway)
	}
	return Mapping{}, k.notServed(gk)
}

func (k *Cache) inVersion(
	ctx context.Context, gv schema.GroupVersion, is func(metav1.APIResource) bool,
) (Mapping, bool, error) {
	began, i := k.clock.Now(), -1
	resources, err := k.resourcesOf(ctx, gv, func(a versionAnswer) bool {
		i = slices.IndexFunc(a.resources, func(r metav1.APIResource) bool { return is(r) && !isSubresource(r) })
		return i >= 0 || k.isFresh(a.at, began)
	})
	if err != nil || i < 0 {
		return Mapping{}, false, err
	}
	return mappingOf(gv, resources[i]), true, nil
}

// isFresh reports whether an answer proves that a kind does not exist, to a call that has begun.
func (k *Cache) isFresh(at, began time.Time) bool {
	return !at.Before(began) || k.clock.Since(at) < MaxAge
}

func isSubresource(r metav1.APIResource) bool { return strings.Contains(r.Name, "/") }

func (k *Cache) askVersion(ctx context.Context, gv schema.GroupVersion) error {
	return k.ask(ctx, gv, func() (func(), error) {
		answer := versionAnswer{at: k.clock.Now()}
		list, err := k.client.ServerResourcesForGroupVersionWithContext(ctx, gv.String())
		switch {
		case err == nil:
			answer.resources = list.APIResources
		case !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("discover the resources of %s: %w", gv, err)
		}
		return func() {
			maps.DeleteFunc(k.versions, func(_ schema.GroupVersion, a versionAnswer) bool {
				return len(a.resources) == 0 && answer.at.Sub(a.at) >= MaxAge // unlimited: from manifests
			})
			k.versions[gv] = answer
		}, nil
	})
}

// resourcesOf returns the resources of a version, from the first answer that accept accepts.
func (k *Cache) resourcesOf(
	ctx context.Context, gv schema.GroupVersion, accept func(versionAnswer) bool,
) ([]metav1.APIResource, error) {
	for {
		k.mu.Lock()
		answer, known := k.versions[gv]
		k.mu.Unlock()
		if known && accept(answer) {
			return answer.resources, nil
		}
		if err := k.askVersion(ctx, gv); err != nil {
			return nil, err
		}
	}
}

func (k *Cache) groupsNow(ctx context.Context) (groupsAnswer, error) {
	began := k.clock.Now()
	for {
		k.mu.Lock()
		answer := k.groups
		k.mu.Unlock()
		if answer.groups != nil && k.isFresh(answer.at, began) {
			return answer, nil
		}
		if _, err := k.askGroups(ctx, false); err != nil {
			return groupsAnswer{}, err
		}
	}
}

type resourceLists = map[schema.GroupVersion]*metav1.APIResourceList

// aggregated is the part of client-go's DiscoveryClient for aggregated discovery, which needs fewer
// requests and reports the versions without a server.
type aggregated interface {
	GroupsAndMaybeResourcesWithContext(ctx context.Context) (
		*metav1.APIGroupList, resourceLists, map[schema.GroupVersion]error, error,
	)
}

// askGroups requests all groups. With keep, it stores and returns the resources in the same answer.
func (k *Cache) askGroups(ctx context.Context, keep bool) (resources resourceLists, err error) {
	err = k.ask(ctx, allGroups, func() (func(), error) {
		answer := groupsAnswer{groups: map[string]metav1.APIGroup{}, at: k.clock.Now()}
		var list *metav1.APIGroupList
		var came resourceLists
		var failed map[schema.GroupVersion]error
		var err error
		if whole, ok := k.client.(aggregated); ok {
			list, came, failed, err = whole.GroupsAndMaybeResourcesWithContext(ctx)
		} else {
			list, err = k.client.ServerGroupsWithContext(ctx)
		}
		if err != nil {
			return nil, fmt.Errorf("discover the groups of the API: %w", err)
		}
		answer.away = slices.Collect(maps.Keys(failed))
		for _, g := range list.Groups {
			answer.groups[g.Name] = g
			isOf := func(gv schema.GroupVersion) bool { return gv.Group == g.Name }
			if len(g.Versions) == 0 && !slices.ContainsFunc(answer.away, isOf) {
				answer.away = append(answer.away, schema.GroupVersion{Group: g.Name})
			}
		}
		return func() {
			k.groups = answer
			if keep {
				resources = came
				for gv, r := range came { // without a time: too old to prove that a resource is missing
					k.versions[gv] = versionAnswer{resources: r.APIResources}
				}
			}
		}, nil
	})
	return resources, err
}

// Forget makes the next Resolve of a kind of the group ask the server. Call it after a request
// showed that a type is not served. Requests in progress may be older than that, so their answers
// are not stored.
func (k *Cache) Forget(group string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for gv, c := range k.calls {
		if gv.Group == group || gv == allGroups {
			c.forgotten = true
			delete(k.calls, gv)
		}
	}
	maps.DeleteFunc(k.versions, func(gv schema.GroupVersion, _ versionAnswer) bool { return gv.Group == group })
	k.groups = groupsAnswer{}
}

// All returns every resource once, in the preferred version of its group, and the reasons why some
// versions are unknown, for example an aggregated API with an unreachable server. The error is set
// if all versions are unknown.
func (k *Cache) All(ctx context.Context) (found []Mapping, unread map[string]error, err error) {
	known, err := k.askGroups(ctx, true)
	if err != nil {
		return nil, nil, err
	}
	answer, err := k.groupsNow(ctx)
	if err != nil {
		return nil, nil, err
	}
	unread = map[string]error{}
	for _, gv := range answer.away {
		unread[strings.TrimSuffix(gv.String(), "/")] = errAway
	}
	began := k.clock.Now()
	for name, g := range answer.groups {
		seen, asked := map[string]bool{}, map[string]bool{"": true}
		versions := append([]metav1.GroupVersionForDiscovery{g.PreferredVersion}, g.Versions...)
		for _, v := range versions {
			if asked[v.Version] {
				continue
			}
			asked[v.Version] = true
			gv := schema.GroupVersion{Group: name, Version: v.Version}
			resources, err := k.resourcesOf(ctx, gv, func(a versionAnswer) bool {
				return known[gv] != nil || k.isFresh(a.at, began)
			})
			if err != nil {
				unread[gv.String()] = err
				continue
			}
			for _, r := range resources {
				if !seen[r.Name] && !isSubresource(r) {
					seen[r.Name] = true
					found = append(found, mappingOf(gv, r))
				}
			}
		}
	}
	return found, unread, nil
}
