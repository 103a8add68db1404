// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// claims are the entries of other AppliedWorks for some objects, from one list.
type claims struct {
	t          *Tracker
	listed     map[Key][]Owner
	namespaces map[string][]Owner // AppliedWorks with objects in a namespace
	ending     map[types.UID]bool // AppliedWorks by their UID; true for those that are terminating
}

// claims returns the entries of other AppliedWorks for objects, and for objects in a Namespace.
func (t *Tracker) claims(ctx context.Context, self types.UID, keys map[Key]bool) (*claims, error) {
	works, entries, err := t.entriesOf(ctx, self, keys)
	if err != nil {
		return nil, fmt.Errorf("list AppliedWorks: %w", err)
	}
	c := &claims{t: t, listed: map[Key][]Owner{}, namespaces: map[string][]Owner{}, ending: map[types.UID]bool{}}
	names := map[types.UID]string{}
	for _, w := range works {
		if w.uid == w.of {
			c.ending[w.uid], names[w.uid] = w.ending, w.name
		}
	}
	for _, w := range works {
		name, ok := names[w.of]
		if !ok {
			continue // its AppliedWork is gone: the garbage collector deletes the shard
		}
		owner := Owner{Name: name, UID: w.of, Terminating: c.ending[w.of]}
		for _, e := range entries[w.uid] {
			owner.Applied, owner.Object = e.UID != "", e.UID
			key := KeyOf(e.ResourceIdentifier)
			c.listed[key] = append(c.listed[key], owner)
			if e.Namespace != "" {
				c.namespaces[e.Namespace] = append(c.namespaces[e.Namespace], owner)
			}
		}
	}
	return c, nil
}

// entriesOf returns all AppliedWorks, and the entries of claims by the UID of the AppliedWork. With
// a metadata client, it reads only AppliedWorks that the index does not have in the listed version,
// or that may have such an entry.
func (t *Tracker) entriesOf(
	ctx context.Context, self types.UID, keys map[Key]bool,
) (works []*listedWork, entries map[types.UID][]v1alpha1.AppliedResourceMeta, err error) {
	entries = map[types.UID][]v1alpha1.AppliedResourceMeta{}
	if t.opts.InventoryMetadata == nil {
		err = t.eachWork(ctx, metav1.ListOptions{}, func(work *v1alpha1.AppliedWork) {
			w := listed(work)
			if works = append(works, w); w.of != self {
				entries[w.uid] = among(keys, work)
			}
		})
		return works, entries, err
	}
	works, version, err := t.listWorks(ctx)
	if err != nil {
		return nil, nil, err
	}
	var candidates []*listedWork
	wanted := t.opts.Index.hashes(keys)
	t.opts.Index.retain(works)
	for _, w := range works {
		if w.of != self && t.opts.Index.mayHave(w, wanted) {
			candidates = append(candidates, w)
		}
	}
	err = t.readAt(ctx, version, candidates, len(works), func(work *v1alpha1.AppliedWork) {
		t.opts.Index.put(work)
		entries[work.UID] = among(keys, work)
	})
	return works, entries, err
}

// among returns the entries of claims in an AppliedWork, with one for each Namespace.
func among(keys map[Key]bool, work *v1alpha1.AppliedWork) (entries []v1alpha1.AppliedResourceMeta) {
	seen := map[string]bool{}
	for _, e := range work.Status.AppliedResources {
		in := e.Namespace != "" && !seen[e.Namespace] && keys[Key{Kind: "Namespace", Name: e.Namespace}]
		if in || keys[KeyOf(e.ResourceIdentifier)] {
			entries = append(entries, e)
			seen[e.Namespace] = true
		}
	}
	return entries
}

// owners returns the possible owners of an object. It reads an owner that is newer than the list.
func (c *claims) owners(ctx context.Context, self types.UID, key Key, live *unstructured.Unstructured) (Owners, error) {
	o := Owners{Self: self, Listed: c.listed[key]}
	dead := map[types.UID]bool{}
	if live != nil {
		for _, r := range live.GetOwnerReferences() {
			if r.UID == self || !isAppliedWork(r) {
				continue
			}
			ending, known := c.ending[r.UID]
			if known {
				dead[r.UID] = ending
				continue
			}
			raw, err := c.t.works().Get(ctx, r.Name, metav1.GetOptions{})
			if err != nil && (!apierrors.IsNotFound(err) || IsTypeNotServed(err)) {
				return o, fmt.Errorf("look up the owner %s of %s: %w", r.Name, key, err)
			}
			dead[r.UID] = err != nil || raw.GetUID() != r.UID || isEnding(raw)
		}
	}
	o.Dead = func(uid types.UID) bool { return dead[uid] }
	return o, nil
}
