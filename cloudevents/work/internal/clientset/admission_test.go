// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package clientset_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/clientset"
	"github.com/spokewire/sdk-go/internal/testing/alloctest"
)

// TestManySchemaErrorsAreBounded: the validation of a peer's object with very many errors needs
// little time and memory. Its error names one of them.
func TestManySchemaErrorsAreBounded(t *testing.T) {
	manifest := func(metadata string) workv1.ManifestWorkSpec {
		s := workv1.ManifestWorkSpec{}
		s.Workload.Manifests = make([]workv1.Manifest, 3)
		for i := range s.Workload.Manifests {
			s.Workload.Manifests[i].Raw = []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`)
		}
		s.Workload.Manifests[2].Raw = []byte(
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a",` + metadata + `}}`,
		)
		return s
	}
	list := func(element string, n int) string { return "[" + strings.Repeat(element+",", n) + element + "]" }
	const many = 200_000
	paths := make([]workv1.JsonPath, 100_000)
	for i := range paths {
		paths[i].Name = fmt.Sprint(i)
	}
	for _, test := range []struct {
		name string
		spec workv1.ManifestWorkSpec
		want string
	}{
		{"owners", manifest(`"ownerReferences":` + list("{}", many)), "spec.workload.manifests[2].metadata"},
		{"some owners", manifest(`"ownerReferences":` + list("{}", 2000)),
			"spec.workload.manifests[2].metadata.ownerReferences"},
		{"finalizers", manifest(`"finalizers":` + list(`""`, many)), "spec.workload.manifests[2].metadata"},
		{"content", manifest(`"name":1},"data":{"a":` + list("{}", 2_000_000)), "spec.workload.manifests[2].metadata"},
		{"members twice", workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{Manifests: slices.Repeat([]workv1.Manifest{
			{RawExtension: runtime.RawExtension{
				Raw: []byte(`{"apiVersion":1,"apiVersion":"v1","kind":"a b","kind":"A","metadata":1,"metadata":{"name":"a"}}`),
			}},
		}, many)}}, ""},
		{"configurations", workv1.ManifestWorkSpec{ManifestConfigs: make([]workv1.ManifestConfigOption, many)}, ""},
		{"rules", workv1.ManifestWorkSpec{ManifestConfigs: []workv1.ManifestConfigOption{
			{FeedbackRules: make([]workv1.FeedbackRule, many)},
		}}, "spec.manifestConfigs[0]"},
		{"paths", workv1.ManifestWorkSpec{ManifestConfigs: []workv1.ManifestConfigOption{{
			ResourceIdentifier: workv1.ResourceIdentifier{Resource: "a", Name: "b"},
			FeedbackRules:      []workv1.FeedbackRule{{Type: workv1.JSONPathsType, JsonPaths: paths}},
		}}}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			within(t, test.want, func() error { return clientset.Brief(clientset.SpecErrors(&test.spec)) })
		})
	}
	t.Run("conditions", func(t *testing.T) {
		within(t, "status: Invalid value: is invalid, and too large for details", func() error {
			return clientset.Brief(
				clientset.StatusErrors(&workv1.ManifestWorkStatus{Conditions: make([]metav1.Condition, 6500)}))
		})
	})
}

