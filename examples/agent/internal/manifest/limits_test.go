// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/agent/internal/guard"
	"github.com/spokewire/sdk-go/examples/agent/internal/manifest"
	"github.com/spokewire/sdk-go/internal/testing/alloctest"
)

// read returns the manifests of a work and the number of bytes allocated to read them.
func read(t *testing.T, w *workv1.ManifestWork) ([]manifest.Manifest, uint64) {
	k := newKinds()
	var manifests []manifest.Manifest
	bytes, _ := alloctest.Cost(func() { manifests = manifest.Read(t.Context(), w, k) })
	return manifests, bytes
}

// TestManyRules checks that rules are not copied for each manifest, and that their number is
// limited for all manifests of a work together. The rules that decide whether a work is Complete or
// Available stay.
func TestManyRules(t *testing.T) {
	for _, tt := range []struct{ manifests, configs, feedback, conditions int }{
		{1000, 1, 10_000, 0},
		{1400, 1400, 1, 0},
		{1000, 1, 0, 10_000},
		{1400, 1400, 0, 1},
	} {
		t.Run(fmt.Sprintf("%+v", tt), func(t *testing.T) {
			w := &workv1.ManifestWork{}
			for i := range tt.manifests {
				w.Spec.Workload.Manifests = append(
					w.Spec.Workload.Manifests,
					workOf(
						fmt.Sprintf(
							`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%d","namespace":"n"}}`,
							i,
						),
					).Spec.Workload.Manifests...)
			}
			for i := range tt.configs {
				o := workv1.ManifestConfigOption{
					ResourceIdentifier: workv1.ResourceIdentifier{Resource: "configmaps", Namespace: "*", Name: "*"},
				}
				o.FeedbackRules = slices.Repeat([]workv1.FeedbackRule{{Type: workv1.WellKnownStatusType}}, tt.feedback)
				for k := range tt.conditions {
					o.ConditionRules = append(
						o.ConditionRules,
						workv1.ConditionRule{Condition: fmt.Sprintf("C%d-%d", i, k)},
					)
				}
				if i == tt.configs-1 {
					o.ConditionRules = append(
						o.ConditionRules,
						workv1.ConditionRule{Type: workv1.WellKnownConditionsType},
						workv1.ConditionRule{Condition: workv1.ManifestAvailable},
					)
				}
				w.Spec.ManifestConfigs = append(w.Spec.ManifestConfigs, o)
			}
			manifests, allocated := read(t, w)
			if allocated > 128<<20 {
				t.Errorf("%d MiB were allocated", allocated>>20)
			}
			has := func(c manifest.Config, condition string) bool {
				return slices.ContainsFunc(
					c.ConditionRules,
					func(r workv1.ConditionRule) bool { return r.Condition == condition },
				)
			}
			sum, left := 0, 0
			for _, m := range manifests {
				c := m.Config
				if m.Err != nil || !has(c, workv1.ManifestComplete) || !has(c, workv1.ManifestAvailable) {
					t.Fatalf("manifest %d: %v, %d rules", m.Ordinal, m.Err, len(c.ConditionRules))
				}
				sum += len(c.FeedbackRules) + len(c.ConditionRules) - 2
				if (c.FeedbackErr != nil) == (len(c.FeedbackRules) == tt.feedback*tt.configs) ||
					(c.ConditionErr != nil) == (len(c.ConditionRules) == tt.conditions*tt.configs+2) {
					t.Fatalf(
						"manifest %d: %d feedback rules, %v; %d condition rules, %v",
						m.Ordinal,
						len(c.FeedbackRules),
						c.FeedbackErr,
						len(c.ConditionRules),
						c.ConditionErr,
					)
				}
				if err := errors.Join(c.FeedbackErr, c.ConditionErr); err != nil {
					left++
					if !errors.Is(err, guard.ErrExceeded) {
						t.Error(err)
					}
				}
			}
			if sum > guard.MaxRules || left == 0 {
				t.Errorf("%d rules, and %d manifests without some", sum, left)
			}
		})
	}
}

