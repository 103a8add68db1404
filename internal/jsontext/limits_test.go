// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package jsontext_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/internal/jsontext"
	"github.com/spokewire/sdk-go/internal/testing/alloctest"
)

// TestQuantities checks that an extreme quantity is an error immediately, in any place. Values that
// only look like a quantity are accepted.
func TestQuantities(t *testing.T) {
	requests := func(quantity string) string {
		return `{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":` + quantity + `}}}]}}`
	}
	nines := strings.Repeat("9", 129)
	const limits = " has more than 128 characters, or an exponent of more than 3 digits"
	for _, test := range []struct{ name, text, want string }{
		{"exponent", requests(`"1e2147483647"`), "the quantity 1e2147483647" + limits},
		{"negative exponent", requests(`"1E-2147483647"`), "the quantity 1E-2147483647" + limits},
		{"number", requests(`1e+99999`), "the quantity 1e+99999" + limits},
		{"length", requests(`"` + nines + `"`), "the quantity " + nines[:32] + limits},
		{"after a key that is there twice", `{"kind":"Pod","kind":"Pod",` + requests(`"1e2147483647"`)[1:], "the quantity 1e2147483647" + limits},
		{"exponent that is not too large", requests(`"1e999"`), ""},
		{"exa", requests(`"1E"`), ""},
		{"other units", requests(`"1000000Ki"`), ""},
		{"digits", requests(`12345678`), ""},
		{"label", `{"metadata":{"labels":{"commit":"9e84210"}}}`, ""},
		{"label, after a key that is there twice", `{"kind":"Pod","kind":"Pod","metadata":{"labels":{"commit":"9e84210a"}}}`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := jsontext.Decode([]byte(test.text), &corev1.Pod{})
			var quantity *jsontext.QuantityError
			if test.want == "" && err != nil || test.want != "" && (!errors.As(err, &quantity) || err.Error() != test.want) {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
	// jsontext leaves this type to encoding/json and has no list of its fields. The quantity is
	// still an error.
	var odd struct {
		*child
		Limits corev1.ResourceList
	}
	if err := jsontext.Decode([]byte(`{"Limits":{"cpu":"1e-2147483647"}}`), &odd); err == nil {
		t.Error("a quantity in a type of another kind was decoded")
	}
}

// node is a recursive type.
type node struct {
	Child *node `json:"child,omitempty"`
	List  []int `json:"list,omitempty"`
}

// TestDepth checks that depth costs no more than length.
func TestDepth(t *testing.T) {
	const depth = 9000
	text := strings.Repeat(`{"child":`, depth) + `{"list":[0` + strings.Repeat(",0", 1<<20) + `]}` + strings.Repeat("}", depth)
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

// TestDecodeInto checks that decoding into a non-empty object has the same result as encoding/json.
func TestDecodeInto(t *testing.T) {
	k := known{Name: "before", Labels: map[string]string{"a": "b"}, Count: 1}
	if err := jsontext.Decode([]byte(`{"labels":{"c":"d"},"count":2}`), &k); err != nil {
		t.Fatal(err)
	}
	if k.Name != "before" || len(k.Labels) != 2 || k.Count != 2 {
		t.Errorf("got %+v", k)
	}
}

// TestMemory checks that a text that would take many times its size in memory is an error
// immediately, for each way to decode it.
func TestMemory(t *testing.T) {
	many := func(element string) string {
		return "[" + strings.Repeat(element+",", 8<<20/(len(element)+1)) + element + "]"
	}
	keys := func(value string) string {
		var out strings.Builder
		for i := range 1 << 20 {
			fmt.Fprintf(&out, "\"%x\":%s,", i, value)
		}
		return "{" + out.String() + `"":` + value + "}"
	}
	pod := func(spec string) string { return `{"kind":"Pod","apiVersion":"v1","spec":{` + spec + `}}` }
	for _, test := range []struct {
		name, text string
		object     any
	}{
		{"containers", pod(`"containers":` + many("{}")), &corev1.Pod{}},
		{"environment", pod(`"containers":[{"env":` + many("{}") + `}]`), &corev1.Pod{}},
		{"pointers", pod(`"volumes":` + many(`{"gcePersistentDisk":{}}`)), &corev1.Pod{}},
		{"quantities", pod(`"overhead":` + keys("1")), &corev1.Pod{}},
		{"after a key that is there twice", `{"kind":"Pod",` + pod(`"containers":` + many("{}"))[1:], &corev1.Pod{}},
		{"unstructured", pod(`"a":` + many("{}")), &unstructured.Unstructured{}},
		{"map", pod(`"a":` + many(`[]`)), &map[string]any{}},
		{"objects", many(`{"a":1}`), new(any)},
	} {
		t.Run(test.name, func(t *testing.T) {
			var err error
			bytes, _ := alloctest.Cost(func() { err = jsontext.Decode([]byte(test.text), test.object) })
			var memory *jsontext.MemoryError
			if !errors.As(err, &memory) {
				t.Errorf("got %v", err)
			}
			if bytes > 160<<20 {
				t.Errorf("Decode allocated %d MiB", bytes>>20)
			}
		})
	}
	// An ordinary large object is accepted.
	text := []byte(pod(`"containers":` + many(`{"name":"container","image":"registry.example.com/app:1.2.3","args":["--verbose","--port=8080"]}`)))
	for _, object := range []any{&corev1.Pod{}, &unstructured.Unstructured{}} {
		if err := jsontext.Decode(text, object); err != nil {
			t.Errorf("%T: %v", object, err)
		}
	}
}
