// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package health_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/health"
)

func parsed(text string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON([]byte(text)); err != nil {
		panic(err)
	}
	return obj
}

func TestOf(t *testing.T) {
	for _, test := range []struct {
		name, object string
		want         health.Status
		message      string
	}{
		{"ConfigMap", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`, health.StatusCurrent, "always ready"},
		{"custom resource without a condition", `{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"a"}}`,
			health.StatusCurrent, "Resource is current"},
		{"generation not observed", `{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"a","generation":2},
			"status":{"observedGeneration":1,"conditions":[{"type":"Ready","status":"True"}]}}`, health.StatusInProgress, "generation is 2"},
		{"not ready", `{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"a"},
			"status":{"conditions":[{"type":"Ready","status":"False","reason":"Waiting","message":"for a disk"}]}}`, health.StatusInProgress, "for a disk"},
		{"ready", `{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"a"},"status":{"conditions":[{"type":"Ready","status":"True"}]}}`,
			health.StatusCurrent, "Ready"},
		{"stalled", `{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"a"},
			"status":{"conditions":[{"type":"Stalled","status":"True","message":"no such disk"}]}}`, health.StatusFailed, "no such disk"},
		{"being deleted", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","deletionTimestamp":"2026-01-01T00:00:00Z"}}`,
			health.StatusTerminating, "deletion"},
		{"Job that is not started", `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"a"}}`, health.StatusInProgress,
			"not started"},
		{"Job that runs", `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"a"},"status":{"startTime":"2026-01-01T00:00:00Z","active":1}}`,
			health.StatusInProgress, "active: 1"},
		{"Job that is complete", `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"a"},"status":{"startTime":"2026-01-01T00:00:00Z",
			"succeeded":1,"conditions":[{"type":"Complete","status":"True"}]}}`, health.StatusCurrent, "Completed"},
		{"Job that has failed", `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"a"},"status":{"startTime":"2026-01-01T00:00:00Z",
			"failed":1,"conditions":[{"type":"Failed","status":"True"}]}}`, health.StatusFailed, "Failed"},
		{"Pod that has failed", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"status":{"phase":"Failed"}}`,
			health.StatusFailed, "not successfully"},
		{"Pod that has succeeded", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"status":{"phase":"Succeeded"}}`,
			health.StatusCurrent, "successfully"},
	} {
		t.Run(test.name, func(t *testing.T) {
			result, err := health.Of(parsed(test.object))
			if err != nil || result.Status != test.want || !strings.Contains(result.Message, test.message) {
				t.Errorf("%+v, %v, want %s with %q", result, err, test.want, test.message)
			}
		})
	}
}

func TestOfUnreadable(t *testing.T) {
	for name, obj := range map[string]*unstructured.Unstructured{
		"nil":     nil,
		"empty":   {},
		"no name": parsed(`{"apiVersion":"v1","kind":"ConfigMap"}`),
	} {
		if result, err := health.Of(obj); !errors.Is(err, appliedwork.ErrInvalidObject) ||
			result.Status != health.StatusUnknown {
			t.Errorf("%s: %+v, %v", name, result, err)
		}
	}
	for name, status := range map[string]string{
		"a string":                 `"x"`,
		"conditions of text":       `{"conditions":"x"}`,
		"observed generation":      `{"observedGeneration":"x"}`,
		"container that is a text": `{"phase":"Running","containerStatuses":["x"]}`,
		"unknown phase":            `{"phase":"x"}`,
	} {
		obj := parsed(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","generation":1}}`)
		var value any
		if err := json.Unmarshal([]byte(status), &value); err != nil {
			t.Fatal(err)
		}
		obj.Object["status"] = value
		if result, err := health.Of(obj); err == nil || result.Status != health.StatusUnknown ||
			result.Message != err.Error() {
			t.Errorf("%s: %+v, %v", name, result, err)
		}
	}
}

func TestMessageIsLimited(t *testing.T) {
	obj := parsed(`{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"a"},
		"status":{"conditions":[{"type":"Ready","status":"False","message":"` + "x" + strings.Repeat("é", 2000) + `"}]}}`)
	result, err := health.Of(obj)
	if err != nil || len(result.Message) > 1024 || len(result.Message) < 1000 || !utf8.ValidString(result.Message) {
		t.Errorf("%d bytes, %v", len(result.Message), err)
	}
}
