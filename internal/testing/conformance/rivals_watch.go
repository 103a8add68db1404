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

// watchers is the number of concurrent watches that are read. One more watch is never read.
const watchers = 20

// watching starts watches. It runs see for each of them, except the last, which is never read. It
// runs write concurrently.
func watching(
	ctx context.Context, works worktyped.ManifestWorkInterface, see func(watch.Interface) error,
	write func(context.Context) error,
) error {
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
			cancel() // otherwise the others wait for events that never arrive
		}
		return err
	})
}

// object returns the object of the next event. An error event is an error.
func object(w watch.Interface) (*workv1.ManifestWork, error) {
	e, ok := <-w.ResultChan()
	obj, is := e.Object.(*workv1.ManifestWork)
	if !ok || !is || e.Type == watch.Error {
		return nil, fmt.Errorf("the watch ends with %v %v", e.Type, e.Object)
	}
	return obj, nil
}

// readYourWrites checks that Get, List and every watch show the result of a write after the write
// returns.
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
				return fmt.Errorf("write %d made version %s, but Get shows %s and List %s", i, v, got.ResourceVersion,
					list.Items[0].ResourceVersion)
			}
		}
		return err
	}
	return watching(ctx, works, see, write)
}

// eventOrder checks concurrent changes of several objects. Each watch receives all changes of each
// object, in order.
func eventOrder(ctx context.Context, works worktyped.ManifestWorkInterface, rounds int) error {
	const objects, writers = 4, 2 // writers is for each object
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

// countUp increments the count of an object rounds times, concurrently with other calls.
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