// TestMemory checks that a manifest is not decoded if it would take many times its size in memory,
// and that all manifests of a work share a limit.
func TestMemory(t *testing.T) {
	object := func(name, element string, size int) string {
		return fmt.Sprintf(
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":"n"},"a":[%s0]}`,
			name,
			strings.Repeat(element+",", size/(len(element)+1)),
		)
	}
	nested := strings.Repeat(`{"":`, 5000) + "0" + strings.Repeat("}", 5000)
	var together []string
	for i := range 40 {
		together = append(together, object(fmt.Sprint(i), `{"":0}`, 256<<10))
	}
	for name, tt := range map[string]struct {
		texts   []string
		decoded int
		want    string
	}{
		"objects": {[]string{object("a", `{"":0}`, 4<<20), object("b", "0", 10)}, 1,
			"not decoded: it has so many small parts that it would take more than 67108864 bytes of memory: make the manifest simpler"},
		"nested": {[]string{object("a", nested, 4<<20), object("b", "0", 10)}, 1,
			"not decoded: it has so many small parts"},
		"large": {[]string{object("a", strconv.Quote(strings.Repeat("a", 4<<20)), 5<<20)}, 1, ""},
		"together": {append(together, object("b", "0", 10)), 15,
			"not decoded: all manifests of the work would take more than 201326592 bytes of memory together: split the work"},
	} {
		t.Run(name, func(t *testing.T) {
			w := workOf(tt.texts...)
			manifests, allocated := read(t, w)
			if allocated > 384<<20 || name != "together" && allocated > 32<<20 {
				t.Errorf("%d MiB were allocated", allocated>>20)
			}
			decoded := 0
			for _, m := range manifests {
				switch {
				case m.Object != nil && m.Err == nil:
					decoded++
				case m.Object != nil || tt.want == "" || !strings.HasPrefix(m.Err.Error(), tt.want):
					t.Errorf("manifest %d: %v", m.Ordinal, m.Err)
				}
			}
			if decoded != tt.decoded || manifests[len(manifests)-1].Err != nil {
				t.Errorf(
					"%d of %d manifests were decoded, the last: %v",
					decoded,
					len(manifests),
					manifests[len(manifests)-1].Err,
				)
			}
		})
	}
}

// TestManyPatterns checks the time to match many configurations. Those with wildcards are not
// compared with very many manifests. Those without wildcards are looked up directly.
func TestManyPatterns(t *testing.T) {
	const many = 7000
	for _, namespace := range []string{"n", "*"} {
		w := &workv1.ManifestWork{}
		for i := range many {
			w.Spec.Workload.Manifests = append(
				w.Spec.Workload.Manifests,
				workOf(
					fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%d","namespace":"n"}}`, i),
				).Spec.Workload.Manifests...)
			w.Spec.ManifestConfigs = append(w.Spec.ManifestConfigs, workv1.ManifestConfigOption{
				ResourceIdentifier: workv1.ResourceIdentifier{
					Resource:  "configmaps",
					Namespace: namespace,
					Name:      fmt.Sprint(many - 1 - i),
				},
				UpdateStrategy: &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeReadOnly},
			})
		}
		began := time.Now()
		manifests, _ := read(t, w)
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("namespace %s: it took %v", namespace, took)
		}
		for _, m := range manifests {
			if refused := m.Err != nil &&
				strings.Contains(m.Err.Error(), "7000 configurations of the work have wildcards"); refused != (namespace == "*") {
				t.Fatalf("namespace %s: %v", namespace, m.Err)
			}
			if m.Err == nil && m.Strategy() != workv1.UpdateStrategyTypeReadOnly {
				t.Fatalf("manifest %d has the strategy %s", m.Ordinal, m.Strategy())
			}
		}
	}
}
