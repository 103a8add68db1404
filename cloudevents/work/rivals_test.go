// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work"
)

// TestPatchAgainstDelete: 20,000 times a patch and a deletion of one work race, and no deletion is lost.
func TestPatchAgainstDelete(t *testing.T) {
	works := offline(t, work.SourceOptions{}).ManifestWorks("cluster1")
	const rounds = 20_000
	deletions := make(chan string)
	var group sync.WaitGroup
	group.Go(func() {
		for name := range deletions {
			if err := works.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
				t.Errorf("delete %s: %v", name, err)
			}
		}
	})
	for i := range rounds {
		name := fmt.Sprint("w", i)
		if _, err := works.Create(t.Context(), newWork(name, "1"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		deletions <- name
		if _, err := works.Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"1"}}}`), metav1.PatchOptions{}); err != nil {
			t.Fatalf("patch %s: %v", name, err)
		}
	}
	close(deletions)
	group.Wait()
	for i := range rounds {
		w, err := works.Get(t.Context(), fmt.Sprint("w", i), metav1.GetOptions{})
		if err != nil || w.DeletionTimestamp == nil || w.Labels["a"] != "1" {
			t.Fatalf("round %d: deleting %t, labels %v, %v", i, w != nil && w.DeletionTimestamp != nil, w.Labels, err)
		}
	}
}

// TestReadYourWrites: what a write returned is what Get, List and every watch show from then on, and each watch
// sees the versions of one object in their order.
func TestReadYourWrites(t *testing.T) {
	works := offline(t, work.SourceOptions{}).ManifestWorks("cluster1")
	const watchers, writes = 20, 500
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var group sync.WaitGroup
	begin := func(read bool) {
		w, err := works.Watch(ctx, metav1.ListOptions{})
		if err != nil {
			t.Error(err)
			return
		}
		if !read { // the slow one: it holds up nobody
			return
		}
		group.Go(func() {
			for want := range writes {
				e, ok := <-w.ResultChan()
				obj, _ := e.Object.(*workv1.ManifestWork)
				if !ok || e.Type == watch.Error || valueOf(t, obj) != fmt.Sprint(want) {
					t.Errorf("event %d: %v", want, e)
					return
				}
			}
		})
	}
	begin(false)
	for range watchers {
		begin(true)
	}
	obj, err := works.Create(ctx, newWork("app", "0"), metav1.CreateOptions{})
	for i := 1; i < writes && err == nil; i++ {
		obj.Spec = newWork("app", fmt.Sprint(i)).Spec
		if obj, err = works.Update(ctx, obj, metav1.UpdateOptions{}); err != nil {
			break
		}
		got, getErr := works.Get(ctx, "app", metav1.GetOptions{})
		list, listErr := works.List(ctx, metav1.ListOptions{})
		if getErr != nil || listErr != nil || got.ResourceVersion != obj.ResourceVersion || list.Items[0].ResourceVersion != obj.ResourceVersion {
			t.Fatalf("write %d is not what is read: %v, %v", i, getErr, listErr)
		}
	}
	if err != nil || apierrors.IsConflict(err) {
		t.Fatal(err)
	}
	group.Wait()
}
