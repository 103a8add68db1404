// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package jsontext_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/internal/jsontext"
	"github.com/spokewire/sdk-go/internal/testing/alloctest"
)

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
	text := []byte(pod(`"containers":` +
		many(`{"name":"container","image":"registry.example.com/app:1.2.3","args":["--verbose","--port=8080"]}`)))
	for _, object := range []any{&corev1.Pod{}, &unstructured.Unstructured{}} {
		if err := jsontext.Decode(text, object); err != nil {
			t.Errorf("%T: %v", object, err)
		}
	}
}
