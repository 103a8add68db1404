// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package crd_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/kube-openapi/pkg/validation/spec"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/crd"
)

// alwaysSent are the defaults of fields with a Go tag without omitempty. A typed client sends these
// fields even if they are empty, and the API server rejects them.
var alwaysSent = map[string]bool{
	"spec.deleteOption.propagationPolicy":                                              true,
	"spec.manifestConfigs[0].updateStrategy.serverSideApply.ignoreFields[0].condition": true,
}

// TestDefaults removes each value with a default in the CRD. In JSON the default returns, and in Go
// as well unless Go sends the empty value.
func TestDefaults(t *testing.T) {
	count := 0
	s := root(t).Properties["spec"]
	walk(&s, path{"spec"}, func(at path, s *spec.Schema) {
		if s.Default == nil {
			return
		}
		count++
		t.Run(at.String(), func(t *testing.T) {
			data := encode(t, broken(t, "spec", at, gone))
			want := encode(t, broken(t, "spec", at, to(s.Default)))
			filled, errs := crd.Member("spec", data)
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			if diff := cmp.Diff(string(want), string(filled)); diff != "" {
				t.Errorf("in JSON (-want +got):\n%s", diff)
			}

			var typed, before, wanted workv1.ManifestWorkSpec
			for into, data := range map[*workv1.ManifestWorkSpec][]byte{&typed: data, &before: data, &wanted: want} {
				if err := json.Unmarshal(data, into); err != nil {
					t.Fatal(err)
				}
			}
			shared := typed // the caller may share this copy
			crd.Default(&typed)
			if diff := cmp.Diff(before, shared); diff != "" {
				t.Errorf("a shared part was changed (-before +after):\n%s", diff)
			}
			if alwaysSent[at.String()] {
				wanted = before
				if crd.SpecFits(&typed) {
					t.Error("the empty value fits")
				}
			}
			if diff := cmp.Diff(wanted, typed); diff != "" {
				t.Errorf("in Go (-want +got):\n%s", diff)
			}
		})
	})
	if count != 5 {
		t.Errorf("the CRD has %d defaults: see that all are here", count)
	}
	status := root(t).Properties["status"]
	walk(&status, path{"status"}, func(at path, s *spec.Schema) {
		if s.Default != nil {
			t.Errorf("%s has a default: nothing fills in the status", at)
		}
	})
}

// TestChecksOfValidValuesDoNotAllocate: the checks of every write do not allocate if the value is
// valid.
func TestChecksOfValidValuesDoNotAllocate(t *testing.T) {
	var full workv1.ManifestWork
	s := root(t)
	for member, into := range map[string]any{"spec": &full.Spec, "status": &full.Status} {
		m := s.Properties[member]
		if err := json.Unmarshal(encode(t, sample(t, path{member}, &m)), into); err != nil {
			t.Fatal(err)
		}
	}
	full.Spec.Workload.Manifests = nil // decoding their heads allocates
	if n := testing.AllocsPerRun(100, func() {
		crd.Default(&full.Spec)
		if !crd.SpecFits(&full.Spec) || !crd.StatusFits(&full.Status) {
			t.Error("does not fit")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
