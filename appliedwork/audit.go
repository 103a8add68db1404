// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/appliedwork/internal/discovery"
	"github.com/spokewire/sdk-go/appliedwork/internal/observe"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// AuditOptions are the options of [Collector.Audit].
type AuditOptions struct {
	// Record adds the untracked objects to the inventory, for the next Prune.
	Record bool
	// Policies are the same as in Apply.
	Policies Policies
	// Concurrency is the number of kinds that are listed at a time, from 1 to 256. Defaults to 16.
	Concurrency int
}

// AuditReport is the difference between an inventory and the cluster.
type AuditReport struct {
	// Untracked objects have our owner reference and are not in the inventory. A late request of an
	// earlier process has created them, or others have changed the inventory.
	Untracked []v1alpha1.AppliedResourceMeta
	// Missing are entries without an existing object.
	Missing []v1alpha1.AppliedResourceMeta
	// Foreign are entries of objects that lack our owner reference although no policy keeps them.
	Foreign []v1alpha1.AppliedResourceMeta
	// Unread are group versions that could not be discovered, kinds that could not be listed and
	// objects that could not be read, with the reasons. Their state is unknown.
	Unread map[string]error
}

// Audit compares an inventory with all objects of the cluster that can be listed. It reads the
// whole cluster, so call it rarely, for example after a crash.
func (c *Collector) Audit(ctx context.Context, work *v1alpha1.AppliedWork, opts AuditOptions) (*AuditReport, error) {
	concurrency, err := concurrencyOf(opts.Concurrency)
	if err := errors.Join(err, checkWork(work)); err != nil {
		return nil, err
	}
	owned, unread, err := c.ownedBy(ctx, concurrency, func(r metav1.OwnerReference) bool { return r.UID == work.UID })
	if err != nil {
		return nil, err
	}
	report := &AuditReport{Unread: unread}
	// After the objects: those that were recorded meanwhile are not untracked.
	inv, err := c.tracker.load(ctx, work)
	if err != nil {
		return nil, err
	}
	for _, e := range owned[work.UID] {
		if _, ok := inv.find(KeyOf(e.ResourceIdentifier)); !ok {
			report.Untracked = append(report.Untracked, e)
		}
	}
	c.auditEntries(ctx, work, inv.entries(), opts.Policies, concurrency, report)
	if opts.Record && len(report.Untracked) > 0 {
		if err := c.tracker.RecordApplied(ctx, work, report.Untracked...); err != nil {
			return report, fmt.Errorf("record the untracked objects: %w", err)
		}
	}
	return report, nil
}

// SurveyOptions are the options of [Collector.Survey].
type SurveyOptions struct {
	// Concurrency is the number of kinds that are listed at a time, from 1 to 256. Defaults to 16.
	Concurrency int
}

// Survey is the result of [Collector.Survey].
type Survey struct {
	// Untracked are the objects that are in no inventory, by the UID of the AppliedWork that owns
	// them. The AppliedWork may not exist any more.
	Untracked map[types.UID][]v1alpha1.AppliedResourceMeta
	// Unread are group versions that could not be discovered and kinds that could not be listed,
	// with the reasons. Their state is unknown.
	Unread map[string]error
}

