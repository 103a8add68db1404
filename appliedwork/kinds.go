// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
)

// staleAfter is how old an answer of discovery may be when it says that something is not there. What is there is believed
// until a request for it fails.
const staleAfter = time.Second

// mapping is how a kind is reached.
type mapping struct {
	resource   schema.GroupVersionResource
	kind       string
	namespaced bool
	verbs      metav1.Verbs
}

func (m mapping) groupKind() schema.GroupKind {
	return schema.GroupKind{Group: m.resource.Group, Kind: m.kind}
}

// kinds finds the resources of kinds by discovery.
type kinds struct {
	discovery Discovery
	clock     clock.PassiveClock

	lock     chan struct{} // held during requests, so that many who ask for the same make one
	versions map[schema.GroupVersion]versionAnswer
	groups   groupsAnswer
}

type versionAnswer struct {
	resources []metav1.APIResource // none when the version is not served
	at        time.Time
}

type groupsAnswer struct {
	groups map[string]metav1.APIGroup
	at     time.Time
}

func newKinds(discovery Discovery, c clock.PassiveClock) *kinds {
	return &kinds{discovery: discovery, clock: c, lock: make(chan struct{}, 1), versions: map[schema.GroupVersion]versionAnswer{}}
}

// acquire takes the lock. Who waits for a server that hangs must not hold up those whose ctx ends.
func (k *kinds) acquire(ctx context.Context) error {
	select {
	case k.lock <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (k *kinds) release() { <-k.lock }

// resolve returns how to reach a kind: in the version if that is served, else in the version that the server prefers, else
// in any. The error is a *TypeNotServedError when a fresh answer has it in none, and else that of discovery.
func (k *kinds) resolve(ctx context.Context, gk schema.GroupKind, version string) (mapping, error) {
	return k.find(ctx, gk, version, func(r metav1.APIResource) bool { return r.Kind == gk.Kind })
}

// resolveExactly is resolve for what is sent, which has to be of the version that it is sent as.
func (k *kinds) resolveExactly(ctx context.Context, gvk schema.GroupVersionKind) (mapping, error) {
	m, err := k.resolve(ctx, gvk.GroupKind(), gvk.Version)
	if err == nil && m.resource.Version != gvk.Version {
		err = &TypeNotServedError{Kind: gvk.GroupKind(), Version: gvk.Version, Served: m.resource.Version}
	}
	return m, err
}

// resolveResource is resolve for what is known by its resource only.
func (k *kinds) resolveResource(ctx context.Context, gr schema.GroupResource, version string) (mapping, error) {
	return k.find(ctx, schema.GroupKind{Group: gr.Group, Kind: gr.Resource}, version, func(r metav1.APIResource) bool { return r.Name == gr.Resource })
}

func (k *kinds) find(ctx context.Context, gk schema.GroupKind, version string, is func(metav1.APIResource) bool) (mapping, error) {
	if err := k.acquire(ctx); err != nil {
		return mapping{}, fmt.Errorf("discover %s: %w", gk, err)
	}
	defer k.release()
	tried := map[string]bool{}
	try := func(version string) (mapping, bool, error) {
		if version == "" || tried[version] {
			return mapping{}, false, nil
		}
		tried[version] = true
		return k.inVersion(ctx, schema.GroupVersion{Group: gk.Group, Version: version}, is)
	}
	if m, ok, err := try(version); ok || err != nil {
		return m, err
	}
	group, err := k.group(ctx, gk.Group)
	if err != nil {
		return mapping{}, err
	}
	if isAway(group) {
		return mapping{}, fmt.Errorf("discover %s: %w", gk, errAway)
	}
	if m, ok, err := try(group.PreferredVersion.Version); ok || err != nil {
		return m, err
	}
	for _, v := range group.Versions {
		if m, ok, err := try(v.Version); ok || err != nil {
			return m, err
		}
	}
	return mapping{}, &TypeNotServedError{Kind: gk}
}

func (k *kinds) inVersion(ctx context.Context, gv schema.GroupVersion, is func(metav1.APIResource) bool) (mapping, bool, error) {
	answer, known := k.versions[gv]
	for fresh := false; ; fresh = true {
		for _, r := range answer.resources {
			if is(r) && !strings.Contains(r.Name, "/") {
				return mapping{resource: gv.WithResource(r.Name), kind: r.Kind, namespaced: r.Namespaced, verbs: r.Verbs}, true, nil
			}
		}
		if fresh || known && k.clock.Since(answer.at) < staleAfter {
			return mapping{}, false, nil
		}
		at := k.clock.Now()
		list, err := k.discovery.ServerResourcesForGroupVersionWithContext(ctx, gv.String())
		switch {
		case apierrors.IsNotFound(err):
			answer = versionAnswer{at: at}
		case err != nil:
			return mapping{}, false, fmt.Errorf("discover the resources of %s: %w", gv, err)
		default:
			answer = versionAnswer{resources: list.APIResources, at: at}
		}
		k.versions[gv] = answer
	}
}

// group returns the versions of a group; none when it is not served.
func (k *kinds) group(ctx context.Context, name string) (metav1.APIGroup, error) {
	if k.groups.groups == nil || k.clock.Since(k.groups.at) >= staleAfter {
		at := k.clock.Now()
		list, err := k.discovery.ServerGroupsWithContext(ctx)
		if err := k.learn(list, at, err); err != nil {
			return metav1.APIGroup{}, err
		}
	}
	return k.groups.groups[name], nil
}

// learn takes an answer of discovery about all groups.
func (k *kinds) learn(list *metav1.APIGroupList, at time.Time, err error) error {
	if err != nil {
		return fmt.Errorf("discover the groups of the API: %w", err)
	}
	k.groups = groupsAnswer{groups: map[string]metav1.APIGroup{}, at: at}
	for _, g := range list.Groups {
		k.groups.groups[g.Name] = g
	}
	return nil
}

// aggregated is what client-go's DiscoveryClient has beside [Discovery]: most servers say all that they serve in two answers,
// where there is one for each version of each group otherwise.
type aggregated interface {
	GroupsAndMaybeResourcesWithContext(ctx context.Context) (*metav1.APIGroupList, map[schema.GroupVersion]*metav1.APIResourceList, map[schema.GroupVersion]error, error)
}

// learnAll learns all groups, and of as many versions as it can the resources. That something is not among these is no proof
// that it is not served.
func (k *kinds) learnAll(ctx context.Context) (known map[schema.GroupVersion]bool, err error) {
	whole, ok := k.discovery.(aggregated)
	if !ok {
		_, err := k.group(ctx, "")
		return nil, err
	}
	at := k.clock.Now()
	list, resources, _, err := whole.GroupsAndMaybeResourcesWithContext(ctx)
	if err := k.learn(list, at, err); err != nil {
		return nil, err
	}
	known = make(map[schema.GroupVersion]bool, len(resources))
	for gv, r := range resources {
		k.versions[gv], known[gv] = versionAnswer{resources: r.APIResources}, true // of no time: too old to say what is not there
	}
	return known, nil
}

// errAway: a server that does not answer is no proof of anything.
var errAway = errors.New("no server answers for this group of the API")

// isAway reports whether the server knows a group, and none of its versions because the one that has them does not answer.
func isAway(group metav1.APIGroup) bool { return group.Name != "" && len(group.Versions) == 0 }

// forget makes the next resolve of a kind of the group ask the server, after a request said that something is not served.
func (k *kinds) forget(ctx context.Context, group string) {
	if k.acquire(ctx) != nil {
		return // nobody asks with this ctx any more, and the next request says the same
	}
	defer k.release()
	for gv := range k.versions {
		if gv.Group == group {
			delete(k.versions, gv)
		}
	}
	k.groups = groupsAnswer{}
}

// all returns every resource once, in the preferred version of its group, and why nothing is known of some versions, as of an
// aggregated API whose server is away. The error is for when nothing is known at all.
func (k *kinds) all(ctx context.Context) (found []mapping, unread map[string]error, err error) {
	if err := k.acquire(ctx); err != nil {
		return nil, nil, err
	}
	defer k.release()
	known, err := k.learnAll(ctx)
	if err != nil {
		return nil, nil, err
	}
	unread = map[string]error{}
	for name, g := range k.groups.groups {
		if isAway(g) {
			unread[name] = errAway
			continue
		}
		seen, asked := map[string]bool{}, map[string]bool{"": true}
		versions := append([]metav1.GroupVersionForDiscovery{g.PreferredVersion}, g.Versions...)
		for _, v := range versions {
			if asked[v.Version] {
				continue
			}
			asked[v.Version] = true
			gv := schema.GroupVersion{Group: name, Version: v.Version}
			if !known[gv] {
				if _, _, err := k.inVersion(ctx, gv, func(metav1.APIResource) bool { return false }); err != nil {
					unread[gv.String()] = err
					continue
				}
			}
			for _, r := range k.versions[gv].resources {
				if seen[r.Name] || strings.Contains(r.Name, "/") {
					continue
				}
				seen[r.Name] = true
				found = append(found, mapping{resource: gv.WithResource(r.Name), kind: r.Kind, namespaced: r.Namespaced, verbs: r.Verbs})
			}
		}
	}
	return found, unread, nil
}
