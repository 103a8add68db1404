// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// fakeAPI is an in-memory API server with the features that the examples need: versions and UIDs,
// preconditions, status as a subresource, and an apply that merges. internal/e2e tests the rest on
// a real server.
type fakeAPI struct {
	mu      sync.Mutex
	objects map[string]map[string]any // by path
	version int
	writes  []string
	kinds   map[string]*metav1.APIResourceList
	see     func(*http.Request, []byte)     // called before each request, with objects locked
	fail    func(method, path string) error // an error stops the request
	away    func(path string) bool          // reports whether a path is not served
	ask     func() error                    // an error stops discovery
	lose    func() error                    // an error replaces the answer of an executed request
	listed  func(items []any, slim bool)    // called for each page of a list, with objects locked

	// refuse returns the answer to a request that is not executed, or nil.
	refuse func(*http.Request, []byte) *metav1.Status

	establish bool // gives created CRDs the condition Established
}

func newFakeAPI() *fakeAPI {
	resource := func(name, kind string, namespaced bool) metav1.APIResource {
		return metav1.APIResource{Name: name, Kind: kind, Namespaced: namespaced,
			Verbs: metav1.Verbs{"get", "list", "create", "delete"}}
	}
	return &fakeAPI{objects: map[string]map[string]any{}, kinds: map[string]*metav1.APIResourceList{
		"v1": {APIResources: []metav1.APIResource{resource("configmaps", "ConfigMap", true),
			resource("namespaces", "Namespace", false)}},
		"rbac.authorization.k8s.io/v1": {
			APIResources: []metav1.APIResource{resource("clusterroles", "ClusterRole", false)},
		},
		"multicluster.x-k8s.io/v1alpha1": {
			APIResources: []metav1.APIResource{resource("appliedworks", "AppliedWork", false)},
		},
	}}
}

func (f *fakeAPI) client() dynamic.Interface {
	client, err := dynamic.NewForConfigAndClient(&rest.Config{Host: "http://memory", QPS: -1}, &http.Client{Transport: f})
	if err != nil {
		panic(err)
	}
	return client
}

func (f *fakeAPI) metadata() metadata.Interface {
	client, err := metadata.NewForConfigAndClient(&rest.Config{Host: "http://memory", QPS: -1}, &http.Client{Transport: f})
	if err != nil {
		panic(err)
	}
	return client
}

func (f *fakeAPI) ServerGroupsWithContext(context.Context) (*metav1.APIGroupList, error) {
	list := &metav1.APIGroupList{}
	for _, gv := range slices.Sorted(maps.Keys(f.kinds)) {
		parsed, _ := schema.ParseGroupVersion(gv)
		v := metav1.GroupVersionForDiscovery{GroupVersion: gv, Version: parsed.Version}
		list.Groups = append(list.Groups, metav1.APIGroup{Name: parsed.Group, PreferredVersion: v,
			Versions: []metav1.GroupVersionForDiscovery{v}})
	}
	return list, nil
}

func (f *fakeAPI) ServerResourcesForGroupVersionWithContext(
	_ context.Context, gv string,
) (*metav1.APIResourceList, error) {
	if f.ask != nil {
		if err := f.ask(); err != nil {
			return nil, err
		}
	}
	if list, ok := f.kinds[gv]; ok {
		return list, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{}, gv)
}

// RoundTrip answers like an API server.
func (f *fakeAPI) RoundTrip(request *http.Request) (*http.Response, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var body []byte
	if request.Body != nil {
		body, _ = io.ReadAll(request.Body)
	}
	if f.see != nil {
		f.see(request, body)
	}
	if f.away != nil && f.away(request.URL.Path) {
		return &http.Response{StatusCode: http.StatusNotFound, Request: request,
			Body:   io.NopCloser(strings.NewReader("404 page not found")),
			Header: http.Header{"Content-Type": {"text/plain"}}}, nil
	}
	if f.fail != nil {
		if err := f.fail(request.Method, request.URL.Path); err != nil {
			return nil, err
		}
	}
	code, answer := f.answer(request, body)
	if request.Method != http.MethodGet && code < 300 {
		f.writes = append(f.writes, request.Method+" "+request.URL.Path)
	}
	if f.lose != nil {
		if err := f.lose(); err != nil {
			return nil, err
		}
	}
	text, err := json.Marshal(answer)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: code, Request: request, Body: io.NopCloser(bytes.NewReader(text)),
		Header: http.Header{"Content-Type": {"application/json"}}}, nil
}

