// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"context"
	"errors"
	"io"
	"net/url"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
	appliedworkv1alpha1 "github.com/spokewire/sdk-go/appliedwork/v1alpha1/applyconfiguration/appliedwork/v1alpha1"
)

// server stores one CRD, and establishes it.
type server struct {
	crd    *unstructured.Unstructured
	writes int
	rival  *unstructured.Unstructured // created just before our create
	gone   time.Time                  // end of a CRD that is being deleted
	err    error                      // of all requests until healthy
	since  time.Time                  // since when the server is healthy
}

func (s *server) Get(context.Context, string, metav1.GetOptions, ...string) (*unstructured.Unstructured, error) {
	if s.err != nil && time.Now().Before(s.since) {
		return nil, s.err
	}
	if s.crd != nil && s.crd.GetDeletionTimestamp() != nil && time.Now().After(s.gone) {
		s.crd = nil
	}
	if s.crd == nil {
		return nil, apierrors.NewNotFound(v1alpha1.CRDResource.GroupResource(), v1alpha1.CRDName)
	}
	return s.crd.DeepCopy(), nil
}

func (s *server) Create(
	_ context.Context, obj *unstructured.Unstructured, _ metav1.CreateOptions, _ ...string,
) (*unstructured.Unstructured, error) {
	if s.err != nil && time.Now().Before(s.since) {
		return nil, s.err
	}
	if s.rival != nil {
		s.crd, s.rival = s.rival, nil
	}
	if s.crd != nil {
		return nil, apierrors.NewAlreadyExists(v1alpha1.CRDResource.GroupResource(), v1alpha1.CRDName)
	}
	return s.store(obj), nil
}

func (s *server) Update(
	_ context.Context, obj *unstructured.Unstructured, _ metav1.UpdateOptions, _ ...string,
) (*unstructured.Unstructured, error) {
	return s.store(obj), nil
}

func (s *server) store(obj *unstructured.Unstructured) *unstructured.Unstructured {
	s.writes++
	s.crd = established(obj.DeepCopy())
	return s.crd
}

func established(crd *unstructured.Unstructured) *unstructured.Unstructured {
	crd.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True"}}}
	return crd
}

// upstream returns the CRD of work-api.
func upstream(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	crd := &unstructured.Unstructured{}
	text, err := os.ReadFile("../testdata/upstream-crd.yaml")
	if err == nil {
		err = yaml.Unmarshal(text, &crd.Object)
	}
	if err != nil {
		t.Fatal(err)
	}
	return established(crd)
}

func names(crd *unstructured.Unstructured) (names []string) {
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		v := v.(map[string]any)
		names = append(names, v["name"].(string)+map[bool]string{true: "*"}[v["storage"] == true])
	}
	return names
}

func TestEnsureCRD(t *testing.T) {
	newer := upstream(t)
	versions, _, _ := unstructured.NestedSlice(newer.Object, "spec", "versions")
	beta := runtime.DeepCopyJSONValue(versions[0]).(map[string]any)
	beta["name"] = "v1beta1"
	versions[0].(map[string]any)["storage"] = false
	_ = unstructured.SetNestedSlice(newer.Object, append(versions, beta), "spec", "versions")

	future := established(v1alpha1.CRD())
	future.SetAnnotations(map[string]string{v1alpha1.GroupName + "/schema-revision": "1000"})

	richer := upstream(t)
	versions, _, _ = unstructured.NestedSlice(richer.Object, "spec", "versions")
	_ = unstructured.SetNestedField(versions[0].(map[string]any), map[string]any{"type": "string"}, "schema",
		"openAPIV3Schema", "properties", "status", "properties", "later")
	_ = unstructured.SetNestedSlice(richer.Object, versions, "spec", "versions")

	tests := []struct {
		name, reason string
		server       server
		writes       int
		versions     string
	}{
		{"absent", "it is created", server{}, 1, "v1alpha1*"},
		{"current", "nothing to do", server{crd: established(v1alpha1.CRD())}, 0, "v1alpha1*"},
		{"work-api's", "it gets the missing fields", server{crd: upstream(t)}, 1, "v1alpha1*"},
		{"with another version", "the other version and the stored version stay", server{crd: newer}, 1, "v1alpha1 v1beta1*"},
		{"a later revision", "never downgraded", server{crd: future}, 0, "v1alpha1*"},
		{"fields unknown to us", "the fields stay", server{crd: richer}, 0, "v1alpha1*"},
		{"a race", "another client created it first", server{rival: established(v1alpha1.CRD())}, 0, "v1alpha1*"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if err := v1alpha1.EnsureCRD(t.Context(), &test.server); err != nil {
				t.Fatal(err)
			}
			if test.server.writes != test.writes {
				t.Errorf("%d writes, want %d: %s", test.server.writes, test.writes, test.reason)
			}
			got := ""
			for i, n := range names(test.server.crd) {
				if i > 0 {
					got += " "
				}
				got += n
			}
			if got != test.versions {
				t.Errorf("versions %s, want %s: %s", got, test.versions, test.reason)
			}
		})
	}
}

