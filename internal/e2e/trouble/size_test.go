// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package trouble_test

import (
	"encoding/json"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

// TestTrouble06PacketLimit: every write refuses works that exceed the broker's packet limit. Works
// that were accepted before the limit was known report the refusal. All other works are not
// affected.
func TestTrouble06PacketLimit(t *testing.T) {
	t.Parallel()
	const limit = 8192
	large := rand.String(limit)
	s := newScene(t, mosquitto.Options{MaxPacketSize: limit})
	h := s.newSource(work.SourceOptions{})
	h.create("cluster1", "large", large) // the broker's limit is not known yet
	h.create("cluster1", "small", "1")
	h.start(h.Source)
	a := s.agent(work.AgentOptions{})
	shows(t, "the agent", a.works(), "small=1/")
	eventually(t, "the condition of the queued work", func() string {
		got := degraded(h.get("cluster1", "large"))
		return unless(got == "TooLarge", "the condition is "+got)
	})

	tooLarge := func(what string, err error) {
		t.Helper()
		if !apierrors.IsRequestEntityTooLargeError(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	works := h.works("cluster1")
	_, err := works.Create(t.Context(), newWork("more", large), metav1.CreateOptions{})
	tooLarge("Create", err)
	obj := h.get("cluster1", "small")
	obj.Spec = newWork("small", large).Spec
	_, err = works.Update(t.Context(), obj, metav1.UpdateOptions{})
	tooLarge("Update", err)
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{"a": large}}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = works.Patch(t.Context(), "small", types.MergePatchType, patch, metav1.PatchOptions{})
	tooLarge("Patch", err)
	tooLarge("a status", report(a, "small", large))

	h.set("cluster1", "large", "2")
	a.report("small", "fits")
	shows(t, "the agent in the end", a.works(), "large=2/ small=1/fits")
	shows(t, "the source in the end", works, "large=2/ small=1/fits")
	h.delete("cluster1", "large")
	eventually(t, "the deletion on the agent", func() string {
		obj, err := a.works().Get(t.Context(), "large", metav1.GetOptions{})
		return unless(err == nil && obj.DeletionTimestamp != nil, "it is not deleting")
	})
	// The work was created before the source had received a message from the agent. An earlier
	// agent process may have it, so it is cleaned up.
	if err := a.patch("large", `{"metadata":{"finalizers":null}}`); err != nil {
		t.Fatal(err)
	}
	shows(t, "the source after a deletion", works, "small=1/fits")
}

// TestTrouble06UnreadableSpec: an agent answers a spec that it cannot decode, and keeps the last
// valid spec. The source shows the answer until it sends a valid spec.
func TestTrouble06UnreadableSpec(t *testing.T) {
	t.Parallel()
	s := newScene(t, mosquitto.Options{})
	wire := newTap(s, nil)
	h := s.source(work.SourceOptions{})
	a := s.agent(work.AgentOptions{})
	session := wire.hears("the agent's list", func(m heard) bool { return m.list() != nil }).list().AgentSession
	h.create("cluster1", "held", "good")
	shows(t, "the agent before", a.works(), "held=good/")
	a.report("held", "good")
	shows(t, "the source before", h.works("cluster1"), "held=good/good")

	// The agent receives a corrupted copy of the source's message, and the source receives the
	// answer.
	a.leave()
	h.set("cluster1", "held", "spoilt")
	h.create("cluster1", "new", "spoilt")
	spoilt := map[string]heard{}
	for _, name := range []string{"held", "new"} {
		spoilt[name] = wire.hears(name, func(m heard) bool {
			return m.spec() != nil && m.spec().Name == name && valueOf(m.spec().Work) == "spoilt"
		})
	}
	h.leave()
	a.comeBack()
	for name, m := range spoilt {
		wire.raw().publish(m.topic, spoil(t, m.payload, session))
		wire.hears("the agent's answer", func(m heard) bool {
			return m.status() != nil && m.status().Name == name && strings.Contains(string(m.payload), "InvalidSpec")
		})
	}
	eventually(t, "the agent's log", func() string {
		return unless(a.log.has("Refused an event", "data.manifests"), a.log.String())
	})
	h.comeBack()
	shows(t, "the source", h.works("cluster1"), "held=spoilt/good!InvalidSpec new=spoilt/!InvalidSpec")
	if got := state(t, a.works()); got != "held=good/good" {
		t.Errorf("the agent shows %s", got)
	}

	h.set("cluster1", "held", "better")
	h.set("cluster1", "new", "better")
	shows(t, "the agent, healed", a.works(), "held=better/good new=better/")
	a.report("new", "better")
	shows(t, "the source, healed", h.works("cluster1"), "held=better/good new=better/better")
}

// spoil replaces the data of an event with data that is not a work.
func spoil(t *testing.T, payload []byte, session string) []byte {
	return edited(t, payload, map[string]any{
		"data":         map[string]any{"manifests": 7},
		"agentsession": session, // otherwise the agent ignores it as an event from before its start
	})
}
