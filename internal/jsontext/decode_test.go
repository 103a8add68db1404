// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package jsontext_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/internal/jsontext"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// FuzzDecode checks that objects and errors equal those of apimachinery for the same text.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"metadata":{"name":"a\u0062","labels":{"k":"v","k":"w"},"creationTimestamp":null},"spec":{"replicas":3}}`,
		`{"spec":{"replicas":1.0}}`, `{"spec":{"Replicas":1}}`,
		`{"spec":{"template":{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}},null]}}}}`,
		`{"spec":{"replicas":1,"replicas":null},"metadata":{"annotations":null}}`,
		`{"spec":{"strategy":{"rollingUpdate":{"maxSurge":"25%"}}}}`, `[]`, `null`, `{`,
	} {
		f.Add([]byte(seed))
	}
	if deployment, err := os.ReadFile("../../interpreter/testdata/deployment-18k.json"); err == nil {
		f.Add(deployment)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		same[appsv1.Deployment](t, data)
		same[corev1.Pod](t, data)
		same[v1alpha1.ResourceInterpreterContext](t, data)
		same[v1alpha1.ResourceExploringWebhookConfiguration](t, data)
		same[metav1.ManagedFieldsEntry](t, data)
	})
}

func same[T any](t *testing.T, data []byte) {
	t.Helper()
	var got, want T
	gotErr := jsontext.Decode(data, &got)
	var quantity *jsontext.QuantityError
	if errors.As(gotErr, &quantity) {
		return // apimachinery would not return
	}
	wantErr := utiljson.Unmarshal(data, &want)
	if (gotErr == nil) != (wantErr == nil) || gotErr != nil && gotErr.Error() != wantErr.Error() {
		t.Fatalf("%T: got the error %v, want %v", got, gotErr, wantErr)
	}
	if wantErr != nil {
		return
	}
	// Quantities keep their original text in unexported fields.
	if diff := cmp.Diff(string(encode(t, want)), string(encode(t, got))); diff != "" {
		t.Fatalf("%T (-want +got):\n%s", got, diff)
	}
}

func TestDecodeAllocations(t *testing.T) {
	data, err := os.ReadFile("../../interpreter/testdata/deployment-18k.json")
	if err != nil {
		t.Fatal(err)
	}
	ours := testing.AllocsPerRun(20, func() {
		if err := jsontext.Decode(data, &appsv1.Deployment{}); err != nil {
			t.Fatal(err)
		}
	})
	theirs := testing.AllocsPerRun(20, func() {
		if err := utiljson.Unmarshal(data, &appsv1.Deployment{}); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("%v allocations, apimachinery %v", ours, theirs)
	if ours > theirs/2 {
		t.Errorf("%v allocations, apimachinery needs %v", ours, theirs)
	}
}

// node is a recursive type.
type node struct {
	Child *node `json:"child,omitempty"`
	List  []int `json:"list,omitempty"`
}

// TestDecodeDeepValue checks that depth costs no more than length.
func TestDecodeDeepValue(t *testing.T) {
	const depth = 9000
	text := strings.Repeat(`{"child":`, depth) + `{"list":[0` + strings.Repeat(",0", 1<<20) + `]}` +
		strings.Repeat("}", depth)
	began := time.Now()
	var n node
	if err := jsontext.Decode([]byte(text), &n); err != nil {
		t.Fatal(err)
	}
	levels, last := 0, &n
	for ; last.Child != nil; last = last.Child {
		levels++
	}
	if took := time.Since(began); levels != depth || len(last.List) != 1<<20+1 || took > time.Minute {
		t.Errorf("%d levels and %d elements after %v", levels, len(last.List), took)
	}
}

// TestDecodeIntoExistingObject checks that decoding into a non-empty object has the same result as encoding/json.
func TestDecodeIntoExistingObject(t *testing.T) {
	k := known{Name: "before", Labels: map[string]string{"a": "b"}, Count: 1}
	if err := jsontext.Decode([]byte(`{"labels":{"c":"d"},"count":2}`), &k); err != nil {
		t.Fatal(err)
	}
	if k.Name != "before" || len(k.Labels) != 2 || k.Count != 2 {
		t.Errorf("got %+v", k)
	}
}
