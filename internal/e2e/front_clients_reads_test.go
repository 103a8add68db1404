// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/restmapper"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
)

var (
	worksVersion  = schema.GroupVersion{Group: workv1.GroupName, Version: "v1"}
	worksResource = worksVersion.WithResource("manifestworks")
)

// some creates n works with labels.
func (r *clientRun) some(n int) {
	r.Helper()
	for i := range n {
		w := r.work(fmt.Sprint("w", i))
		w.Labels = map[string]string{"n": fmt.Sprint(i), "odd": fmt.Sprint(i%2 == 1)}
		r.must(r.client.Create(r.Context(), w))
	}
}

// caches covers reads of a cache with indexes and selectors, reads of own writes, and a new cache
// after the first has ended.
func (r *clientRun) caches() {
	ctx := r.Context()
	r.some(5)
	for round := range 2 { // a cache ends, and another cache starts
		works, err := cluster.New(r.hub, func(o *cluster.Options) {
			o.Scheme = worksScheme
			o.Cache.DefaultNamespaces = map[string]cache.Config{r.namespace: {}}
			o.Client.Cache = &client.CacheOptions{EnableReadYourWritesConsistency: ptr.To(true)}
		})
		r.must(err)
		r.must(works.GetFieldIndexer().IndexField(ctx, &workv1.ManifestWork{}, "label.odd", func(o client.Object) []string {
			return []string{o.GetLabels()["odd"]}
		}))
		stop := background(r.T, works.Start)
		if !works.GetCache().WaitForCacheSync(ctx) {
			r.Fatal("the cache did not start")
		}
		c := works.GetClient()
		list := func(what string, o ...client.ListOption) {
			var list workv1.ManifestWorkList
			err := c.List(ctx, &list, o...)
			r.outcome("list "+what, err)
			r.log("%d: %s", round, names(list.Items))
		}
		list("all")
		list("by index", client.MatchingFields{"label.odd": "true"}, client.InNamespace(r.namespace))
		list("by index and label", client.MatchingFields{"label.odd": "true"}, client.MatchingLabels{"n": "3"})
		list("without an index", client.MatchingFields{"label.even": "true"})
		w := r.work(fmt.Sprint("own", round))
		r.outcome("create", c.Create(ctx, w))
		r.outcome("read of an own create", c.Get(ctx, client.ObjectKeyFromObject(w), w))
		before := client.MergeFrom(w.DeepCopy())
		w.Labels = map[string]string{"odd": "true"}
		r.outcome("patch", c.Patch(ctx, w, before))
		list("own patch", client.MatchingFields{"label.odd": "true"})
		r.outcome("delete", c.Delete(ctx, w))
		err = c.Get(ctx, client.ObjectKeyFromObject(w), w)
		r.log("read of an own delete: %v", err != nil || w.DeletionTimestamp != nil)
		stop()
		r.gone(w)
	}
	r.clear()
}

