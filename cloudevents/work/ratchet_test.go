// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"bytes"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work"
)

// TestWhatWasWrongBefore: a source that checks less than an API server may send labels that no API
// server accepts. The agent's user must still be able to change other fields.
func TestWhatWasWrongBefore(t *testing.T) {
	inScene(t, func(s *scene) {
		s.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
			spoilt := m.Event.Clone()
			spoilt.DataEncoded = bytes.ReplaceAll(spoilt.DataEncoded, []byte("to-be-spoilt"), []byte("not a label!"))
			m.Event = &spoilt
			deliver(m)
		})
		h, a := s.source(work.SourceOptions{}), s.agent(work.AgentOptions{Sources: []string{"hub"}})
		s.settle()
		obj := newWork("app", "1")
		obj.Labels = map[string]string{"a": "to-be-spoilt"}
		h.create("cluster1", obj)
		s.settle()
		if got := a.get("app").Labels["a"]; got != "not a label!" {
			t.Fatalf("the label is %q", got)
		}
		patch := func(data string) error {
			_, err := a.works().Patch(t.Context(), "app", types.MergePatchType, []byte(data), metav1.PatchOptions{})
			return err
		}
		if err := patch(`{"metadata":{"finalizers":["example.com/x"],"annotations":{"a":"1"}}}`); err != nil {
			t.Errorf("a change of something else: %v", err)
		}
		if err := patch(`{"metadata":{"labels":{"b":"not a label either!"}}}`); !apierrors.IsInvalid(err) {
			t.Errorf("another bad label: %v", err)
		}
		if err := patch(`{"metadata":{"labels":{"a":"good"}}}`); err != nil {
			t.Errorf("a good label for the bad one: %v", err)
		}
	})
}