// Survey finds the untracked objects of all AppliedWorks in one pass over the cluster. Pass the
// objects to [Tracker.RecordApplied]. The error is that of the API server.
func (c *Collector) Survey(ctx context.Context, opts SurveyOptions) (*Survey, error) {
	concurrency, err := concurrencyOf(opts.Concurrency)
	if err != nil {
		return nil, err
	}
	owned, unread, err := c.ownedBy(ctx, concurrency, isAppliedWork)
	if err != nil {
		return nil, err
	}
	type entry struct {
		work types.UID
		key  Key
	}
	recorded := map[entry]bool{}
	// The inventories are read after the objects, as in Audit.
	err = c.tracker.eachWork(ctx, metav1.ListOptions{}, func(work *v1alpha1.AppliedWork) {
		of := listed(work).of
		for _, e := range work.Status.AppliedResources {
			recorded[entry{of, KeyOf(e.ResourceIdentifier)}] = true
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list AppliedWorks: %w", err)
	}
	survey := &Survey{Untracked: map[types.UID][]v1alpha1.AppliedResourceMeta{}, Unread: unread}
	for uid, entries := range owned {
		for _, e := range entries {
			if !recorded[entry{uid, KeyOf(e.ResourceIdentifier)}] {
				survey.Untracked[uid] = append(survey.Untracked[uid], e)
			}
		}
	}
	return survey, nil
}

// ownedBy lists all objects of the cluster that have an owner for which asked returns true, by the
// UID of the owner and that of the object: some objects are served as two kinds.
func (c *Collector) ownedBy(
	ctx context.Context, concurrency int, asked func(metav1.OwnerReference) bool,
) (map[types.UID]map[types.UID]v1alpha1.AppliedResourceMeta, map[string]error, error) {
	kinds, unread, err := c.kinds.All(ctx)
	if err != nil {
		return nil, nil, err
	}
	kinds = slices.DeleteFunc(kinds, func(m discovery.Mapping) bool {
		return !slices.Contains(m.Verbs, "list") ||
			m.Resource.GroupResource() == v1alpha1.GroupVersionResource.GroupResource()
	})
	owned := map[types.UID]map[types.UID]v1alpha1.AppliedResourceMeta{}
	var mu sync.Mutex
	parallel(ctx, len(kinds), concurrency, func(i int) {
		err := c.eachOf(ctx, kinds[i], func(obj metav1.Object) {
			for _, r := range obj.GetOwnerReferences() {
				if !asked(r) {
					continue
				}
				mu.Lock()
				if owned[r.UID] == nil {
					owned[r.UID] = map[types.UID]v1alpha1.AppliedResourceMeta{}
				}
				e := entryOf(kinds[i], obj)
				e.Adopted = isAdopted(obj, r.UID)
				owned[r.UID][obj.GetUID()] = e
				mu.Unlock()
			}
		})
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			unread[kinds[i].Resource.String()] = err
		}
	})
	return owned, unread, ctx.Err()
}

// eachOf is each for a kind. If the discovered version is not served any more, it tries another.
func (c *Collector) eachOf(ctx context.Context, m discovery.Mapping, visit func(metav1.Object)) error {
	err := c.each(ctx, m.Resource, visit)
	for attempt := 0; IsTypeNotServed(err) && attempt < attempts; attempt++ {
		c.kinds.Forget(m.Resource.Group)
		now, unresolved := c.kinds.Resolve(ctx, m.GroupKind(), "")
		if unresolved != nil || pause(ctx, attempt) != nil {
			return err
		}
		err = c.each(ctx, now.Resource, visit)
	}
	return err
}

func (c *Collector) each(ctx context.Context, resource schema.GroupVersionResource, visit func(metav1.Object)) error {
	if c.opts.Metadata == nil {
		see := func(obj *unstructured.Unstructured) { visit(obj) }
		_, err := observe.List(ctx, c.opts.Client.Resource(resource), metav1.ListOptions{}, see)
		return err
	}
	_, err := eachMetadata(ctx, c.opts.Metadata.Resource(resource), visit)
	return err
}

// auditEntries reports the entries with objects that are missing, foreign or unread.
func (c *Collector) auditEntries(
	ctx context.Context, work *v1alpha1.AppliedWork, entries []v1alpha1.AppliedResourceMeta,
	policies Policies, concurrency int, report *AuditReport,
) {
	var targets []target
	var of []v1alpha1.AppliedResourceMeta
	for _, e := range entries {
		m, err := c.resolve(ctx, e.ResourceIdentifier)
		if err != nil {
			report.Unread[KeyOf(e.ResourceIdentifier).GroupKind().String()] = err
			continue
		}
		targets, of = append(targets, target{m, e.Namespace, e.Name}), append(of, e)
	}
	for i, f := range c.read(ctx, targets, concurrency) {
		stays := func() bool {
			adopted := of[i].Adopted || isAdopted(f.obj, work.UID)
			return isKeptFrom(f.obj, work.UID) || policies.of(of[i].ResourceIdentifier, adopted) == PolicyOrphan
		}
		switch {
		case f.err != nil:
			report.Unread[KeyOf(of[i].ResourceIdentifier).String()] = f.err
		case f.obj == nil:
			report.Missing = append(report.Missing, of[i])
		case !IsOwnedBy(f.obj, work.UID) && !stays():
			report.Foreign = append(report.Foreign, of[i])
		}
	}
}