// selectedCaches covers a cache with selectors: objects enter and leave it with their labels.
func (r *clientRun) selectedCaches() {
	ctx := r.Context()
	r.some(6)
	selected := cache.ByObject{
		Label:     labels.SelectorFromSet(labels.Set{"odd": "true"}),
		Field:     fields.OneTermNotEqualSelector("metadata.name", "w5"),
		Transform: cache.TransformStripManagedFields(),
	}
	c, err := cache.New(r.hub, cache.Options{Scheme: worksScheme,
		DefaultNamespaces: map[string]cache.Config{r.namespace: {}},
		ByObject:          map[client.Object]cache.ByObject{&workv1.ManifestWork{}: selected},
	})
	r.must(err)
	informer, err := c.GetInformer(ctx, &workv1.ManifestWork{}, cache.BlockUntilSynced(false))
	r.must(err)
	var seen events
	_, err = informer.AddEventHandler(seen.handler())
	r.must(err)
	stop := background(r.T, c.Start)
	defer stop()
	if !c.WaitForCacheSync(ctx) {
		r.Fatal("the cache did not start")
	}
	for i, odd := range map[int]string{0: "true", 1: "false", 5: "false"} {
		r.must(r.client.Patch(ctx, r.work(fmt.Sprint("w", i)), client.RawPatch(types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"labels":{"odd":%q}}}`, odd))))
	}
	seen.wait(r, 4) // two works from the beginning; one enters, one leaves
	var list workv1.ManifestWorkList
	r.outcome("list", c.List(ctx, &list, client.UnsafeDisableDeepCopy))
	r.log("%s, managed fields %v", names(list.Items), list.Items[0].ManagedFields)
	r.clear()
}

// gone waits until an object does not exist.
func (r *clientRun) gone(w *workv1.ManifestWork) {
	r.Helper()
	eventually(r.T, w.Name+" is gone", func() error {
		err := r.client.Get(r.Context(), client.ObjectKeyFromObject(w), w)
		if err == nil {
			return errors.New("the work exists")
		}
		return client.IgnoreNotFound(err)
	})
}

// events records the events of an informer as sorted lines.
type events struct {
	mu    sync.Mutex
	lines map[string]bool
}

// handler returns a handler that records events.
func (e *events) handler() toolscache.ResourceEventHandler {
	record := func(what string, obj any) {
		if last, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
			obj = last.Obj
		}
		o, ok := obj.(metav1.Object)
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.lines == nil {
			e.lines = map[string]bool{}
		}
		e.lines[fmt.Sprintf("%s %v %v", what, ok, o.GetName())] = true
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { record("add", obj) },
		UpdateFunc: func(_, obj any) { record("update", obj) },
		DeleteFunc: func(obj any) { record("delete", obj) },
	}
}

// wait waits for a number of lines, and adds them to the transcript.
func (e *events) wait(r *clientRun, want int) {
	r.Helper()
	var lines []string
	eventually(r.T, fmt.Sprint(want, " kinds of events"), func() error {
		e.mu.Lock()
		defer e.mu.Unlock()
		lines = lines[:0]
		for line := range e.lines {
			lines = append(lines, line)
		}
		if len(lines) != want {
			return fmt.Errorf("received %q", lines)
		}
		return nil
	})
	slices.Sort(lines)
	r.log("events: %s", strings.Join(lines, ", "))
}

// change updates w0 and deletes w1.
func (r *clientRun) change() {
	r.Helper()
	r.must(r.client.Patch(r.Context(), r.work("w0"), client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"changed":"true"}}}`))))
	r.must(r.client.Patch(r.Context(), r.work("w1"), client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"changed":"true"}}}`))))
	r.must(r.client.Delete(r.Context(), r.work("w1")))
	r.gone(r.work("w1"))
}

// metadataOnly covers the metadata client, its informers, and the metadata-only cache.
func (r *clientRun) metadataOnly() {
	ctx := r.Context()
	r.some(3)
	partial := func() *metav1.PartialObjectMetadata {
		p := &metav1.PartialObjectMetadata{}
		p.SetGroupVersionKind(worksVersion.WithKind("ManifestWork"))
		p.Namespace = r.namespace
		return p
	}
	c, err := cache.New(r.hub, cache.Options{Scheme: worksScheme,
		DefaultNamespaces: map[string]cache.Config{r.namespace: {}}})
	r.must(err)
	informer, err := c.GetInformer(ctx, partial(), cache.BlockUntilSynced(false))
	r.must(err)
	var cached events
	_, err = informer.AddEventHandler(cached.handler())
	r.must(err)
	stop := background(r.T, c.Start)
	defer stop()
	if !c.WaitForCacheSync(ctx) {
		r.Fatal("the cache did not start")
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(worksVersion.WithKind("ManifestWorkList"))
	r.outcome("list of the cache", c.List(ctx, list, client.MatchingLabels{"odd": "false"}))
	r.log("%s %s", list.Items[0].Kind, names(list.Items))
	r.outcome("list of the client", r.client.List(ctx, list, client.InNamespace(r.namespace), client.Limit(2)))
	r.log("%s, %d of %d, continue %v", list.Kind, len(list.Items), 3, list.Continue != "")
	r.show("first", &list.Items[0])

	m, err := metadata.NewForConfig(r.hub)
	r.must(err)
	factory := metadatainformer.NewFilteredSharedInformerFactory(m, 0, r.namespace, nil)
	var informed events
	_, err = factory.ForResource(worksResource).Informer().AddEventHandler(informed.handler())
	r.must(err)
	done, cancel := context.WithCancel(ctx)
	factory.Start(done.Done())
	defer factory.Shutdown()
	defer cancel()
	factory.WaitForCacheSync(ctx.Done())
	got, err := m.Resource(worksResource).Namespace(r.namespace).Get(ctx, "w2", metav1.GetOptions{})
	r.outcome("get of the metadata client", err)
	r.log("%s %s %s", got.APIVersion, got.Kind, got.Name)
	patched, err := m.Resource(worksResource).Namespace(r.namespace).Patch(ctx, "w2", types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"by":"metadata"}}}`), metav1.PatchOptions{})
	r.outcome("patch of the metadata client", err)
	r.log("labels %v", patched.Labels)
	r.change()
	cached.wait(r, 7)
	informed.wait(r, 7)
	r.outcome("delete of metadata", r.client.Delete(ctx, &list.Items[0]))
	r.clear()
}