func (f *fakeAPI) answer(request *http.Request, body []byte) (int, any) {
	if f.refuse != nil {
		if status := f.refuse(request, body); status != nil {
			status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
			return int(status.Code), status
		}
	}
	if request.URL.Query().Get("dryRun") != "" {
		objects, version := maps.Clone(f.objects), f.version
		defer func() { f.objects, f.version = objects, version }()
	}
	return f.serve(request, body)
}

func (f *fakeAPI) serve(request *http.Request, body []byte) (int, any) {
	path, status := strings.CutSuffix(request.URL.Path, "/status")
	path = strings.Replace(path, "/v2/", "/v1/", 1) // all versions have the object
	parts := strings.Split(path, "/")
	name := parts[len(parts)-1]
	live, exists := f.objects[path]
	var sent map[string]any
	_ = json.Unmarshal(body, &sent)
	obj := &unstructured.Unstructured{Object: live}
	switch {
	case request.Method == http.MethodPost:
		name, _, _ = unstructured.NestedString(sent, "metadata", "name")
		if _, again := f.objects[path+"/"+name]; again {
			return refuse(http.StatusConflict, metav1.StatusReasonAlreadyExists, name)
		}
		made := &unstructured.Unstructured{Object: sent}
		made.SetUID(types.UID(fmt.Sprint("uid-", f.version)))
		made.SetGeneration(1)
		if f.establish && made.GetKind() == "CustomResourceDefinition" {
			_ = unstructured.SetNestedSlice(sent, []any{map[string]any{"type": "Established", "status": "True"}}, "status",
				"conditions")
		}
		f.manage(made, request)
		return http.StatusCreated, f.store(path+"/"+name, sent)
	case request.Method == http.MethodGet && f.isResource(name):
		return http.StatusOK, f.list(path, request)
	case !exists:
		return refuse(http.StatusNotFound, metav1.StatusReasonNotFound, name)
	case request.Method == http.MethodGet:
		return http.StatusOK, live
	case request.Method == http.MethodDelete:
		var options metav1.DeleteOptions
		_ = json.Unmarshal(body, &options)
		if p := options.Preconditions; p != nil && (p.UID != nil && *p.UID != obj.GetUID() || p.ResourceVersion != nil &&
			*p.ResourceVersion != obj.GetResourceVersion()) {
			return refuse(http.StatusConflict, metav1.StatusReasonConflict, name)
		}
		if len(obj.GetFinalizers()) > 0 {
			held := obj.DeepCopy()
			held.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
			return http.StatusOK, f.store(path, held.Object)
		}
		delete(f.objects, path)
		return http.StatusOK, metav1.Status{Status: metav1.StatusSuccess}
	}
	return f.change(request, path, live, sent, body, status)
}

// change executes an update of the status or a patch.
func (f *fakeAPI) change(
	request *http.Request, path string, live, sent map[string]any, body []byte, status bool,
) (int, any) {
	now := (&unstructured.Unstructured{Object: live}).DeepCopy()
	before := now.GetResourceVersion()
	switch request.Header.Get("Content-Type") {
	case "application/json-patch+json":
		patch, err := jsonpatch.DecodePatch(body)
		text, _ := json.Marshal(live)
		if err == nil {
			text, err = patch.Apply(text)
		}
		if err != nil {
			return refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, now.GetName())
		}
		now = &unstructured.Unstructured{}
		_ = json.Unmarshal(text, &now.Object)
	default:
		if status {
			now.SetResourceVersion((&unstructured.Unstructured{Object: sent}).GetResourceVersion())
			now.Object["status"] = sent["status"]
			break
		}
		if uid, _, _ := unstructured.NestedString(sent, "metadata", "uid"); uid != "" && uid != string(now.GetUID()) {
			return refuse(http.StatusConflict, metav1.StatusReasonConflict, now.GetName())
		}
		overlay(now.Object, sent)
		if strings.Contains(request.Header.Get("Content-Type"), "apply-patch") {
			f.manage(now, request)
		}
	}
	if rv := now.GetResourceVersion(); rv != "" && rv != before {
		return refuse(http.StatusConflict, metav1.StatusReasonConflict, now.GetName())
	}
	return http.StatusOK, f.store(path, now.Object)
}

