// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// establishLimit is the time that Apply waits for the CRDs of a work to be served. After that,
	// their objects fail.
	establishLimit  = 15 * time.Second
	establishPeriod = 50 * time.Millisecond
)

// apply writes the objects, wave by wave.
func (r *applyRun) apply(ctx context.Context) {
	waves := byRank(len(r.items), func(i int) schema.GroupKind { return r.items[i].change.Key.GroupKind() })
	for _, wave := range waves {
		r.resolveLate(ctx, wave)
		parallel(ctx, len(wave), r.opts.Concurrency, func(n int) {
			if item := r.items[wave[n]]; !item.isFinished() {
				r.applyOne(ctx, item)
			}
		})
	}
}

// resolveLate finds the resources of kinds with CRDs that were applied in an earlier wave, and
// reads their objects.
func (r *applyRun) resolveLate(ctx context.Context, wave []int) {
	var late []*applyItem
	errs := map[schema.GroupVersionKind]error{}
	limit := time.Now().Add(establishLimit) // for all kinds together
	for _, i := range wave {
		item := r.items[i]
		if item.isFinished() || item.mapped {
			continue
		}
		gvk := item.change.Key.GroupKind().WithVersion(item.id.Version)
		if r.dry {
			item.finish(ActionPending, fmt.Errorf("%s cannot be checked before its CRD is applied", item.change.Key))
			continue
		}
		if _, known := errs[gvk]; !known {
			errs[gvk] = r.awaitKind(ctx, gvk, item, limit)
		}
		err := errs[gvk]
		if err == nil {
			item.mapping, err = r.resolveExactly(ctx, gvk)
		}
		if err != nil {
			item.fail(fmt.Errorf("apply %s: %w", item.change.Key, err))
			continue
		}
		item.mapped = true
		late = append(late, item)
	}
	r.read(ctx, late)
}

// awaitKind waits until the kind of an applied CRD is served: discovery reports it, and a request
// for an object succeeds, which may happen later.
func (r *applyRun) awaitKind(ctx context.Context, gvk schema.GroupVersionKind, item *applyItem, limit time.Time) error {
	if crd := r.items[r.announced[gvk].crd].change; crd.Action == ActionFailed || crd.Action == ActionPending {
		return fmt.Errorf("%w (%s is in the work and %s)", &TypeNotServedError{Kind: gvk.GroupKind()}, crd.Key, crd.Action)
	}
	var notServed error
	err := wait.PollUntilContextTimeout(ctx, establishPeriod, max(time.Until(limit), establishPeriod), true, func(context.Context) (bool, error) {
		r.kinds.Forget(gvk.Group)
		m, err := r.resolveExactly(ctx, gvk)
		if err == nil {
			if f := r.get(ctx, target{m, item.id.Namespace, item.id.Name}); IsTypeNotServed(f.err) {
				err = f.err
			}
		}
		if IsTypeNotServed(err) {
			notServed = err
			return false, nil
		}
		return err == nil, err
	})
	if wait.Interrupted(err) && notServed != nil {
		return notServed
	}
	return err
}