// dynamicInformers covers the dynamic client and its informers.
func (r *clientRun) dynamicInformers() {
	ctx := r.Context()
	r.some(3)
	d, err := dynamic.NewForConfig(r.hub)
	r.must(err)
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(d, 0, r.namespace, nil)
	informer := factory.ForResource(worksResource)
	var seen events
	_, err = informer.Informer().AddEventHandler(seen.handler())
	r.must(err)
	done, cancel := context.WithCancel(ctx)
	factory.Start(done.Done())
	defer factory.Shutdown()
	defer cancel()
	factory.WaitForCacheSync(ctx.Done())
	listed, err := informer.Lister().ByNamespace(r.namespace).List(labels.SelectorFromSet(labels.Set{"odd": "true"}))
	r.outcome("lister", err)
	r.log("listed %d", len(listed))
	r.change()
	seen.wait(r, 6)
	works := d.Resource(worksResource).Namespace(r.namespace)
	u, err := works.Get(ctx, "w0", metav1.GetOptions{})
	r.outcome("get", err)
	r.show("dynamic", u)
	u.SetLabels(map[string]string{"by": "dynamic"})
	u, err = works.Update(ctx, u, metav1.UpdateOptions{FieldManager: "dynamic"})
	r.outcome("update", err)
	r.show("dynamic", u)
	_, err = works.Get(ctx, "w0", metav1.GetOptions{}, "scale")
	r.outcome("get of the scale", err)
	_, err = d.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}).
		List(ctx, metav1.ListOptions{})
	r.outcome("unknown resource", err)
	r.clear()
}

// typedClientset covers the generated clientset.
func (r *clientRun) typedClientset() {
	ctx := r.Context()
	set, err := workclientset.NewForConfig(r.hub)
	r.must(err)
	works := set.WorkV1().ManifestWorks(r.namespace)
	w, err := works.Create(ctx, r.work("typed"), metav1.CreateOptions{FieldManager: "typed"})
	r.outcome("create", err)
	r.show("created", w)
	w.Spec = spec(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a","namespace":"b"}}`)
	w, err = works.Update(ctx, w, metav1.UpdateOptions{})
	r.outcome("update", err)
	r.show("updated", w)
	w, err = works.Patch(ctx, "typed", types.ApplyPatchType,
		[]byte(`{"apiVersion":"work.open-cluster-management.io/v1","kind":"ManifestWork","metadata":{"labels":{"a":"b"}}}`),
		metav1.PatchOptions{FieldManager: "applier"})
	r.outcome("apply", err)
	r.show("applied", w)
	r.some(5)
	list, err := works.List(ctx, metav1.ListOptions{LabelSelector: "odd in (true)", FieldSelector: "metadata.name!=w1"})
	r.outcome("list", err)
	r.log("%s", names(list.Items))
	page, err := works.List(ctx, metav1.ListOptions{Limit: 4})
	r.outcome("page", err)
	r.log("%s, %d remain", names(page.Items), ptr.Deref(page.RemainingItemCount, -1))
	page, err = works.List(ctx, metav1.ListOptions{Limit: 4, Continue: page.Continue})
	r.outcome("second page", err)
	r.log("%s, continue %q", names(page.Items), page.Continue)
	_, err = works.List(ctx, metav1.ListOptions{Continue: "bad"})
	r.log("bad token: %s", apierrors.ReasonForError(err))
	_, err = works.List(ctx, metav1.ListOptions{LabelSelector: "a in b"})
	r.outcome("bad selector", err)
	err = works.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "n"})
	r.outcome("delete collection", err)
	r.outcome("delete", works.Delete(ctx, "typed", metav1.DeleteOptions{}))
	r.clear()
}