// manage makes the manager of a request the manager of all fields. That is enough for objects with
// one manager.
func (f *fakeAPI) manage(obj *unstructured.Unstructured, request *http.Request) {
	operation := metav1.ManagedFieldsOperationApply
	if request.Method == http.MethodPost {
		operation = metav1.ManagedFieldsOperationUpdate
	}
	fields, _ := json.Marshal(fieldSet(obj.Object))
	obj.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: request.URL.Query().Get("fieldManager"), Operation: operation, APIVersion: obj.GetAPIVersion(),
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(fields)),
	}})
}

func fieldSet(value any) map[string]any {
	set := map[string]any{}
	if object, ok := value.(map[string]any); ok {
		for name, sub := range object {
			set["f:"+name] = fieldSet(sub)
		}
	}
	return set
}

func (f *fakeAPI) store(path string, object map[string]any) map[string]any {
	f.version++
	(&unstructured.Unstructured{Object: object}).SetResourceVersion(fmt.Sprint(f.version))
	f.objects[path] = object
	return object
}

func (f *fakeAPI) list(path string, request *http.Request) any {
	items := []any{}
	base, resource, _ := cutLast(path)
	only, one := strings.CutPrefix(request.URL.Query().Get("fieldSelector"), "metadata.name=")
	slim := isSlim(request)
	for _, p := range slices.Sorted(maps.Keys(f.objects)) {
		collection, name, _ := cutLast(p)
		if one && name != only {
			continue
		}
		if collection == path || strings.HasPrefix(p, base+"/namespaces/") && strings.HasSuffix(collection, "/"+resource) {
			item := f.objects[p]
			if slim {
				item = map[string]any{"metadata": item["metadata"]}
			}
			items = append(items, item)
		}
	}
	meta := map[string]any{"resourceVersion": fmt.Sprint(f.version)}
	from, _ := strconv.Atoi(request.URL.Query().Get("continue"))
	items = items[from:]
	if limit, _ := strconv.Atoi(request.URL.Query().Get("limit")); limit > 0 && limit < len(items) {
		items, meta["continue"] = items[:limit], strconv.Itoa(from+limit)
	}
	if f.listed != nil {
		f.listed(items, slim)
	}
	list := map[string]any{"apiVersion": "v1", "kind": "List", "metadata": meta, "items": items}
	if slim {
		list["apiVersion"], list["kind"] = "meta.k8s.io/v1", "PartialObjectMetadataList"
	}
	return list
}

// isSlim reports whether a request is for metadata only.
func isSlim(request *http.Request) bool {
	return strings.Contains(request.Header.Get("Accept"), "as=PartialObjectMetadataList")
}

func cutLast(path string) (before, after string, found bool) {
	i := strings.LastIndex(path, "/")
	return path[:max(i, 0)], path[i+1:], i >= 0
}

func (f *fakeAPI) isResource(name string) bool {
	for _, list := range f.kinds {
		if slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == name }) {
			return true
		}
	}
	return false
}

func overlay(into, from map[string]any) {
	for name, value := range from {
		old, ok := into[name].(map[string]any)
		sub, both := value.(map[string]any)
		switch {
		case value == nil:
			delete(into, name)
		case ok && both:
			overlay(old, sub)
		default:
			into[name] = value
		}
	}
}

func refuse(code int32, reason metav1.StatusReason, name string) (int, any) {
	return int(code), metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: code, Reason: reason,
		Message: name + " " + string(reason), Details: &metav1.StatusDetails{Name: name},
	}
}
