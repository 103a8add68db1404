// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package restconfig_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/restapi"
	"github.com/spokewire/sdk-go/cloudevents/work/restconfig"
)

// listed returns the works of a cache by name.
func listed(t *testing.T, c cache.Cache) (out []string) {
	t.Helper()
	var list workv1.ManifestWorkList
	if err := c.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	for _, w := range list.Items {
		data, err := json.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(data))
	}
	slices.Sort(out)
	return out
}

// TestNewInformer compares caches with and without NewInformer, of a source in the process and of a
// server on the network, for all works, a selection, and a namespace.
func TestNewInformer(t *testing.T) {
	source := newSource(t)
	works := source.Clientset().WorkV1().ManifestWorks("cluster1")
	create := func(name, label string) {
		w := manifestWork(name)
		w.Labels = map[string]string{"a": label}
		if _, err := works.Create(t.Context(), w, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	create("before", "b")
	create("other", "c")
	handler, err := restapi.New(source.Clientset(), restapi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	inProcess, overNetwork := configOf(t, source), &rest.Config{Host: server.URL}
	selected := cache.Options{DefaultLabelSelector: labels.SelectorFromSet(labels.Set{"a": "b"})}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	for name, o := range map[string]cache.Options{
		"all": {}, "selected": selected, "namespace": {DefaultNamespaces: map[string]cache.Config{"cluster1": {}}},
	} {
		t.Run(name, func(t *testing.T) {
			direct := o
			direct.NewInformer = restconfig.NewInformer
			plain := startCache(t, ctx, inProcess, o)
			caches := []cache.Cache{startCache(t, ctx, inProcess, direct), startCache(t, ctx, overNetwork, direct)}
			check := func() {
				t.Helper()
				for i, c := range caches {
					diff := "-"
					for end := time.Now().Add(time.Minute); time.Now().Before(end); { // events are on their way
						want := listed(t, plain)
						if diff = gocmp.Diff(want, listed(t, c)); diff == "" && len(want) > 0 {
							break
						}
						time.Sleep(10 * time.Millisecond)
					}
					if diff != "" {
						t.Errorf("cache %d (-plain +NewInformer):\n%s", i, diff)
					}
				}
			}
			check()
			create("during-"+name, "b")
			check()
			for _, label := range []string{"c", "b"} { // it leaves the selection, and returns
				patch := fmt.Sprintf(`{"metadata":{"labels":{"a":%q}}}`, label)
				if _, err := works.Patch(t.Context(), "during-"+name, types.MergePatchType, []byte(patch),
					metav1.PatchOptions{}); err != nil {
					t.Fatal(err)
				}
				check()
			}
			if err := works.Delete(t.Context(), "during-"+name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			check()
		})
	}
}

// unsupported has the client-go mark of a client that cannot begin a watch with a list.
type unsupported struct{ *toolscache.ListWatch }

func (unsupported) IsWatchListSemanticsUnSupported() bool { return true }

// TestNewInformerLists: an informer that lists in pages and then watches receives all works.
func TestNewInformerLists(t *testing.T) {
	source := newSource(t)
	c, err := workclientset.NewForConfig(configOf(t, source))
	if err != nil {
		t.Fatal(err)
	}
	works := c.WorkV1().ManifestWorks("cluster1")
	for i := range 3 {
		if _, err := works.Create(t.Context(), manifestWork(fmt.Sprint("w", i)), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	lists := 0
	lw := unsupported{&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.Limit, o.ResourceVersion = 2, "" // otherwise the list is not in pages
			lists++
			return works.List(ctx, o)
		},
		WatchFuncWithContext: works.Watch,
	}}
	informer := restconfig.NewInformer(lw, &workv1.ManifestWork{}, 0, toolscache.Indexers{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); informer.RunWithContext(ctx) }()
	defer func() { cancel(); <-done }()
	if !toolscache.WaitForCacheSync(ctx.Done(), informer.HasSynced) || lists != 2 {
		t.Errorf("not synced after %d lists", lists)
	}
	if keys := informer.GetStore().ListKeys(); len(keys) != 3 {
		t.Errorf("works %v", keys)
	}
	for i, obj := range informer.GetStore().List() {
		if w, ok := obj.(*workv1.ManifestWork); !ok || len(w.Spec.Workload.Manifests) != 1 {
			t.Errorf("work %d: %+v", i, obj)
		}
	}
}