// discovery covers the discovery client and RESTMappers.
func (r *clientRun) discovery() {
	d, err := discovery.NewDiscoveryClientForConfig(r.hub)
	r.must(err)
	list, err := d.ServerResourcesForGroupVersion(worksVersion.String())
	r.outcome("resources", err)
	for _, resource := range list.APIResources {
		if strings.HasPrefix(resource.Name, "manifestworks") {
			resource.StorageVersionHash = "" // there is no storage
			if resource.Name != "manifestworks" {
				resource.Verbs = resource.Verbs[:1] // a source only reads the status
			}
			text, err := json.Marshal(resource)
			r.must(err)
			r.log("%s", text)
		}
	}
	_, err = d.ServerResourcesForGroupVersion("work.open-cluster-management.io/v2")
	r.log("unknown version: %s", apierrors.ReasonForError(err))
	mappers := map[string]interface {
		ResourceFor(schema.GroupVersionResource) (schema.GroupVersionResource, error)
		KindFor(schema.GroupVersionResource) (schema.GroupVersionKind, error)
	}{"deferred": restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(d))}
	http, err := client.New(r.hub, client.Options{Scheme: worksScheme})
	r.must(err)
	mappers["dynamic"] = http.RESTMapper()
	for _, name := range []string{"deferred", "dynamic"} {
		m := mappers[name]
		for _, partial := range []string{"manifestworks", "manifestwork"} {
			resource, err := m.ResourceFor(schema.GroupVersionResource{Group: workv1.GroupName, Resource: partial})
			r.outcome(name+" "+resource.String(), err)
			kind, err := m.KindFor(schema.GroupVersionResource{Group: workv1.GroupName, Resource: partial})
			r.outcome(name+" "+kind.String(), err)
		}
		_, err := m.ResourceFor(schema.GroupVersionResource{Group: workv1.GroupName, Resource: "others"})
		r.outcome(name, err)
	}
	mapping, err := http.RESTMapper().RESTMapping(schema.GroupKind{Group: workv1.GroupName, Kind: "ManifestWork"})
	r.outcome("mapping", err)
	r.log("%s %s", mapping.Resource, mapping.Scope.Name())
	namespaced, err := apiutil.IsObjectNamespaced(&workv1.ManifestWork{}, worksScheme, http.RESTMapper())
	r.outcome(fmt.Sprint("namespaced ", namespaced), err)
	_, err = http.RESTMapper().RESTMapping(schema.GroupKind{Group: "example.com", Kind: "Thing"})
	r.outcome("mapping of an unknown kind", err)
}

// watches covers watches with initial events and bookmarks.
func (r *clientRun) watches() {
	ctx := r.Context()
	r.some(2)
	d, err := dynamic.NewForConfig(r.hub)
	r.must(err)
	works := d.Resource(worksResource).Namespace(r.namespace)
	follow := func(what string, w watch.Interface, n int) (last string) {
		defer w.Stop()
		for range n {
			select {
			case e, ok := <-w.ResultChan():
				if !ok {
					r.Fatalf("%s: the watch ended", what)
				}
				o, ok := e.Object.(metav1.Object)
				if !ok {
					r.log("%s %s %v", what, e.Type, e.Object)
					continue
				}
				last = o.GetResourceVersion()
				r.log("%s %s %q %v", what, e.Type, o.GetName(), o.GetAnnotations())
			case <-ctx.Done():
				r.Fatal(ctx.Err())
			}
		}
		return last
	}
	w, err := works.Watch(ctx, metav1.ListOptions{AllowWatchBookmarks: true, SendInitialEvents: ptr.To(true),
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
	r.must(err)
	from := follow("initial events", w, 3)
	r.change()
	w, err = works.Watch(ctx, metav1.ListOptions{ResourceVersion: from, FieldSelector: "metadata.name=w0"})
	r.must(err)
	follow("resumed", w, 1)
	_, err = works.Watch(ctx, metav1.ListOptions{SendInitialEvents: ptr.To(true)})
	r.outcome("initial events without match", err)
	_, err = works.Watch(ctx, metav1.ListOptions{ResourceVersion: "x"})
	r.outcome("bad version", err)
	typed, err := r.client.Watch(ctx, &workv1.ManifestWorkList{}, client.InNamespace(r.namespace),
		client.MatchingLabels{"odd": "false"})
	r.must(err)
	follow("typed", typed, 1)
	partial := &metav1.PartialObjectMetadataList{}
	partial.SetGroupVersionKind(worksVersion.WithKind("ManifestWorkList"))
	meta, err := r.client.Watch(ctx, partial, client.InNamespace(r.namespace))
	r.must(err)
	follow("metadata", meta, 1)
	timeout, err := works.Watch(ctx, metav1.ListOptions{TimeoutSeconds: ptr.To(int64(1)), ResourceVersion: from})
	r.must(err)
	for range timeout.ResultChan() { // ends after a second
	}
	r.log("the watch ended")
	r.clear()
}
