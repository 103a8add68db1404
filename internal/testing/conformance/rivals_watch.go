// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"
)

// watchers is how many watch at once; one more never reads.
const watchers = 20

// watching begins watches, the last of which nobody reads, and runs see for each of the others beside write.
func watching(ctx context.Context, works worktyped.ManifestWorkInterface, see func(watch.Interface) error, write func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	all := make([]watch.Interface, watchers+1)
	for i := range all {
		w, err := works.Watch(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		defer w.Stop() //nolint:gocritic // there are few, and all live as long as this
		all[i] = w
	}
	return crowd(watchers+1, func(i int) error {
		if i < watchers {
			return see(all[i])
		}
		err := write(ctx)
		if err != nil {
			cancel() // or the others would wait for what does not come
		}
		return err
	})
}

// object is that of an event that is not an error.
func object(w watch.Interface) (*workv1.ManifestWork, error) {
	e, ok := <-w.ResultChan()
	obj, is := e.Object.(*workv1.ManifestWork)
	if !ok || !is || e.Type == watch.Error {
		return nil, fmt.Errorf("the watch ends with %v %v", e.Type, e.Object)
	}
	return obj, nil
}

// readYourWrites: what a write returned is what Get, List and every watch show from then on.
func readYourWrites(ctx context.Context, works worktyped.ManifestWorkInterface, rounds int) error {
	see := func(w watch.Interface) error {
		for want := range rounds {
			obj, err := object(w)
			if err != nil {
				return err
			}
			if got := countOf(obj); got != want {
				return fmt.Errorf("event %d is of write %d", want, got)
			}
		}
		return nil
	}
	write := func(ctx context.Context) error {
		obj, err := works.Create(ctx, simple("app", "0"), metav1.CreateOptions{})
		for i := 1; i < rounds && err == nil; i++ {
			obj.Annotations = map[string]string{"count": fmt.Sprint(i)}
			if obj, err = works.Update(ctx, obj, metav1.UpdateOptions{}); err != nil {
				return err
			}
			got, getErr := works.Get(ctx, "app", metav1.GetOptions{})
			list, listErr := works.List(ctx, metav1.ListOptions{})
			if err = errors.Join(getErr, listErr); err != nil {
				return err
			}
			if v := obj.ResourceVersion; got.ResourceVersion != v || list.Items[0].ResourceVersion != v {
				return fmt.Errorf("write %d made version %s, but Get shows %s and List %s", i, v, got.ResourceVersion, list.Items[0].ResourceVersion)
			}
		}
		return err
	}
	return watching(ctx, works, see, write)
}

// eventOrder: many change several objects; each watch sees each object's changes one by one.
func eventOrder(ctx context.Context, works worktyped.ManifestWorkInterface, rounds int) error {
	const objects, writers = 4, 2 // of each
	see := func(w watch.Interface) error {
		counts := map[string]int{}
		for range objects * (1 + writers*rounds) {
			obj, err := object(w)
			if err != nil {
				return err
			}
			if last, ok := counts[obj.Name]; ok && countOf(obj) != last+1 {
				return fmt.Errorf("%s: change %d after %d", obj.Name, countOf(obj), last)
			}
			counts[obj.Name] = countOf(obj)
		}
		for name, last := range counts {
			if last != writers*rounds {
				return fmt.Errorf("%s: the last change seen is %d of %d", name, last, writers*rounds)
			}
		}
		return nil
	}
	write := func(ctx context.Context) error {
		for i := range objects {
			if _, err := works.Create(ctx, simple(fmt.Sprint("w", i), "0"), metav1.CreateOptions{}); err != nil {
				return err
			}
		}
		return crowd(objects*writers, func(me int) error {
			return countUp(ctx, works, fmt.Sprint("w", me%objects), rounds)
		})
	}
	return watching(ctx, works, see, write)
}

// countUp counts so often in an object, beside others that do so.
func countUp(ctx context.Context, works worktyped.ManifestWorkInterface, name string, rounds int) error {
	for done := 0; done < rounds; {
		w, err := works.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		w.Annotations = map[string]string{"count": fmt.Sprint(countOf(w) + 1)}
		if _, err = works.Update(ctx, w, metav1.UpdateOptions{}); err == nil {
			done++
		} else if !apierrors.IsConflict(err) {
			return err
		}
	}
	return nil
}
