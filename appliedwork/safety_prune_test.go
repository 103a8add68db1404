// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

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
		s.kinds["example.com/"+v] = &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "things", Kind: "Thing", Namespaced: true}}}
	}
	s.kinds["apiextensions.k8s.io/v1"] = &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "customresourcedefinitions", Kind: "CustomResourceDefinition"}}}
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
	crd.Object["spec"] = map[string]any{"group": "example.com", "scope": "Namespaced", "names": map[string]any{"plural": "things", "kind": "Thing"}}
	return crd
}

// TestSafePrune tests the safety rules of Prune.
func TestSafePrune(t *testing.T) {
	a, b := manifest("a", "1"), manifest("b", "1")
	thing := of("example.com/v1", "Thing", "shop", "x")
	for name, test := range map[string]func(*scene){
		"a manifest that cannot be decoded is desired": func(s *scene) {
			s.mustApply(a, b)
			if _, err := s.prune(b, nil); err == nil || !s.exists(shop+"a") {
				s.t.Error(err)
			}
		},
		"a manifest that cannot be mapped is desired": func(s *scene) {
			s.serveThings("v1")
			s.mustApply(thing)
			s.clock.SetTime(s.clock.Now().Add(time.Minute))
			process := appliedwork.NewPruner(newProcess(s))
			s.ask = func() error { s.ask = nil; return apierrors.NewServiceUnavailable("discovery") }
			if _, err := process.Prune(s.t.Context(), s.work, []*unstructured.Unstructured{thing}, appliedwork.PruneOptions{}); err != nil || !s.exists(things+"x") {
				s.t.Error(err)
			}
		},
		"what has a new owner by now is not deleted": func(s *scene) {
			s.mustApply(a)
			s.at(http.MethodDelete, shop+"a", func(*http.Request, []byte) {
				s.write(shop+"a", func(obj *unstructured.Unstructured) { obj.SetOwnerReferences(append(obj.GetOwnerReferences(), co)) })
			})
			if _, err := s.prune(); err != nil || !s.exists(shop+"a") {
				s.t.Error(err)
			}
		},
		"what has changed is decided about again": func(s *scene) {
			s.mustApply(a)
			s.at(http.MethodDelete, shop+"a", func(*http.Request, []byte) {
				s.write(shop+"a", func(obj *unstructured.Unstructured) { obj.SetLabels(map[string]string{"by": "them"}) })
			})
			if changes, err := s.prune(); err != nil || !changes.Done() || s.exists(shop+"a") {
				s.t.Errorf("%v, %v", changes, err)
			}
		},
		"what another AppliedWork is about to apply is not deleted": func(s *scene) {
			s.mustApply(a)
			other, err := s.tracker.Ensure(s.t.Context(), "other", v1alpha1.AppliedWorkSpec{WorkName: "other"})
			if err != nil {
				s.t.Fatal(err)
			}
			if err := s.tracker.RecordIntent(s.t.Context(), other, identifier("", "v1", "ConfigMap", "configmaps", "shop", "a")); err != nil {
				s.t.Fatal(err)
			}
			if _, err := s.prune(); err != nil || !s.exists(shop+"a") {
				s.t.Error(err)
			}
		},
		"a denied deletion keeps its entry, and stops no other": func(s *scene) {
			s.mustApply(a, b)
			denied := errors.New("denied")
			s.fail = func(method, path string) error {
				if method == http.MethodDelete && path == shop+"a" {
					return denied
				}
				return nil
			}
			if _, err := s.prune(); !errors.Is(err, denied) || !s.recorded("a") || s.exists(shop+"b") {
				s.t.Errorf("%v, recorded %v", err, s.recorded("a"))
			}
		},
		"an entry outlives its object": func(s *scene) {
			held := a.DeepCopy()
			held.SetFinalizers([]string{"example.com/hold"})
			s.mustApply(held)
			for range 2 {
				if changes, err := s.prune(); err != nil || changes.Done() || !s.recorded("a") {
					s.t.Errorf("%v, %v, recorded %v", changes, err, s.recorded("a"))
				}
			}
		},
		"an intent stays while a request may be under way": func(s *scene) {
			if err := s.tracker.RecordIntent(s.t.Context(), s.work, identifier("", "v1", "ConfigMap", "configmaps", "shop", "a")); err != nil {
				s.t.Fatal(err)
			}
			if changes, err := s.prune(); err != nil || changes.Done() || !s.recorded("a") {
				s.t.Errorf("%v, %v", changes, err)
			}
		},
		"a path that is not served is not an object that is gone": func(s *scene) {
			s.mustApply(a)
			s.away = func(path string) bool { return strings.HasPrefix(path, shop) } // discovery has not noticed
			if changes, err := s.prune(); err != nil || changes.Done() || !s.recorded("a") {
				s.t.Errorf("%v, %v", changes, err)
			}
		},
		"a kind that is away for a moment is not gone": func(s *scene) {
			s.serveThings("v1")
			s.mustApply(thing)
			s.serveThings()
			for range 5 {
				s.clock.SetTime(s.clock.Now().Add(10 * time.Second)) // within the grace period
				if changes, err := s.prune(); err != nil || changes.Done() || !s.recorded("x") {
					s.t.Errorf("%v, %v", changes, err)
				}
			}
		},
		"that a kind is gone is found more than once": func(s *scene) {
			s.serveThings("v1")
			s.mustApply(thing)
			s.serveThings()
			for range 2 {
				s.clock.SetTime(s.clock.Now().Add(time.Hour))
				if changes, err := s.prune(); err != nil || changes.Done() || !s.recorded("x") {
					s.t.Errorf("%v, %v", changes, err)
				}
			}
		},
		"a kind whose CRD exists is not gone": func(s *scene) {
			s.serveThings("v1")
			s.mustApply(thing)
			s.serveThings()
			s.put(crds+"things.example.com", crdOfThings(), "crd")
			for range 5 {
				s.clock.SetTime(s.clock.Now().Add(time.Hour))
				if changes, err := s.prune(); err != nil || changes.Done() || !s.recorded("x") {
					s.t.Errorf("%v, %v", changes, err)
				}
			}
		},
		"a version that is not served is not the only one": func(s *scene) {
			s.serveThings("v1", "v2")
			s.mustApply(of("example.com/v2", "Thing", "shop", "x"))
			s.serveThings("v1")
			_, _ = s.prune() // this call may find that discovery is outdated
			if changes, err := s.prune(); err != nil || !changes.Done() || s.exists(things+"x") {
				s.t.Errorf("%v, %v", changes, err)
			}
		},
		"the order is the reverse of apply": func(s *scene) {
			policy := of("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "", "p")
			s.kinds["admissionregistration.k8s.io/v1"] = &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "validatingadmissionpolicies", Kind: "ValidatingAdmissionPolicy"}}}
			s.serveThings("v1")
			s.mustApply(policy, thing, a, of("v1", "Namespace", "", "shop"))
			s.writes = nil
			if _, err := s.prune(); err != nil {
				s.t.Fatal(err)
			}
			s.writes = slices.DeleteFunc(s.writes, func(w string) bool { return !strings.HasPrefix(w, http.MethodDelete) })
			want := []string{"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/p", things + "x", shop + "a", spaces + "shop"}
			for i := range want {
				want[i] = http.MethodDelete + " " + want[i]
			}
			if !slices.Equal(s.writes, want) {
				s.t.Errorf("%q", s.writes)
			}
		},
	} {
		t.Run(name, func(t *testing.T) { test(newScene(t)) })
	}
}

