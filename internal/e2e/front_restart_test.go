// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	clientfeatures "k8s.io/client-go/features"
	clientfeaturestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/boltstore"
	"github.com/spokewire/sdk-go/cloudevents/work/restconfig"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

// restarts is a transport of clients that survive a restart of the source, as with a server that
// keeps its address.
type restarts struct {
	current     atomic.Pointer[rest.Config]
	lists       atomic.Int64 // requests
	watchLists  atomic.Int64 // watches that begin with all objects
	stopCurrent func()
}

func (r *restarts) RoundTrip(request *http.Request) (*http.Response, error) {
	switch q := request.URL.Query(); {
	case !strings.HasSuffix(request.URL.Path, "/manifestworks"):
	case q.Get("sendInitialEvents") == "true":
		r.watchLists.Add(1)
	case request.Method == http.MethodGet && q.Get("watch") == "":
		r.lists.Add(1)
	}
	return r.current.Load().Transport.RoundTrip(request)
}

// start starts a source, with a store in the file if that is not empty.
func (r *restarts) start(t *testing.T, broker *mosquitto.Broker, file string, before func(client.Client)) {
	t.Helper()
	o, closeStore := work.SourceOptions{SourceID: "hub"}, func() error { return nil }
	if file != "" {
		store, err := boltstore.Open(file, boltstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		o.Store, closeStore = store, store.Close
	}
	source, err := work.NewSource(transport(t, broker), o)
	if err != nil {
		t.Fatal(err)
	}
	stop := background(t, source.Start)
	r.stopCurrent = sync.OnceFunc(func() {
		stop()
		if err := closeStore(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(r.stopCurrent)
	config, err := restconfig.FromSource(source)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: worksScheme})
	if err != nil {
		t.Fatal(err)
	}
	before(c)
	if err := source.InventoryComplete(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.current.Store(config)
}

// follower is an informer of any kind.
type follower struct {
	name string
	list func() ([]client.Object, error)
}

// follow starts informers of four kinds.
func follow(t *testing.T, config *rest.Config) []follower {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	typed, errTyped := workclientset.NewForConfig(config)
	dyn, errDynamic := dynamic.NewForConfig(config)
	meta, errMeta := metadata.NewForConfig(config)
	cached, errCache := cache.New(config, cache.Options{Scheme: worksScheme})
	if err := errors.Join(errTyped, errDynamic, errMeta, errCache); err != nil {
		t.Fatal(err)
	}
	typedFactory := workinformers.NewSharedInformerFactory(typed, 0)
	informers := map[string]toolscache.SharedIndexInformer{"typed": typedFactory.Work().V1().ManifestWorks().Informer()}
	typedFactory.Start(ctx.Done())
	dynamicFactory := dynamicinformer.NewDynamicSharedInformerFactory(dyn, 0)
	informers["dynamic"] = dynamicFactory.ForResource(worksResource).Informer()
	dynamicFactory.Start(ctx.Done())
	metaFactory := metadatainformer.NewSharedInformerFactory(meta, 0)
	informers["metadata"] = metaFactory.ForResource(worksResource).Informer()
	metaFactory.Start(ctx.Done())
	t.Cleanup(func() { cancel(); typedFactory.Shutdown(); dynamicFactory.Shutdown(); metaFactory.Shutdown() })
	background(t, cached.Start)
	out := []follower{{"cache", func() (items []client.Object, err error) {
		var list workv1.ManifestWorkList
		err = cached.List(ctx, &list)
		for i := range list.Items {
			items = append(items, &list.Items[i])
		}
		return items, err
	}}}
	for name, informer := range informers {
		out = append(out, follower{name, func() (items []client.Object, err error) {
			for _, obj := range informer.GetStore().List() {
				o, ok := obj.(client.Object)
				if !ok {
					return nil, fmt.Errorf("the store has a %T", obj)
				}
				items = append(items, o)
			}
			return items, nil
		}})
	}
	return out
}

// eventuallyAll waits until each informer has the same works in the same versions as the source.
func (r *restarts) eventuallyAll(t *testing.T, followers []follower, step string, want int) {
	t.Helper()
	c, err := client.New(r.current.Load(), client.Options{Scheme: worksScheme})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range followers {
		eventually(t, step+": "+f.name, func() error {
			var list workv1.ManifestWorkList
			if err := c.List(t.Context(), &list); err != nil {
				return err
			}
			if len(list.Items) != want {
				return fmt.Errorf("the source has %d works, want %d", len(list.Items), want)
			}
			items, err := f.list()
			if err != nil {
				return err
			}
			versions := map[string]string{}
			for _, o := range items {
				versions[o.GetName()] = o.GetResourceVersion()
			}
			for _, w := range list.Items {
				if versions[w.Name] != w.ResourceVersion {
					return fmt.Errorf("%s has version %q, want %q", w.Name, versions[w.Name], w.ResourceVersion)
				}
			}
			if len(items) != want {
				return fmt.Errorf("the informer has %d works, want %d", len(items), want)
			}
			return nil
		})
	}
}

// TestInformersFollowRestartedSource restarts a source, with and without a store, and its broker.
// Informers of all kinds then have the works of the new source, with streaming lists and with pages.
func TestInformersFollowRestartedSource(t *testing.T) { // not parallel: it sets a feature of client-go
	for _, streams := range []bool{true, false} {
		for _, stored := range []bool{true, false} {
			t.Run(fmt.Sprintf("streams=%v stored=%v", streams, stored), func(t *testing.T) {
				clientfeaturestesting.SetFeatureDuringTest(t, clientfeatures.WatchListClient, streams)
				file := ""
				if stored {
					file = filepath.Join(t.TempDir(), "works.db")
				}
				testRestart(t, file, streams)
			})
		}
	}
}

func testRestart(t *testing.T, file string, streams bool) {
	t.Helper()
	broker := mosquitto.Start(t, mosquitto.Options{})
	agent, err := work.NewAgent(transport(t, broker), work.AgentOptions{ClusterName: "cluster1", Sources: []string{"hub"}})
	if err != nil {
		t.Fatal(err)
	}
	background(t, agent.Start)
	onCluster, err := restconfig.FromAgent(agent)
	if err != nil {
		t.Fatal(err)
	}
	finishDeletions(t, onCluster)
	named := func(i int) *workv1.ManifestWork {
		return &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "cluster1", Name: fmt.Sprint("w", i)}}
	}
	create := func(c client.Client, from, to int) {
		for i := from; i < to; i++ {
			if err := client.IgnoreAlreadyExists(c.Create(t.Context(), named(i))); err != nil {
				t.Fatal(err)
			}
		}
	}
	r := &restarts{}
	r.start(t, broker, file, func(c client.Client) { create(c, 0, 10) })
	followers := follow(t, &rest.Config{Host: "http://works.invalid", Transport: r, QPS: -1})
	r.eventuallyAll(t, followers, "start", 10)
	if streamed, listed := r.watchLists.Load() > 0, r.lists.Load() > 0; streamed != streams || listed == streams {
		t.Errorf("there were %d streaming lists and %d lists", r.watchLists.Load(), r.lists.Load())
	}

	r.stopCurrent()
	time.Sleep(100 * time.Millisecond) // the informers notice
	want := 11
	r.start(t, broker, file, func(c client.Client) {
		if file == "" { // the other works are gone
			create(c, 0, 5)
			want = 6
		}
		create(c, 10, 11)
		if err := c.Patch(t.Context(), named(4), client.RawPatch(types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"restarted":"true"}}}`))); err != nil {
			t.Fatal(err)
		}
		if err := c.Delete(t.Context(), named(3)); err != nil {
			t.Fatal(err)
		}
	})
	want-- // w3
	r.eventuallyAll(t, followers, "restart", want)

	broker.Kill()
	broker.Restart()
	agentClient, err := client.New(onCluster, client.Options{Scheme: worksScheme})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "status", func() error {
		return agentClient.Status().Patch(t.Context(), named(4), client.RawPatch(types.MergePatchType,
			[]byte(`{"status":{"conditions":[{"type":"Applied","status":"True","reason":"A","message":"",`+
				`"lastTransitionTime":"2026-01-02T03:04:05Z"}]}}`)))
	})
	eventually(t, "the status arrives", func() error {
		c, err := client.New(r.current.Load(), client.Options{Scheme: worksScheme})
		if err != nil {
			return err
		}
		w := named(4)
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(w), w); err != nil {
			return err
		}
		if len(w.Status.Conditions) == 0 {
			return errors.New("there is no status")
		}
		return nil
	})
	r.eventuallyAll(t, followers, "status", want)
}
