// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
)

// TestBadNames: a peer may send a work with a name that is invalid for objects. The agent does not
// show the work to its users, and reports the error to the source. It answers a deletion of the
// work.
func TestBadNames(t *testing.T) {
	for _, profile := range []codec.Profile{codec.ManifestWork, codec.ManifestBundle} {
		for _, name := range []string{"A B", "../up", "a/b", strings.Repeat("n", 254)} {
			t.Run(profile.Name()+"/"+name, func(t *testing.T) {
				inScene(t, func(s *scene) {
					a := s.agent(work.AgentOptions{Profile: profile, Sources: []string{"hub"}})
					s.settle()
					var told []*codec.Status
					s.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
						if msg, err := profile.Decode(m.Topic, m.Event); err == nil {
							if status, ok := msg.(*codec.Status); ok {
								told = append(told, status)
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
					if len(told) != 1 || told[0].Status == nil || conditionOf(&workv1.ManifestWork{Status: *told[0].Status}, workv1.WorkDegraded) != "True InvalidSpec" {
						t.Fatalf("the source was told %+v", told)
					}
					spec.DeletionTimestamp, spec.Version = ptr.To(metav1.NewTime(time.Now())), spec.Version+1
					sendAs(s, profile, spec)
					s.settle()
					if len(told) != 2 || conditionOf(&workv1.ManifestWork{Status: *told[1].Status}, codec.ConditionDeleted) == "" {
						t.Errorf("of the deletion, the source was told %+v", told[1:])
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
