// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"
)

// Rivalry is a check with many concurrent clients that work on the same objects. Its result must
// not depend on timing, so there is no transcript. It returns an error instead.
type Rivalry struct {
	Name string
	// Run works in an empty namespace, for the given number of rounds.
	Run func(ctx context.Context, works worktyped.ManifestWorkInterface, rounds int) error
	// Rounds is the number of rounds that make a failure likely with a clientset that answers in
	// microseconds.
	Rounds int
}

// Rivalries has all rivalries.
var Rivalries = []Rivalry{
	{Name: "one of many creates wins", Run: oneCreateWins, Rounds: 200},
	{Name: "every apply succeeds", Run: everyApplySucceeds, Rounds: 50},
	{Name: "no update is lost", Run: noLostUpdate, Rounds: 50},
	{Name: "no deletion is lost to a patch", Run: noLostDeletion, Rounds: 20_000},
	{Name: "what was written is read", Run: readYourWrites, Rounds: 500},
	{Name: "events are in order", Run: eventOrder, Rounds: 100},
}

// rivals is the number of concurrent writers.
const rivals = 16

// crowd runs f concurrently for 0 to n-1, and returns all errors.
func crowd(n int, f func(int) error) error {
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { errs[i] = f(i) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// oneCreateWins checks concurrent creates of one name in each round. One create succeeds, and the
// others return AlreadyExists.
func oneCreateWins(ctx context.Context, works worktyped.ManifestWorkInterface, rounds int) error {
	for i := range rounds {
		name := fmt.Sprint("w", i)
		winners := make([]*workv1.ManifestWork, rivals)
		err := crowd(rivals, func(me int) error {
			out, err := works.Create(ctx, simple(name, fmt.Sprint(me)), metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				return nil
			}
			winners[me] = out
			return err
		})
		if err != nil {
			return err
		}
		got, err := works.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		won := 0
		for _, w := range winners {
			if w == nil {
				continue
			}
			if won++; w.UID != got.UID || w.ResourceVersion != got.ResourceVersion {
				return fmt.Errorf("%s: the create that succeeded made %s, but there is %s", name, w.UID, got.UID)
			}
		}
		if won != 1 {
			return fmt.Errorf("%s: %d creates won", name, won)
		}
	}
	return nil
}

// everyApplySucceeds checks concurrent applies of one name by different managers. One of them creates
// the object, and the object has the fields of all.
func everyApplySucceeds(ctx context.Context, works worktyped.ManifestWorkInterface, rounds int) error {
	for i := range rounds {
		name := fmt.Sprint("w", i)
		err := crowd(rivals, func(me int) error {
			manager := fmt.Sprint("m", me)
			data := fmt.Sprintf(`{"apiVersion":"work.open-cluster-management.io/v1","kind":"ManifestWork",`+
				`"metadata":{"name":%q,"labels":{%q:""}},"spec":{"workload":{}}}`, name, manager)
			_, err := works.Patch(ctx, name, types.ApplyPatchType, []byte(data), metav1.PatchOptions{FieldManager: manager})
			return err
		})
		if err != nil {
			return err
		}
		w, err := works.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(w.Labels) != rivals {
			return fmt.Errorf("%s: %d of %d labels", name, len(w.Labels), rivals)
		}
	}
	return nil
}

// noLostUpdate checks concurrent increments of a count in one object, with retries after conflicts.
// No increment is lost.
func noLostUpdate(ctx context.Context, works worktyped.ManifestWorkInterface, rounds int) error {
	if _, err := works.Create(ctx, simple("app", "0"), metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := crowd(rivals, func(int) error { return countUp(ctx, works, "app", rounds) }); err != nil {
		return err
	}
	w, err := works.Get(ctx, "app", metav1.GetOptions{})
	if err == nil && countOf(w) != rivals*rounds {
		err = fmt.Errorf("%d of %d updates are left", countOf(w), rivals*rounds)
	}
	return err
}

func countOf(w *workv1.ManifestWork) int {
	n := 0
	_, _ = fmt.Sscan(w.Annotations["count"], &n) // no annotation is 0
	return n
}

// noLostDeletion checks a concurrent patch and deletion in each round. In either order, the work is
// in deletion and has the label. A finalizer keeps the work for the check.
func noLostDeletion(ctx context.Context, works worktyped.ManifestWorkInterface, rounds int) error {
	name := func(i int) string { return fmt.Sprint("w", i) }
	deletions, deleted := make(chan string), make(chan error, 1)
	go func() {
		var errs []error
		for name := range deletions {
			errs = append(errs, works.Delete(ctx, name, metav1.DeleteOptions{}))
		}
		deleted <- errors.Join(errs...)
	}()
	patch := func(i int) error {
		_, err := works.Create(ctx, with(simple(name(i), "1"),
			func(w *workv1.ManifestWork) { w.Finalizers = []string{"example.com/x"} }), metav1.CreateOptions{})
		if err != nil {
			return err
		}
		deletions <- name(i)
		_, err = works.Patch(ctx, name(i), types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"1"}}}`),
			metav1.PatchOptions{})
		return err
	}
	var err error
	for i := range rounds {
		if err = patch(i); err != nil {
			break
		}
	}
	close(deletions)
	if err = errors.Join(err, <-deleted); err != nil {
		return err
	}
	for i := range rounds {
		w, err := works.Get(ctx, name(i), metav1.GetOptions{})
		if err != nil {
			return err
		}
		if w.DeletionTimestamp == nil || w.Labels["a"] != "1" {
			return fmt.Errorf("round %d: deleting at %v, labels %v", i, w.DeletionTimestamp, w.Labels)
		}
	}
	return nil
}