// TestEnsureCRDRefusesOtherCRD checks that a CRD that cannot be used is an error with the reason, and
// is not changed.
func TestEnsureCRDRefusesOtherCRD(t *testing.T) {
	set := func(change func(crd *unstructured.Unstructured)) *unstructured.Unstructured {
		crd := established(v1alpha1.CRD())
		change(crd)
		return crd
	}
	unserved := func(crd *unstructured.Unstructured) {
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		versions[0].(map[string]any)["served"] = false
		_ = unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions")
	}
	for _, test := range []struct {
		name string
		crd  *unstructured.Unstructured
		want string
	}{
		{"namespaced", set(func(crd *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(crd.Object, "Namespaced", "spec", "scope")
		}), "scope Namespaced"},
		{"another kind", set(func(crd *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(crd.Object, "Applied", "spec", "names", "kind")
		}), "kind Applied"},
		{"our version is not served", set(unserved), "schema revision"},
	} {
		s := &server{crd: test.crd}
		err := v1alpha1.EnsureCRD(t.Context(), s)
		if !errors.Is(err, v1alpha1.ErrOtherCRD) || !strings.Contains(err.Error(), test.want) || s.writes > 0 {
			t.Errorf("%s: %v, %d writes", test.name, err, s.writes)
		}
	}
}

// TestEnsureCRDWaits checks that EnsureCRD waits for the end of a CRD that is being deleted. If ctx
// ends first, the error has the cause of the delay.
func TestEnsureCRDWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := metav1.Now()
		deleting := established(v1alpha1.CRD())
		deleting.SetDeletionTimestamp(&now)
		s := &server{crd: deleting, gone: time.Now().Add(time.Minute)}
		if err := v1alpha1.EnsureCRD(t.Context(), s); err != nil || s.writes != 1 {
			t.Errorf("%v, %d writes, want that it is created again", err, s.writes)
		}
		refused := v1alpha1.CRD()
		refused.Object["status"] = map[string]any{"conditions": []any{
			map[string]any{"type": "NamesAccepted", "status": "False", "message": "AppliedWork is in use"},
			map[string]any{"type": "Established", "status": "False"}}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := v1alpha1.EnsureCRD(ctx, &server{crd: refused})
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "AppliedWork is in use") {
			t.Error(err)
		}
	})
}

// TestEnsureCRDRetriesTemporaryErrors checks that an error that may go away is retried for 10 seconds,
// and that any other error is returned at once.
func TestEnsureCRDRetriesTemporaryErrors(t *testing.T) {
	crds := v1alpha1.CRDResource.GroupResource()
	internal := apierrors.NewInternalError(errors.New("etcdserver: leader changed"))
	for _, test := range []struct {
		name    string
		err     error
		healthy time.Duration // after the first request
		want    time.Duration // that EnsureCRD takes
		failed  bool
	}{
		{"overloaded", apierrors.NewTooManyRequests("slow down", 1), 5 * time.Second, 5 * time.Second, false},
		{"starting", apierrors.NewServiceUnavailable("not ready"), 5 * time.Second, 5 * time.Second, false},
		{"without CRDs yet", apierrors.NewGenericServerResponse(404, "get", crds, "", "404 page not found", 0, true),
			5 * time.Second, 5 * time.Second, false},
		{"leader election of etcd", internal, 5 * time.Second, 5 * time.Second, false},
		{"timeout", apierrors.NewServerTimeout(crds, "get", 1), 5 * time.Second, 5 * time.Second, false},
		{"lost connection", &url.Error{Op: "Get", URL: "https://api", Err: io.EOF}, 5 * time.Second, 5 * time.Second, false},
		{"broken for long", internal, time.Hour, 10 * time.Second, true},
		{"forbidden", apierrors.NewForbidden(crds, v1alpha1.CRDName, errors.New("no role")), time.Hour, 0, true},
		{"invalid", apierrors.NewBadRequest("no"), time.Hour, 0, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				s := &server{err: test.err, since: began.Add(test.healthy)}
				err := v1alpha1.EnsureCRD(t.Context(), s)
				if (err != nil) != test.failed || test.failed && !errors.Is(err, test.err) || !test.failed && s.writes != 1 {
					t.Errorf("%v, %d writes", err, s.writes)
				}
				if took := time.Since(began); took < test.want || took > test.want+time.Second {
					t.Errorf("it took %s, want %s", took, test.want)
				}
			})
		})
	}
}

// TestEnsureCRDReportsTemporaryError checks that the error of a ctx that ends has the last error.
func TestEnsureCRDReportsTemporaryError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s := &server{err: apierrors.NewServiceUnavailable("not ready"), since: time.Now().Add(time.Hour)}
		err := v1alpha1.EnsureCRD(ctx, s)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "not ready") {
			t.Error(err)
		}
	})
}

func TestScheme(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	obj, err := scheme.New(v1alpha1.GroupVersionKind)
	if _, ok := obj.(*v1alpha1.AppliedWork); !ok || err != nil {
		t.Errorf("%T, %v", obj, err)
	}
	var _ v1alpha1.AppliedtWorkStatus = v1alpha1.AppliedWork{}.Status // the deprecated name exists
	if ac := appliedworkv1alpha1.AppliedWork("a"); *ac.GetName() != "a" || *ac.GetKind() != v1alpha1.Kind {
		t.Errorf("%+v", ac)
	}
}
