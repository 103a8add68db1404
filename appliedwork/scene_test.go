// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// scene is a work on an in-memory cluster, with others that act between its requests. Each test
// that uses it is for one rule. TestRemovedRules shows that the test fails without the rule.
type scene struct {
	*fakeAPI
	t         *testing.T
	clock     *testingclock.FakePassiveClock
	tracker   *appliedwork.Tracker
	applier   *appliedwork.Applier
	pruner    *appliedwork.Pruner
	collector *appliedwork.Collector
	work      *v1alpha1.AppliedWork
}

const (
	shop      = "/api/v1/namespaces/shop/configmaps/"
	spaces    = "/api/v1/namespaces/"
	inventory = "/apis/multicluster.x-k8s.io/v1alpha1/appliedworks/"
)

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{fakeAPI: newFakeAPI(), t: t, clock: testingclock.NewFakePassiveClock(time.Unix(1e9, 0))}
	s.tracker, s.work = newTracker(t, s.fakeAPI, func(o *appliedwork.Options) { o.Clock = s.clock })
	s.applier, s.pruner, s.collector = appliedwork.NewApplier(s.tracker), appliedwork.NewPruner(s.tracker),
		appliedwork.NewCollector(s.tracker)
	return s
}

// at calls do just before the first request of a method for a path is executed.
func (s *scene) at(method, path string, do func(*http.Request, []byte)) {
	done := false
	s.see = func(request *http.Request, body []byte) {
		if !done && request.Method == method && strings.HasPrefix(request.URL.Path, path) {
			done = true
			do(request, body)
		}
	}
	s.t.Cleanup(func() {
		if !done {
			s.t.Errorf("there was no %s of %s", method, path)
		}
	})
}

// write changes an object like another client.
func (s *scene) write(path string, change func(*unstructured.Unstructured)) {
	obj := (&unstructured.Unstructured{Object: s.objects[path]}).DeepCopy()
	change(obj)
	s.store(path, obj.Object)
}

// put creates an object like another client.
func (s *scene) put(path string, obj *unstructured.Unstructured, uid types.UID) {
	obj = obj.DeepCopy()
	obj.SetUID(uid)
	s.store(path, obj.Object)
}

func (s *scene) apply(
	opts appliedwork.ApplyOptions, objects ...*unstructured.Unstructured,
) (*appliedwork.ChangeSet, error) {
	return s.applier.Apply(s.t.Context(), s.work, objects, opts)
}

func (s *scene) mustApply(objects ...*unstructured.Unstructured) {
	s.t.Helper()
	if _, err := s.apply(appliedwork.ApplyOptions{}, objects...); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) prune(desired ...*unstructured.Unstructured) (*appliedwork.ChangeSet, error) {
	return s.pruner.Prune(s.t.Context(), s.work, desired, appliedwork.PruneOptions{AllowEmpty: true})
}

// recorded reports whether the inventory has an object of this name.
func (s *scene) recorded(name string) bool {
	s.t.Helper()
	entries, err := s.tracker.Entries(s.t.Context(), s.work)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name == name {
			return true
		}
	}
	return false
}

func (s *scene) exists(path string) bool { return s.objects[path] != nil }

var co = metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "d", UID: "rival"}

func of(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetAPIVersion(apiVersion)
	obj.SetKind(kind)
	obj.SetNamespace(namespace)
	obj.SetName(name)
	return obj
}

// serveThings makes the cluster serve a kind in some versions. It does not create the CRD.
func (s *scene) serveThings(versions ...string) {
	for gv := range s.kinds {
		if strings.HasPrefix(gv, "example.com/") {
			delete(s.kinds, gv)
		}
	}
	for _, v := range versions {
		s.kinds["example.com/"+v] = &metav1.APIResourceList{
			APIResources: []metav1.APIResource{{Name: "things", Kind: "Thing", Namespaced: true}},
		}
	}
	s.kinds["apiextensions.k8s.io/v1"] = &metav1.APIResourceList{
		APIResources: []metav1.APIResource{{Name: "customresourcedefinitions", Kind: "CustomResourceDefinition"}},
	}
	s.away = func(path string) bool {
		version, is := strings.CutPrefix(path, "/apis/example.com/")
		return is && !slices.Contains(versions, version[:2])
	}
	s.clock.SetTime(s.clock.Now().Add(time.Minute)) // the cached discovery expires
}

const (
	things = "/apis/example.com/v1/namespaces/shop/things/"
	crds   = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"
)

func crdOfThings() *unstructured.Unstructured {
	crd := of("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "things.example.com")
	crd.Object["spec"] = map[string]any{"group": "example.com", "scope": "Namespaced",
		"names": map[string]any{"plural": "things", "kind": "Thing"}}
	return crd
}

// newProcess returns a tracker without cached data.
func newProcess(s *scene) *appliedwork.Tracker {
	tracker, err := appliedwork.NewTracker(appliedwork.Options{Client: s.client(), Discovery: s, Clock: s.clock})
	if err != nil {
		s.t.Fatal(err)
	}
	return tracker
}
