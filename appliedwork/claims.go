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

// claimsPage is how many AppliedWorks are read at once: each may be 1 MiB.
const claimsPage = 50

// claims is what all AppliedWorks say about some objects, as of one list.
type claims struct {
	t          *Tracker
	listed     map[Key][]Owner
	namespaces map[string][]Owner // who has objects in a namespace
	ending     map[types.UID]bool // AppliedWorks by their UID; true for those that are terminating
}

// claims reads all AppliedWorks. Keys limits the objects; nil means none, and the namespaces only.
func (t *Tracker) claims(ctx context.Context, keys map[Key]bool) (*claims, error) {
	c := &claims{t: t, listed: map[Key][]Owner{}, namespaces: map[string][]Owner{}, ending: map[types.UID]bool{}}
	names := map[types.UID]string{}
	var shards []*v1alpha1.AppliedWork
	err := t.eachWork(ctx, func(work *v1alpha1.AppliedWork) {
		if work.Labels[v1alpha1.LabelShardOf] == "" {
			c.ending[work.UID], names[work.UID] = isEnding(work), work.Name
		}
		shards = append(shards, c.relevant(work, keys))
	})
	if err != nil {
		return nil, err
	}
	for _, work := range shards {
		c.add(work, names)
	}
	return c, nil
}

// eachWork lists all AppliedWorks, shards too.
func (t *Tracker) eachWork(ctx context.Context, visit func(*v1alpha1.AppliedWork)) error {
	options := metav1.ListOptions{Limit: claimsPage}
	for {
		page, err := t.works().List(ctx, options)
		if err != nil {
			return fmt.Errorf("list AppliedWorks: %w", err)
		}
		for i := range page.Items {
			s, err := decodeShard(&page.Items[i])
			if err != nil {
				return err
			}
			t.addKinds(ctx, s.work.Status.AppliedResources)
			visit(s.work)
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}

// relevant keeps what is asked for, so that no more than a page of inventories is in memory at once.
func (c *claims) relevant(work *v1alpha1.AppliedWork, keys map[Key]bool) *v1alpha1.AppliedWork {
	kept := &v1alpha1.AppliedWork{ObjectMeta: metav1.ObjectMeta{Name: work.Name, UID: work.UID, Labels: work.Labels}}
	seen := map[string]bool{}
	for _, e := range work.Status.AppliedResources {
		if keys[KeyOf(e.ResourceIdentifier)] || e.Namespace != "" && !seen[e.Namespace] {
			kept.Status.AppliedResources = append(kept.Status.AppliedResources, e)
			seen[e.Namespace] = true
		}
	}
	return kept
}

func (c *claims) add(work *v1alpha1.AppliedWork, names map[types.UID]string) {
	owner := Owner{Name: work.Name, UID: work.UID}
	if of := types.UID(work.Labels[v1alpha1.LabelShardOf]); of != "" {
		name, ok := names[of]
		if !ok {
			return // left over from an AppliedWork that is gone, and going too
		}
		owner = Owner{Name: name, UID: of}
	}
	owner.Terminating = c.ending[owner.UID]
	for _, e := range work.Status.AppliedResources {
		owner.Applied, owner.Object = e.UID != "", e.UID
		key := KeyOf(e.ResourceIdentifier)
		c.listed[key] = append(c.listed[key], owner)
		if e.Namespace != "" {
			c.namespaces[e.Namespace] = append(c.namespaces[e.Namespace], owner)
		}
	}
}

// owners returns who may have a claim on an object. An AppliedWork that the list did not have may be newer than it:
// that is looked up, because a reference that was made since must count.
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
			if dead[r.UID] = err != nil || raw.GetUID() != r.UID; dead[r.UID] {
				continue
			}
			s, err := decodeShard(raw)
			if err != nil {
				return o, err
			}
			dead[r.UID] = isEnding(s.work)
		}
	}
	o.Dead = func(uid types.UID) bool { return dead[uid] }
	return o, nil
}
