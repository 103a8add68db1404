// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package fakeapi is a small Kubernetes API server for tests: discovery, GET, LIST, WATCH and CRDs,
// over memory or any listener, with faults on demand. It has only the goroutines of its HTTP
// server, so it can run in synctest bubbles.
package fakeapi

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// These kinds exist on a new server.
var (
	Secret    = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	ConfigMap = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	Namespace = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
	CRD       = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
)

// Server is the API server. Its methods may be called from any goroutine.
type Server struct {
	// Plain disables watches with initial events. PageSize limits the pages of lists. Set both
	// before use.
	Plain    bool
	PageSize int

	http     http.Server
	listener *listener

	mu        sync.Mutex
	kinds     map[schema.GroupVersionKind]kind
	objects   map[key]*unstructured.Unstructured
	history   []change
	version   int64
	compacted int64 // watches cannot begin before this version
	uids      int
	bookmarks int           // counts calls of Bookmark
	cuts      int           // counts calls of Disconnect
	changed   chan struct{} // closed and replaced when any of the above changes
	hook      func(Request) Fault
	counts    Counts
	asked     []Request
}

// Counts contains the numbers of connections and requests since the start, and of open watches.
type Counts struct{ Dials, Discoveries, Gets, Lists, Watches, Streams int }

type kind struct {
	resource   string
	namespaced bool
	verbs      []string
}

type key struct {
	gvk             schema.GroupVersionKind
	namespace, name string
}

// change is one event of the history. old is nil after a creation, now after a deletion.
type change struct {
	version  int64
	gvk      schema.GroupVersionKind
	old, now *unstructured.Unstructured
	ends     bool // the kind was deleted: its watches end
}

// New returns a server that accepts the connections of Config until Close.
func New() *Server {
	s := &Server{
		kinds: map[schema.GroupVersionKind]kind{
			Secret: {"secrets", true, nil}, ConfigMap: {"configmaps", true, nil},
			Namespace: {"namespaces", false, nil}, CRD: {"customresourcedefinitions", false, nil},
		},
		objects: map[key]*unstructured.Unstructured{}, changed: make(chan struct{}), version: 100,
	}
	s.listener = newListener()
	s.http.Handler = s
	go s.http.Serve(s.listener) //nolint:errcheck // Close ends it
	return s
}

// Config returns the configuration for clients of the server.
func (s *Server) Config() *rest.Config {
	return &rest.Config{Host: "http://fake", Dial: s.listener.dial}
}

// Close ends all connections.
func (s *Server) Close() { s.http.Close() } //nolint:errcheck // of a pipe

// Disconnect breaks all streams and connections.
func (s *Server) Disconnect() {
	s.mu.Lock()
	s.cuts++
	s.wake()
	s.mu.Unlock()
	s.listener.cut()
}

// Stop breaks all connections and refuses new ones until Start.
func (s *Server) Stop() {
	s.listener.refuse(true)
	s.Disconnect()
}

// Start accepts connections again.
func (s *Server) Start() { s.listener.refuse(false) }

// Hook sets a function that returns the fault of each request; nil means no faults.
func (s *Server) Hook(hook func(Request) Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = hook
}

// Counts returns the current counts.
func (s *Server) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts
	c.Dials = s.listener.count()
	return c
}

// Requests returns all requests so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// Object makes an object for Put. Labels alternate between key and value.
func Object(gvk schema.GroupVersionKind, namespace, name string, labels ...string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace(namespace)
	u.SetName(name)
	set := map[string]string{}
	for i := 0; i+1 < len(labels); i += 2 {
		set[labels[i]] = labels[i+1]
	}
	u.SetLabels(set)
	return u
}

// Put creates or updates an object, and returns its resource version.
func (s *Server) Put(u *unstructured.Unstructured) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.put(u)
}

func (s *Server) put(u *unstructured.Unstructured) string {
	k := key{u.GroupVersionKind(), u.GetNamespace(), u.GetName()}
	old := s.objects[k]
	now := u.DeepCopy()
	if old != nil {
		now.SetUID(old.GetUID())
	} else {
		s.uids++
		now.SetUID(types.UID(fmt.Sprintf("uid-%d", s.uids)))
	}
	s.version++
	now.SetResourceVersion(strconv.FormatInt(s.version, 10))
	s.objects[k] = now
	s.happened(change{gvk: k.gvk, old: old, now: now})
	return now.GetResourceVersion()
}