// TestSafeGuards tests the objects that Prune refuses to delete.
func TestSafeGuards(t *testing.T) {
	a, ns := manifest("a", "1"), of("v1", "Namespace", "", "shop")
	blocked := func(s *scene, path string, reason appliedwork.BlockReason, desired ...*unstructured.Unstructured) {
		s.t.Helper()
		var refused *appliedwork.PruneBlockedError
		_, err := s.prune(desired...)
		if !errors.As(err, &refused) || refused.Reason != reason || !s.exists(path) {
			s.t.Errorf("%v, want %s; there: %v", err, reason, s.exists(path))
		}
	}
	for name, test := range map[string]func(*scene){
		"a namespace with what is desired": func(s *scene) {
			s.mustApply(a, ns)
			blocked(s, spaces+"shop", appliedwork.BlockReasonNamespaceInUse, a)
		},
		"a namespace with what is another's": func(s *scene) {
			s.mustApply(ns)
			other, err := s.tracker.Ensure(s.t.Context(), "other", v1alpha1.AppliedWorkSpec{WorkName: "other"})
			if err != nil {
				s.t.Fatal(err)
			}
			if err := s.tracker.RecordIntent(s.t.Context(), other, identifier("", "v1", "ConfigMap", "configmaps", "shop", "z")); err != nil {
				s.t.Fatal(err)
			}
			blocked(s, spaces+"shop", appliedwork.BlockReasonNamespaceInUse)
		},
		"a namespace with an object of a user": func(s *scene) {
			s.mustApply(a, ns)
			s.put(shop+"kube-root-ca.crt", manifest("kube-root-ca.crt", "1"), "root")
			s.put(shop+"users", manifest("users", "1"), "users")
			blocked(s, spaces+"shop", appliedwork.BlockReasonNamespaceNotEmpty)
			delete(s.objects, shop+"users")
			if _, err := s.prune(); err != nil || s.exists(spaces+"shop") {
				s.t.Error(err)
			}
		},
		"a namespace with a kind that cannot be listed": func(s *scene) {
			s.mustApply(ns)
			s.kinds["v1"].APIResources = append(s.kinds["v1"].APIResources, metav1.APIResource{
				Name: "mysteries", Kind: "Mystery", Namespaced: true, Verbs: metav1.Verbs{"delete"}})
			s.clock.SetTime(s.clock.Now().Add(time.Minute))
			process := appliedwork.NewPruner(newProcess(s))
			var refused *appliedwork.PruneBlockedError
			_, err := process.Prune(s.t.Context(), s.work, nil, appliedwork.PruneOptions{AllowEmpty: true})
			if !errors.As(err, &refused) || refused.Reason != appliedwork.BlockReasonNamespaceUnreadable || !s.exists(spaces+"shop") {
				s.t.Error(err)
			}
		},
		"a namespace with a kind that is no longer served": func(s *scene) {
			s.mustApply(ns)
			s.kinds["v1"].APIResources = append(s.kinds["v1"].APIResources, metav1.APIResource{
				Name: "mysteries", Kind: "Mystery", Namespaced: true, Verbs: metav1.Verbs{"delete", "list"}})
			s.away = func(path string) bool { return strings.HasSuffix(path, "/mysteries") }
			s.clock.SetTime(s.clock.Now().Add(time.Minute))
			process := appliedwork.NewPruner(newProcess(s))
			changes, err := process.Prune(s.t.Context(), s.work, nil, appliedwork.PruneOptions{AllowEmpty: true})
			if err != nil || changes.Count(appliedwork.ActionPending) != 1 || !s.exists(spaces+"shop") {
				s.t.Errorf("%v, %v", changes, err)
			}
		},
		"a namespace with what does not go": func(s *scene) {
			held := a.DeepCopy()
			held.SetFinalizers([]string{"example.com/hold"})
			s.mustApply(held, ns)
			if changes, err := s.prune(); err != nil || changes.Count(appliedwork.ActionPending) != 2 || !s.exists(spaces+"shop") {
				s.t.Errorf("%v, %v", changes, err)
			}
		},
		"a namespace of the cluster": func(s *scene) {
			system := of("v1", "Namespace", "", "kube-system")
			appliedwork.SetOwnerReference(system, s.work)
			s.put(spaces+"kube-system", system, "system")
			id := v1alpha1.ResourceIdentifier{Version: "v1", Kind: "Namespace", Resource: "namespaces", Name: "kube-system"}
			if err := s.tracker.RecordApplied(s.t.Context(), s.work, entry(id, "system")); err != nil {
				s.t.Fatal(err)
			}
			blocked(s, spaces+"kube-system", appliedwork.BlockReasonProtected)
		},
		"a CRD with what is another's": func(s *scene) {
			s.serveThings("v1")
			s.mustApply(crdOfThings())
			s.put(things+"theirs", of("example.com/v1", "Thing", "shop", "theirs"), "theirs")
			blocked(s, crds+"things.example.com", appliedwork.BlockReasonCRDInUse)
		},
		"a CRD of a kind that is no longer served": func(s *scene) {
			s.serveThings("v1")
			s.mustApply(crdOfThings())
			s.away = func(path string) bool { return strings.HasSuffix(path, "/things") }
			if changes, err := s.prune(); err != nil || changes.Count(appliedwork.ActionPending) != 1 || !s.exists(crds+"things.example.com") {
				s.t.Errorf("%v, %v", changes, err)
			}
		},
		"everything": func(s *scene) {
			s.mustApply(a)
			if _, err := s.pruner.Prune(s.t.Context(), s.work, nil, appliedwork.PruneOptions{}); !errors.Is(err, appliedwork.ErrEmptyDesired) || !s.exists(shop+"a") {
				s.t.Error(err)
			}
		},
		"an AppliedWork with what was recorded meanwhile": func(s *scene) {
			s.mustApply(a)
			s.at(http.MethodDelete, inventory+"w", func(*http.Request, []byte) {
				late := a.DeepCopy()
				late.SetName("late")
				appliedwork.SetOwnerReference(late, s.work)
				s.put(shop+"late", late, "late")
				s.write(inventory+"w", func(w *unstructured.Unstructured) {
					e := map[string]any{"ordinal": int64(0), "version": "v1", "kind": "ConfigMap", "resource": "configmaps", "namespace": "shop", "name": "late", "uid": "late"}
					_ = unstructured.SetNestedSlice(w.Object, []any{e}, "status", "appliedResources")
				})
			})
			if changes, err := s.collector.Teardown(s.t.Context(), s.work, appliedwork.TeardownOptions{}); err != nil || !changes.Done() || s.exists(shop+"late") {
				s.t.Errorf("%v, %v", changes, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) { test(newScene(t)) })
	}
}

// newProcess returns a tracker without cached data.
func newProcess(s *scene) *appliedwork.Tracker {
	tracker, err := appliedwork.NewTracker(appliedwork.Options{Client: s.client(), Discovery: s, Clock: s.clock})
	if err != nil {
		s.t.Fatal(err)
	}
	return tracker
}
