// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/testing/alloctest"
)

// TestManyElements checks that decoding an event of 8 MiB with elements of two bytes does not use a
// multiple of its size.
func TestManyElements(t *testing.T) {
	list := func(element string) string {
		return "[" + strings.Repeat(element+",", 8<<20/(len(element)+1)) + element + "]"
	}
	labels := func() string {
		var out strings.Builder
		for i := range 1 << 19 {
			fmt.Fprintf(&out, `"%x":"",`, i)
		}
		return "{" + out.String() + `"":""}`
	}
	for _, tc := range []struct {
		name    string
		message codec.Message
		profile codec.Profile
		data    string
	}{
		{"manifests", newSpec(), codec.ManifestWork, `{"manifests":` + list("{}") + `}`},
		{"configurations", newSpec(), codec.ManifestWork, `{"manifests":[{}],"manifestConfigs":` + list("{}") + `}`},
		{"rules", newSpec(), codec.ManifestWork, `{"manifests":[{}],"manifestConfigs":[{"feedbackRules":` + list("{}") +
			`}]}`},
		{"orphaning rules", newSpec(), codec.ManifestWork, `{"manifests":[{}],"deleteOption":{"selectiveOrphaningRules":` +
			list("{}") + `}}`},
		{"owners", newSpec(), codec.ManifestWork, `{"manifests":[{}],"metadata":{"ownerReferences":` + list("{}") + `}}`},
		{"labels", newSpec(), codec.ManifestWork, `{"manifests":[{}],"metadata":{"labels":` + labels() + `}}`},
		{"conditions", newStatus(), codec.ManifestWork, `{"conditions":` + list("{}") + `}`},
		{"conditions without a type", newStatus(), codec.ManifestWork, `{"conditions":` +
			list(`{"lastTransitionTime":null}`) + `}`},
		{"manifests of a status", newStatus(), codec.ManifestWork, `{"resourceStatus":{"manifestConditions":` + list("{}") +
			`}}`},
		{"values of a status", newStatus(), codec.ManifestWork,
			`{"resourceStatus":{"manifests":[{"statusFeedback":{"values":` + list("{}") + `}}]}}`},
		{"strings of keys", newStatus(), codec.ManifestWork, `{"resourceStatus":` + list(`"Meta":`) + `}`},
		{"listed works", newSpecResync(), codec.ManifestWork, `{"resourceVersions":` + list("{}") + `}`},
		{"listed works with IDs", newSpecResync(), codec.ManifestWork, `{"resourceVersions":` + list(`{"resourceID":"a"}`) +
			`}`},
		{"lists, many times", newSpecResync(), codec.ManifestWork, `{` + strings.Repeat(`"resourceVersions":[],`, 10_000) +
			`"resourceVersions":1}`},
		{"owners, many times", newSpec(), codec.ManifestWork, `{"manifests":[{}],"metadata":{` +
			strings.Repeat(`"ownerReferences":[`+strings.Repeat("{},", 100_000)+`{}],`, 10) + `"labels":{}}}`},
		{"listed statuses", newStatusResync(), codec.ManifestWork, `{"statusHashes":` + list(`{"resourceID":"a"}`) + `}`},
		{"bundle: manifests", bundleSpec(), codec.ManifestBundle, `{"manifests":` + list("{}") + `}`},
		{"bundle: configurations", bundleSpec(), codec.ManifestBundle, `{"manifests":[{}],"manifestConfigs":` + list("{}") +
			`}`},
		{"bundle: conditions", bundleStatus(), codec.ManifestBundle, `{"conditions":` + list("{}") + `}`},
		{"bundle: manifests of a status", bundleStatus(), codec.ManifestBundle, `{"resourceStatus":` + list("{}") + `}`},
		{"bundle: listed works", &codec.SpecResync{Header: agentHeader()}, codec.ManifestBundle, `{"resourceVersions":` +
			list(`{"resourceID":"a"}`) + `}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			topic, e, err := tc.profile.Encode(tc.message)
			if err != nil {
				t.Fatal(err)
			}
			e.DataEncoded = []byte(tc.data)
			bytes, _ := alloctest.Cost(func() { _, err = tc.profile.Decode(topic, e) })
			wantError(t, err, codec.CodeData, "*", "8 MiB of elements")
			if bytes > 128<<20 {
				t.Errorf("Decode allocated %d MiB", bytes>>20)
			}
		})
	}
}

// TestMaxElements checks that Encode accepts MaxElements, and that Decode returns every message
// that Encode accepts.
func TestMaxElements(t *testing.T) {
	manifests := func(n int) *codec.Spec {
		return change(newSpec(), func(m *codec.Spec) {
			m.Work.Spec = workv1.ManifestWorkSpec{}
			m.Work.Spec.Workload.Manifests = slices.Repeat(newWork().Spec.Workload.Manifests[:1], n)
			for i := range n {
				m.Work.Spec.Workload.Manifests[i].Raw = []byte("{}")
			}
			m.Work.Labels, m.Work.Annotations, m.Work.OwnerReferences = nil, nil, nil
		})
	}
	configs := func(n int) *codec.Spec {
		return change(newSpec(), func(m *codec.Spec) {
			// Each config has six members or elements: itself, its identifier, and the four members of the
			// identifier.
			m.Work.Spec.ManifestConfigs = make([]workv1.ManifestConfigOption, n)
		})
	}
	conditions := func(n int) *codec.Status {
		return change(newStatus(), func(m *codec.Status) {
			m.Status = &workv1.ManifestWorkStatus{
				Conditions: slices.Repeat([]metav1.Condition{{Type: "a", Status: "True"}}, n),
			}
		})
	}
	works := func(n int) *codec.SpecResync {
		return change(
			newSpecResync(),
			func(m *codec.SpecResync) { m.Entries = slices.Repeat([]codec.SpecEntry{{ResourceID: "a"}}, n) },
		)
	}
	statuses := func(n int) *codec.StatusResync {
		return change(
			newStatusResync(),
			func(m *codec.StatusResync) { m.Entries = slices.Repeat([]codec.StatusEntry{{ResourceID: "a"}}, n) },
		)
	}
	for _, tc := range []struct {
		name      string
		good, bad codec.Message
		field     string
	}{
		{"manifests", manifests(codec.MaxElements), manifests(codec.MaxElements + 1), "data.manifests"},
		{"configurations", configs(codec.MaxElements / 8), configs(codec.MaxElements), "data.manifestConfigs"},
		{"conditions", conditions(codec.MaxElements), conditions(codec.MaxElements + 1), "data"},
		{"works", works(codec.MaxElements), works(codec.MaxElements + 1), "data.resourceVersions"},
		{"statuses", statuses(codec.MaxElements), statuses(codec.MaxElements + 1), "data.statusHashes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			topic, e, err := codec.ManifestWork.Encode(tc.good)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := codec.ManifestWork.Decode(topic, e); err != nil {
				t.Error(err)
			}
			_, _, err = codec.ManifestWork.Encode(tc.bad)
			wantError(t, err, codec.CodeData, tc.field, "one more")
		})
	}
	if chunks := codec.SplitSpecResync(works(codec.MaxElements+1), 1<<30); len(chunks) != 2 {
		t.Errorf("a list of more elements is split into %d chunks", len(chunks))
	}
}

// TestDecodeCopiesSmallManifests checks that small manifests do not keep the event alive and that large
// manifests are not copied. An append to a manifest must not overwrite the next manifest.
func TestDecodeCopiesSmallManifests(t *testing.T) {
	for _, tc := range []struct {
		name   string
		size   int
		copied bool
	}{
		{"small", 1 << 10, true},
		{"large", 16 << 10, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			spec := newSpec()
			spec.Work.Spec.Workload.Manifests = []workv1.Manifest{
				manifest(`{"kind":"ConfigMap","data":"` + strings.Repeat("x", tc.size) + `"}`), manifest(`{"kind":"Secret"}`),
			}
			topic, payload := structured(t, spec)
			list := decode(t, topic, payload).(*codec.Spec).Work.Spec.Workload.Manifests
			for i := range list {
				if cap(list[i].Raw) != len(list[i].Raw) {
					t.Errorf("manifest %d can grow into what follows it", i)
				}
			}
			if cap(list) != len(list) {
				t.Error("the list has room")
			}
			clear(payload)
			if copied := json.Valid(list[0].Raw); copied != tc.copied {
				t.Errorf("copied: %t, want %t", copied, tc.copied)
			}
		})
	}
}

// TestMaxDepth checks that Decode accepts a manifest at the depth limit of Encode.
func TestMaxDepth(t *testing.T) {
	m := newSpec()
	m.Work.Spec.Workload.Manifests = []workv1.Manifest{manifest(nested(codec.MaxManifestDepth))}
	topic, payload := structured(t, m)
	decode(t, topic, payload)
}
