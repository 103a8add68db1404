// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/native"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// parsed returns an object from its JSON text.
func parsed(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return u
}

// repeated returns a JSON list of n elements. %d in an element is its index.
func repeated(n int, element string) string {
	elements := make([]string, n)
	for i := range elements {
		elements[i] = strings.ReplaceAll(element, "%d", fmt.Sprint(i))
	}
	return "[" + strings.Join(elements, ",") + "]"
}

// TestLongListsTakeLinearTime checks that the time grows linearly with the length of the lists that a cluster
// reports. With quadratic time, each case took minutes.
func TestLongListsTakeLinearTime(t *testing.T) {
	const n = 20_000
	pod := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"w"},"spec":{"containers":%s,"tolerations":%s,"volumes":%s}}`
	service := `{"apiVersion":"v1","kind":"Service","metadata":{"name":"w"},"spec":{"type":"LoadBalancer","ports":%s}}`
	containers := repeated(n, `{"name":"%d"}`)
	addresses := []interpreter.AggregatedStatusItem{{ClusterName: "c", Status: &runtime.RawExtension{
		Raw: []byte(`{"loadBalancer":{"ingress":` + repeated(n, `{"ip":"%d"}`) + `}}`)}}}
	for _, test := range []struct {
		name, object, observed string
		operation              interpreter.Operation
		path                   []string
	}{
		{"addresses of a Service", fmt.Sprintf(service, "[]"), "", v1alpha1.InterpreterOperationAggregateStatus,
			[]string{"status", "loadBalancer", "ingress"}},
		{"addresses of an Ingress", `{"apiVersion":"networking.k8s.io/v1","kind":"Ingress","metadata":{"name":"w"}}`, "",
			v1alpha1.InterpreterOperationAggregateStatus, []string{"status", "loadBalancer", "ingress"}},
		{"ports", fmt.Sprintf(service, repeated(n, `{"port":%d}`)),
			fmt.Sprintf(service, repeated(n, `{"port":%d,"nodePort":1}`)), v1alpha1.InterpreterOperationRetain,
			[]string{"spec", "ports"}},
		{"containers", fmt.Sprintf(pod, containers, "[]", "[]"), fmt.Sprintf(pod, containers, "[]", "[]"),
			v1alpha1.InterpreterOperationRetain, []string{"spec", "containers"}},
		{"tolerations", fmt.Sprintf(pod, "[]", "[]", "[]"), fmt.Sprintf(pod, "[]", repeated(n, `{"key":"%d"}`), "[]"),
			v1alpha1.InterpreterOperationRetain, []string{"spec", "tolerations"}},
		{"volumes", fmt.Sprintf(pod, "[]", "[]", "[]"), fmt.Sprintf(pod, "[]", "[]", repeated(n, `{"name":"%d"}`)),
			v1alpha1.InterpreterOperationRetain, []string{"spec", "volumes"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			q := interpreter.Query{Operation: test.operation, Object: parsed(t, test.object), Statuses: addresses}
			if test.observed != "" {
				q.Observed = parsed(t, test.observed)
			}
			began := time.Now()
			answer, err := native.New().Interpret(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			list, _, _ := unstructured.NestedSlice(answer.Object.Object, test.path...)
			if took := time.Since(began); len(list) != n || took > time.Minute {
				t.Errorf("%d elements after %v, want %d", len(list), took, n)
			}
		})
	}
}

// TestElementIsAddedOnce checks that an existing element is not added again, in any order of its fields.
func TestElementIsAddedOnce(t *testing.T) {
	desired := parsed(t,
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"w"},"spec":{"tolerations":[{"key":"a","tolerationSeconds":5,"future":1}]}}`)
	observed := parsed(t,
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"w"},"spec":{"tolerations":[{"tolerationSeconds":5,"key":"a"},{"key":"b"},{"key":"b"}]}}`)
	retained, err := native.New().Retain(t.Context(), desired, observed)
	if err != nil {
		t.Fatal(err)
	}
	want := parsed(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"w"},"spec":{"tolerations":[{"key":"a","tolerationSeconds":5,"future":1},{"key":"b"}]}}`)
	got, _ := retained.MarshalJSON()
	wanted, _ := want.MarshalJSON()
	if string(got) != string(wanted) {
		t.Errorf("got  %s\nwant %s", got, wanted)
	}
}

// TestAggregateReplacesUnknownFields checks that two clusters may report the same address. A field
// that this version does not have makes no aggregation fail.
func TestAggregateReplacesUnknownFields(t *testing.T) {
	object := parsed(t, `{"apiVersion":"v1","kind":"Service","metadata":{"name":"w"},"spec":{"type":"LoadBalancer"},
		"status":{"loadBalancer":{"ingress":[{"ip":"10.0.0.1","future":1},{"ip":"10.0.0.1","ipMode":"VIP"}]}}}`)
	status := func(cluster, text string) interpreter.AggregatedStatusItem {
		return interpreter.AggregatedStatusItem{ClusterName: cluster, Status: &runtime.RawExtension{Raw: []byte(text)}}
	}
	aggregated, err := native.New().AggregateStatus(t.Context(), object, []interpreter.AggregatedStatusItem{
		status("a", `{"loadBalancer":{"ingress":[{"ip":"10.0.0.1","ipMode":"Proxy"}]}}`),
		status("b", `{"loadBalancer":{"ingress":[{"ip":"10.0.0.1","ipMode":"VIP"}]}}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	got, _ := aggregated.MarshalJSON()
	const want = `"ingress":[{"ip":"10.0.0.1","ipMode":"Proxy"},{"ip":"10.0.0.1","ipMode":"VIP"}]`
	if !strings.Contains(string(got), want) {
		t.Errorf("got %s, want %s", got, want)
	}
}