// Delete deletes an object, if it exists.
func (s *Server) Delete(gvk schema.GroupVersionKind, namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(key{gvk, namespace, name})
}

func (s *Server) remove(k key) {
	if old := s.objects[k]; old != nil {
		s.version++
		delete(s.objects, k)
		s.happened(change{gvk: k.gvk, old: old})
	}
}

func (s *Server) happened(c change) {
	c.version = s.version
	s.history = append(s.history, c)
	s.wake()
}

func (s *Server) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Get returns an object, or nil if it does not exist.
func (s *Server) Get(gvk schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[key{gvk, namespace, name}]
}

// List returns the objects of a kind, sorted by namespace and name. An empty namespace means all
// namespaces.
func (s *Server) List(
	gvk schema.GroupVersionKind, namespace string, selector labels.Selector,
) []*unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list(gvk, filter{namespace: namespace, selector: selector})
}

func (s *Server) list(gvk schema.GroupVersionKind, f filter) []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for k, o := range s.objects {
		if k.gvk == gvk && f.matches(o) {
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b *unstructured.Unstructured) int { return compareNames(a, b) })
	return all
}

// listAt is list at an earlier version.
func (s *Server) listAt(gvk schema.GroupVersionKind, f filter, version int64) []*unstructured.Unstructured {
	now := s.objects
	defer func() { s.objects = now }()
	s.objects = maps.Clone(now)
	for _, c := range slices.Backward(s.history) {
		if c.version <= version {
			break
		}
		if c.now != nil {
			delete(s.objects, key{c.gvk, c.now.GetNamespace(), c.now.GetName()})
		}
		if c.old != nil {
			s.objects[key{c.gvk, c.old.GetNamespace(), c.old.GetName()}] = c.old
		}
	}
	return s.list(gvk, f)
}

// Version returns the resource version of the last change.
func (s *Server) Version() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strconv.FormatInt(s.version, 10)
}

// Compact makes the server forget its history: watches cannot begin at earlier versions.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.compacted = s.version
}

// Bookmark sends a bookmark on all streams.
func (s *Server) Bookmark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bookmarks++
	s.wake()
}

// Snapshot returns a function that restores the current objects, like a backup of etcd. Versions
// continue from the version of the snapshot, and connections break.
func (s *Server) Snapshot() (restore func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	version, objects := s.version, maps.Clone(s.objects)
	return func() {
		s.mu.Lock()
		s.version, s.compacted, s.objects, s.history = version, version, objects, nil
		s.cuts++
		s.wake()
		s.mu.Unlock()
		s.listener.cut()
	}
}

// AddKind adds a kind to the server. Empty verbs allow get, list and watch.
func (s *Server) AddKind(gvk schema.GroupVersionKind, resource string, namespaced bool, verbs ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kinds[gvk] = kind{resource, namespaced, verbs}
}

// CreateCRD creates the CRD of a kind. The kind is served after the given time, and then the CRD is
// established.
func (s *Server) CreateCRD(gvk schema.GroupVersionKind, resource string, namespaced bool, after time.Duration) {
	crd := Object(CRD, "", resource+"."+gvk.Group)
	s.Put(crd)
	time.AfterFunc(after, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.objects[key{CRD, "", crd.GetName()}] == nil {
			return
		}
		s.kinds[gvk] = kind{resource, namespaced, nil}
		crd.SetAnnotations(map[string]string{"established": "true"})
		s.put(crd)
	})
}

// DeleteCRD deletes a kind with its objects and its CRD, and ends its watches.
func (s *Server) DeleteCRD(gvk schema.GroupVersionKind, resource string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.list(gvk, filter{}) {
		s.remove(key{gvk, o.GetNamespace(), o.GetName()})
	}
	delete(s.kinds, gvk)
	s.version++
	s.happened(change{gvk: gvk, ends: true})
	s.remove(key{CRD, "", resource + "." + gvk.Group})
}
