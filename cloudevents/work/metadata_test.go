// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
)

// TestInvalidNamesAreReported: a peer may send a work with a name that is invalid for objects. The
// agent does not show the work to its users, and reports the error to the source. It answers a
// deletion of the work.
func TestInvalidNamesAreReported(t *testing.T) {
	for _, profile := range []codec.Profile{codec.ManifestWork, codec.ManifestBundle} {
		for _, name := range []string{"A B", "../up", "a/b", strings.Repeat("n", 254)} {
			t.Run(profile.Name()+"/"+name, func(t *testing.T) {
				inScene(t, func(s *scene) {
					a := s.agent(work.AgentOptions{Profile: profile, Sources: []string{"hub"}})
					s.settle()
					var sent []*codec.Status
					s.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
						if msg, err := profile.Decode(m.Topic, m.Event); err == nil {
							if status, ok := msg.(*codec.Status); ok {
								sent = append(sent, status)
							}
						}
						deliver(m)
					})
					spec := badlyNamed(profile, name)
					sendAs(s, profile, spec)
					s.settle()
					if names := a.names(); len(names) > 0 {
						t.Errorf("the agent shows %q", names)
					}
					if len(sent) != 1 || sent[0].Status == nil ||
						conditionOf(&workv1.ManifestWork{Status: *sent[0].Status}, workv1.WorkDegraded) != "True InvalidSpec" {
						t.Fatalf("the agent sent %+v", sent)
					}
					spec.DeletionTimestamp, spec.Version = ptr.To(metav1.NewTime(time.Now())), spec.Version+1
					sendAs(s, profile, spec)
					s.settle()
					if len(sent) != 2 || conditionOf(&workv1.ManifestWork{Status: *sent[1].Status}, codec.ConditionDeleted) == "" {
						t.Errorf("for the deletion, the agent sent %+v", sent[1:])
					}
				})
			})
		}
	}
}

func badlyNamed(profile codec.Profile, name string) *codec.Spec {
	id := profile.ResourceID("hub", "cluster1", name)
	obj := newWork(name, "1")
	obj.Namespace, obj.Generation = "cluster1", 1
	return &codec.Spec{
		Header:  codec.Header{ID: "x", Time: time.Now().UTC(), Source: "hub", Cluster: "cluster1"},
		WorkRef: codec.WorkRef{ResourceID: id, Version: 1, Name: name},
		Action:  codec.ActionUpdate, Work: obj,
	}
}

func sendAs(s *scene, profile codec.Profile, m codec.Message) {
	s.t.Helper()
	topic, event, err := profile.Encode(m)
	if err != nil {
		s.t.Fatal(err)
	}
	publish(s, cloudevents.Message{Topic: topic, Event: event})
}

// TestInvalidLabelsAllowOtherChanges: a source that checks less than an API server may send labels
// that no API server accepts. The agent's user must still be able to change other fields.
func TestInvalidLabelsAllowOtherChanges(t *testing.T) {
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
			t.Errorf("a change of other fields: %v", err)
		}
		if err := patch(`{"metadata":{"labels":{"b":"not a label either!"}}}`); !apierrors.IsInvalid(err) {
			t.Errorf("another bad label: %v", err)
		}
		if err := patch(`{"metadata":{"labels":{"a":"good"}}}`); err != nil {
			t.Errorf("a good label for the bad one: %v", err)
		}
	})
}

// TestAgentKeepsItsMetadata: changes of the source win, the agent keeps its own keys and
// finalizers, and the agent cannot change the spec.
func TestAgentKeepsItsMetadata(t *testing.T) {
	inScene(t, func(s *scene) {
		h := s.source(work.SourceOptions{})
		a := s.agent(work.AgentOptions{})
		w := newWork("app", "1")
		w.Labels = map[string]string{"shared": "source", "dropped": "source"}
		h.create("cluster1", w)
		s.settle()
		a.patch("app", []byte(
			`{"metadata":{"labels":{"mine":"agent","shared":"agent","dropped":"agent"},"finalizers":["example.com/x"]}}`))
		s.settle()
		if diff := cmp.Diff(w.Labels, h.get("cluster1", "app").Labels); diff != "" {
			t.Errorf("the agent's labels reached the source (-want +got):\n%s", diff)
		}
		_, err := h.works("cluster1").Patch(t.Context(), "app", types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"new":"source","dropped":null}}}`), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		s.settle()
		got := a.get("app")
		if diff := cmp.Diff(map[string]string{"mine": "agent", "shared": "agent", "new": "source"}, got.Labels); diff != "" {
			t.Errorf("labels (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"example.com/x"}, got.Finalizers); diff != "" {
			t.Errorf("finalizers (-want +got):\n%s", diff)
		}
		got.Spec.Workload.Manifests = nil
		if _, err := a.works().Update(t.Context(), got, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) ||
			!strings.Contains(err.Error(), "belongs to the work's source") {
			t.Errorf("an update of the spec: %v", err)
		}
		for verb, err := range map[string]error{
			"create": second(a.works().Create(t.Context(), newWork("x", "1"), metav1.CreateOptions{})),
			"delete": a.works().Delete(t.Context(), "app", metav1.DeleteOptions{}),
		} {
			const of = ` is not supported on resources of kind "manifestworks.work.open-cluster-management.io": `
			if !apierrors.IsMethodNotSupported(err) ||
				err.Error() != verb+of+"works are created and deleted at their source" {
				t.Errorf("%s on the agent: %v", verb, err)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }
