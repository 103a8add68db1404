// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork_test

import (
	"bytes"
	"errors"
	"fmt"
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
	s.applier, s.pruner, s.collector = appliedwork.NewApplier(s.tracker), appliedwork.NewPruner(s.tracker), appliedwork.NewCollector(s.tracker)
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

func (s *scene) apply(opts appliedwork.ApplyOptions, objects ...*unstructured.Unstructured) (*appliedwork.ChangeSet, error) {
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

// TestSafeApply tests the safety rules of Apply.
func TestSafeApply(t *testing.T) {
	a := manifest("a", "1")
	for name, test := range map[string]func(*scene){
		"the intent is recorded before the first write": func(s *scene) {
			s.at(http.MethodPost, strings.TrimSuffix(shop, "/"), func(*http.Request, []byte) {
				entries, _, _ := unstructured.NestedSlice(s.objects[inventory+"w"], "status", "appliedResources")
				if len(entries) != 1 {
					s.t.Errorf("%d entries", len(entries))
				}
			})
			s.mustApply(a)
		},
		"the owner reference is in the same request": func(s *scene) {
			s.at(http.MethodPost, strings.TrimSuffix(shop, "/"), func(_ *http.Request, body []byte) {
				if !bytes.Contains(body, []byte(`"uid":"`+string(s.work.UID)+`"`)) {
					s.t.Errorf("%s", body)
				}
			})
			s.mustApply(a)
		},
		"owner references of a manifest to AppliedWorks are not applied": func(s *scene) {
			foreign := a.DeepCopy()
			foreign.SetOwnerReferences([]metav1.OwnerReference{
				{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind, Name: "w", UID: "of-another-cluster"},
				{APIVersion: "v1", Kind: "ConfigMap", Name: "b", UID: "b"},
			})
			for policy, owners := range map[appliedwork.Policy][]types.UID{
				appliedwork.PolicyOrphan: {"b"}, appliedwork.PolicyDelete: {"b", s.work.UID},
			} {
				delete(s.objects, shop+"a")
				opts := appliedwork.ApplyOptions{Policies: appliedwork.Policies{Default: policy}}
				if _, err := s.apply(opts, foreign); err != nil {
					s.t.Fatal(err)
				}
				var uids []types.UID
				for _, owner := range (&unstructured.Unstructured{Object: s.objects[shop+"a"]}).GetOwnerReferences() {
					uids = append(uids, owner.UID)
				}
				if !slices.Equal(uids, owners) {
					s.t.Errorf("%s: the owners are %v, want %v", policy, uids, owners)
				}
			}
		},
		"each AppliedWork has a field manager of its own": func(s *scene) {
			s.mustApply(a)
			s.at(http.MethodPatch, shop+"a", func(request *http.Request, _ []byte) {
				if manager := request.URL.Query().Get("fieldManager"); !strings.HasSuffix(manager, string(s.work.UID)) {
					s.t.Error(manager)
				}
			})
			s.mustApply(manifest("a", "2"))
		},
		"nothing is applied while it is terminating": func(s *scene) {
			s.write(inventory+"w", func(w *unstructured.Unstructured) {
				w.SetAnnotations(map[string]string{v1alpha1.AnnotationTerminating: "Teardown"})
			})
			if _, err := s.apply(appliedwork.ApplyOptions{}, a); !errors.Is(err, appliedwork.ErrTerminating) || s.exists(shop+"a") {
				s.t.Error(err)
			}
		},
		"nothing is applied when it begins to terminate": func(s *scene) {
			s.at(http.MethodPut, inventory+"w", func(*http.Request, []byte) { // the intent is about to be recorded
				s.write(inventory+"w", func(w *unstructured.Unstructured) {
					w.SetAnnotations(map[string]string{v1alpha1.AnnotationTerminating: "Teardown"})
				})
			})
			if _, err := s.apply(appliedwork.ApplyOptions{}, a); !errors.Is(err, appliedwork.ErrTerminating) || s.exists(shop+"a") {
				s.t.Error(err)
			}
		},
		"what somebody else makes at the same time is not taken over": func(s *scene) {
			s.see = func(request *http.Request, _ []byte) {
				if request.Method != http.MethodGet && strings.HasPrefix(request.URL.Path, strings.TrimSuffix(shop, "/")) && !s.exists(shop+"a") {
					s.put(shop+"a", manifest("a", "theirs"), "rival")
				}
			}
			var refused *appliedwork.AdoptionError
			_, err := s.apply(appliedwork.ApplyOptions{Force: true}, a)
			if value, _, _ := unstructured.NestedString(s.objects[shop+"a"], "data", "value"); !errors.As(err, &refused) || value != "theirs" {
				s.t.Errorf("%v, value %q", err, value)
			}
		},
		"nothing is adopted unasked": func(s *scene) {
			s.put(shop+"a", manifest("a", "theirs"), "rival")
			var refused *appliedwork.AdoptionError
			_, err := s.apply(appliedwork.ApplyOptions{Force: true}, a)
			if value, _, _ := unstructured.NestedString(s.objects[shop+"a"], "data", "value"); !errors.As(err, &refused) || value != "theirs" {
				s.t.Errorf("%v, value %q", err, value)
			}
		},
		"what is adopted is what was looked at": func(s *scene) {
			s.put(shop+"a", a, "rival")
			s.at(http.MethodPatch, shop+"a", func(*http.Request, []byte) {
				s.write(shop+"a", func(obj *unstructured.Unstructured) { obj.SetOwnerReferences([]metav1.OwnerReference{co}) })
			})
			var refused *appliedwork.AdoptionError
			if _, err := s.apply(appliedwork.ApplyOptions{Adoption: appliedwork.AdoptionIfUnowned}, a); !errors.As(err, &refused) {
				s.t.Error(err)
			}
		},
		"what is changed is what was read": func(s *scene) {
			s.mustApply(a, manifest("b", "1"))
			s.objects[shop+"a"]["metadata"].(map[string]any)["managedFields"] = nil // so one request changes it
			s.at(http.MethodPatch, shop+"a", func(*http.Request, []byte) { s.put(shop+"a", manifest("a", "theirs"), "rival") })
			var refused *appliedwork.AdoptionError
			if _, err := s.apply(appliedwork.ApplyOptions{}, manifest("a", "2"), manifest("b", "1")); !errors.As(err, &refused) {
				s.t.Error(err)
			}
		},
		"what has values of an object is for that version of it": func(s *scene) {
			s.mustApply(a)
			metadata := s.objects[shop+"a"]["metadata"].(map[string]any)
			metadata["managedFields"] = nil // so one request changes it
			s.at(http.MethodPatch, shop+"a", func(*http.Request, []byte) {
				s.write(shop+"a", func(obj *unstructured.Unstructured) { obj.SetLabels(map[string]string{"changed": "meanwhile"}) })
			})
			key, err := appliedwork.Identify(a)
			if err != nil {
				s.t.Fatal(err)
			}
			of := map[appliedwork.Key]appliedwork.ObjectOptions{key: {ResourceVersion: fmt.Sprint(metadata["resourceVersion"])}}
			if _, err := s.apply(appliedwork.ApplyOptions{ByKey: of}, manifest("a", "2")); !errors.Is(err, appliedwork.ErrChanged) {
				s.t.Error(err)
			}
		},
		"an ignored field that others change meanwhile stays": ignoredRace,
		"an outcome that is not known keeps the entry": func(s *scene) {
			lost := errors.New("lost")
			s.see = func(request *http.Request, _ []byte) {
				s.lose = nil
				if request.Method == http.MethodPost && strings.HasPrefix(request.URL.Path, spaces) {
					s.lose = func() error { return lost }
				}
			}
			if _, err := s.apply(appliedwork.ApplyOptions{}, a); !errors.Is(err, lost) || !s.exists(shop+"a") || !s.recorded("a") {
				s.t.Errorf("%v, recorded %v", err, s.recorded("a"))
			}
		},
		"a refused repeat of a create is no refusal": func(s *scene) {
			s.refuse = func(request *http.Request, body []byte) *metav1.Status {
				if request.Method != http.MethodPost || !strings.HasPrefix(request.URL.Path, spaces) {
					return nil
				}
				s.refuse = nil
				_, _ = s.serve(request, body) // the first attempt
				return &metav1.Status{
					Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
				}
			}
			changes, err := s.apply(appliedwork.ApplyOptions{}, a)
			if err != nil || changes.String() != "1 unchanged" || !s.recorded("a") {
				s.t.Errorf("%v, %v, recorded %v", changes, err, s.recorded("a"))
			}
		},
		"an update that failed keeps the entry": func(s *scene) {
			s.mustApply(a)
			failed := errors.New("unavailable")
			s.fail = func(method, path string) error {
				if method == http.MethodPatch && path == shop+"a" {
					return failed
				}
				return nil
			}
			if _, err := s.apply(appliedwork.ApplyOptions{}, manifest("a", "2")); !errors.Is(err, failed) || !s.recorded("a") {
				s.t.Errorf("%v, recorded %v", err, s.recorded("a"))
			}
		},
		"a new object has a new intent": func(s *scene) {
			s.mustApply(a)
			old, err := s.tracker.Entries(s.t.Context(), s.work)
			if err != nil {
				s.t.Fatal(err)
			}
			delete(s.objects, shop+"a")
			dead := errors.New("dead")
			made := false
			s.fail = func(method, path string) error {
				if made {
					return dead
				}
				made = method == http.MethodPost && strings.HasPrefix(path, spaces)
				return nil
			}
			if _, err := s.apply(appliedwork.ApplyOptions{}, a); !errors.Is(err, dead) || !s.exists(shop+"a") {
				s.t.Fatal(err)
			}
			s.fail = nil
			if err := s.tracker.Forget(s.t.Context(), s.work, old...); err != nil { // called by a process that saw the end of the old object
				s.t.Fatal(err)
			}
			if !s.recorded("a") {
				s.t.Error("the entry of the new object is gone")
			}
		},
		"a protected namespace gets no owner": func(s *scene) {
			ns := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "default"}}}
			s.put(spaces+"default", ns, "default")
			if _, err := s.apply(appliedwork.ApplyOptions{Adoption: appliedwork.AdoptionAlways}, ns); err != nil {
				s.t.Fatal(err)
			}
			if owners := (&unstructured.Unstructured{Object: s.objects[spaces+"default"]}).GetOwnerReferences(); len(owners) > 0 {
				s.t.Error(owners)
			}
		},
	} {
		t.Run(name, func(t *testing.T) { test(newScene(t)) })
	}
}
