// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package manifestwork_test

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/manifestwork"
)

func resource(t *testing.T, manifest string) appcontext.Resource {
	t.Helper()
	object, err := appcontext.ParseObject([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	return appcontext.Resource{Object: object, Manifest: []byte(manifest)}
}

// TestCheck checks that invalid objects of a work are found without a write, also before the broker
// responds.
func TestCheck(t *testing.T) {
	s, err := work.NewSource(memory.New().Transport(), work.SourceOptions{SourceID: "hub"})
	if err != nil {
		t.Fatal(err)
	}
	connectors, err := manifestwork.New(s.Clientset().WorkV1(), manifestwork.Options{})
	if err != nil {
		t.Fatal(err)
	}
	good := resource(t, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","namespace":"x"}}`)
	for manifest, want := range map[string]manifestwork.InvalidError{
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`:                    {},
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"b","name":"b"}}`: {},
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"x":"b a d"}}}`: {Resource: 1,
			Field: "metadata.labels", Reason: "FieldValueInvalid", Text: `Invalid value: "b a d": `},
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","annotations":{"b a d":""}}}`: {Resource: 1,
			Field: "metadata.annotations", Reason: "FieldValueInvalid", Text: `Invalid value: "b a d": `},
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","creationTimestamp":"no time"}}`: {Resource: 1,
			Reason: "BadRequest", Text: `metadata: Invalid value: {"creationTimestamp":"no time"`},
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"x":7}}}`: {Resource: 1,
			Reason: "BadRequest", Text: "metadata: Invalid value: "},
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","ownerReferences":[{"name":"none"}]}}`: {Resource: 1,
			Field: "metadata.ownerReferences"},
		`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"system:A_b"}}`:   {},
		`{"apiVersion":"example.com/v1","kind":"AllowList","metadata":{"name":"a"},"spec":{"items":[]}}`: {},
		`{"apiVersion":"example.com/v1","kind":"AllowList","metadata":{"name":"a"},"items":[]}`: {Resource: 1,
			Field: "kind"},
		`{"apiVersion":"v1","kind":"List","metadata":{"name":"a"}}`: {Resource: 1,
			Field: "kind"},
		`{"apiVersion":"apps/v1","kind":"DeploymentList","metadata":{"name":"a"}}`: {Resource: 1,
			Field: "kind"},
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a.B"}}`: {Resource: 1,
			Field: "metadata.name", Reason: "FieldValueInvalid"},
		`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a.b"}}`: {Resource: 1,
			Field: "metadata.name", Reason: "FieldValueInvalid"},
	} {
		err := connectors.Check(t.Context(), appcontext.ClusterID{Name: "c1"},
			[]appcontext.Resource{good, resource(t, manifest)})
		var got *manifestwork.InvalidError
		switch errors.As(err, &got); {
		case want.Resource == 0:
			if err != nil {
				t.Errorf("%s: %v", manifest, err)
			}
		case got == nil || got.Resource != want.Resource || !strings.HasPrefix(got.Field, want.Field) || got.Reason == "" ||
			want.Reason != "" && got.Reason != want.Reason || !strings.Contains(got.Text, want.Text):
			t.Errorf("%s: %+v %q, want %+v", manifest, got, err, want)
		}
	}
	works, err := s.Clientset().WorkV1().ManifestWorks(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(works.Items) > 0 {
		t.Errorf("%v, %v", works, err)
	}
}