// TestWriteWithManyErrorsIsBounded: a write through a source's own clientset with very many errors
// needs little memory. A write with few errors returns all of them.
func TestWriteWithManyErrorsIsBounded(t *testing.T) {
	list := func(element string, n int) string { return "[" + strings.Repeat(element+",", n) + element + "]" }
	manifest := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","ownerReferences":` + list("{}", 50) + "}}"
	specs := map[string]string{
		"configurations": `{"manifestConfigs":` + list(`{"feedbackRules":[{}]}`, 10_000) + "}",
		"rules": `{"manifestConfigs":[{"resourceIdentifier":{"resource":"a","name":"b"},"feedbackRules":` +
			list("{}", 20_000) + "}]}",
		"manifests": `{"workload":{"manifests":` + list("{}", 20_000) + "}}",
		"owners":    `{"workload":{"manifests":` + list(manifest, 500) + "}}",
		"conditions": `{"manifestConfigs":[{"resourceIdentifier":{"resource":"a","name":"b"},"conditionRules":` +
			list(`{"type":"CEL","condition":"a"}`, 5000) + "}]}",
	}
	works := offline(t, work.SourceOptions{}).ManifestWorks("cluster1")
	ctx := t.Context()
	if _, err := works.Create(ctx, newWork("app", "1"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	few := workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: "few"}}
	few.Spec.ManifestConfigs = make([]workv1.ManifestConfigOption, 40)
	for i := range few.Spec.ManifestConfigs {
		few.Spec.ManifestConfigs[i].FeedbackRules = []workv1.FeedbackRule{{Type: "Odd"}}
	}
	_, err := works.Create(ctx, &few, metav1.CreateOptions{})
	if n := strings.Count(fmt.Sprint(err), "feedbackRules[0].type: Unsupported value"); n != 40 {
		t.Errorf("40 errors: %d in %v", n, err)
	}
	for name, spec := range specs {
		var obj workv1.ManifestWork
		if err := json.Unmarshal([]byte(spec), &obj.Spec); err != nil {
			t.Fatal(err)
		}
		obj.Name = "evil"
		write := func(how string, f func() error) {
			var err error
			bytes, _ := alloctest.Cost(func() { err = f() })
			if !apierrors.IsInvalid(err) || len(err.Error()) > 1<<20 {
				t.Errorf("%s, %s: %.300v", name, how, err)
			}
			if t.Logf("%s, %s: %d MiB", name, how, bytes>>20); bytes > 512<<20 {
				t.Errorf("%s, %s: %d MiB", name, how, bytes>>20)
			}
		}
		write("create", func() error { _, err := works.Create(ctx, &obj, metav1.CreateOptions{}); return err })
		write("merge patch", func() error {
			_, err := works.Patch(ctx, "app", types.MergePatchType, []byte(`{"spec":`+spec+"}"), metav1.PatchOptions{})
			return err
		})
		write("JSON patch", func() error {
			_, err := works.Patch(ctx, "app", types.JSONPatchType, []byte(`[{"op":"replace","path":"/spec","value":`+spec+"}]"),
				metav1.PatchOptions{})
			return err
		})
	}
}

// TestErrorHasIndexOfInvalidPart: the error of a peer's object has the index of the invalid part.
func TestErrorHasIndexOfInvalidPart(t *testing.T) {
	status := &workv1.ManifestWorkStatus{}
	good := metav1.Condition{Type: "Applied", Status: "True", Reason: "R", LastTransitionTime: metav1.Unix(1, 0)}
	for range 1000 {
		status.ResourceStatus.Manifests = append(
			status.ResourceStatus.Manifests,
			workv1.ManifestCondition{Conditions: []metav1.Condition{good}},
		)
	}
	if err := clientset.Brief(clientset.StatusErrors(status)); err != nil {
		t.Error(err)
	}
	status.ResourceStatus.Manifests[500].Conditions[0].Reason = "no reason"
	if err := clientset.Brief(clientset.StatusErrors(status)); err == nil ||
		!strings.Contains(err.Error(), "status.resourceStatus.manifests[500].conditions[0].reason") {
		t.Errorf("got %v", err)
	}
	spec := &workv1.ManifestWorkSpec{ManifestConfigs: make([]workv1.ManifestConfigOption, 10)}
	spec.ManifestConfigs[7].FeedbackRules = []workv1.FeedbackRule{{Type: "Odd"}}
	if err := clientset.Brief(clientset.SpecErrors(spec)); err == nil ||
		!strings.Contains(err.Error(), "spec.manifestConfigs[7].feedbackRules[0].type") {
		t.Errorf("got %v", err)
	}
}

// within calls a function and checks its error. The function must need at most 5 s and 256 MiB.
func within(t *testing.T, want string, check func() error) {
	t.Helper()
	var err error
	bytes, took := alloctest.Cost(func() { err = check() })
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("got %.300v, want %s", err, want)
	}
	if err != nil && len(err.Error()) > 2000 {
		t.Errorf("the error has %d bytes", len(err.Error()))
	}
	t.Logf("%v, %d MiB", took, bytes>>20)
	if n := bytes >> 20; n > 256 {
		t.Errorf("%d MiB were allocated", n)
	}
	if took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}
