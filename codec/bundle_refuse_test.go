// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec_test

import (
	"errors"
	"maps"
	"math/rand"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/randfill"

	"github.com/spokewire/sdk-go/codec"
)

// TestManifestBundleEveryField fills the whole spec and status. It fails if a field does not
// survive the round trip, or if a status has another hash after it.
func TestManifestBundleEveryField(t *testing.T) {
	for seed := range int64(200) {
		f := filler(randfill.New().RandSource(rand.NewSource(seed))).NilChance(float64(seed/100) / 2)
		spec, status := bundleSpec(), bundleStatus()
		f.Fill(&spec.Work.Spec)
		f.Fill(&status.Status)
		if status.Status == nil {
			continue
		}
		status.Hash, _ = codec.ManifestBundle.StatusHash(status.Status)
		for _, m := range []codec.Message{spec, status} {
			topic, e, err := codec.ManifestBundle.Encode(m)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			e, err = codec.FromAttributes(codec.Attributes(e), e.DataContentType(), e.Data()) // over a binary transport
			if err != nil {
				t.Fatal(err)
			}
			got, err := codec.ManifestBundle.Decode(topic, e)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if diff := cmp.Diff(m, got, sameMessage); diff != "" {
				t.Fatalf("seed %d (-want +got):\n%s", seed, diff)
			}
			if back, ok := got.(*codec.Status); ok {
				if hash, err := codec.ManifestBundle.StatusHash(back.Status); err != nil || hash != status.Hash {
					t.Fatalf("seed %d: hash %s of what was read, %v, want %s", seed, hash, err, status.Hash)
				}
			}
		}
	}
}

// TestManifestBundleMetadataText checks that characters which JSON allows but attributes do not are
// escaped, and that Decode restores them.
func TestManifestBundleMetadataText(t *testing.T) {
	m := bundleSpec()
	m.Work.Annotations["note"] = "line\n\x7f\u0085\ufdd0 \U0001ffff ü <&>"
	topic, e, err := codec.ManifestBundle.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	got, err := codec.ManifestBundle.Decode(topic, e)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(codec.Message(m), got, sameMessage); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestManifestBundleCannotExpress checks that Encode refuses messages that the format cannot
// express, instead of sending something different.
func TestManifestBundleCannotExpress(t *testing.T) {
	spec := func(change func(*codec.Spec)) codec.Message { m := bundleSpec(); change(m); return m }
	list := func(change func(*codec.SpecResync)) codec.Message {
		m := &codec.SpecResync{Header: agentHeader()}
		change(m)
		return m
	}
	hashes := func(change func(*codec.StatusResync)) codec.Message {
		m := &codec.StatusResync{Header: sourceHeader()}
		change(m)
		return m
	}
	unnumbered := bundleStatus()
	unnumbered.SequenceID = 0
	tests := []struct {
		name, reason, field string
		message             codec.Message
	}{
		{"nil", "nothing to send", "", (*codec.Spec)(nil)},
		{"version", "an Integer has 32 bits", "resourceversion", spec(func(m *codec.Spec) { m.Version = 1 << 31 })},
		{"action", "unknown to peers", "type", spec(func(m *codec.Spec) { m.Action = "watch" })},
		{"no work", "only a deletion can do without", "data", spec(func(m *codec.Spec) { m.Work = nil })},
		{"large metadata", "an attribute has 64 KiB", "metadata",
			spec(func(m *codec.Spec) { m.Work.Annotations["x"] = strings.Repeat("x", 1<<16) })},
		{"no sequence", "peers require it", "sequenceid", unnumbered},
		{"listed works", "a source sends all others", "resyncscope",
			list(func(m *codec.SpecResync) { m.Scope = codec.ScopeListed })},
		{"part of a list", "a source treats it as complete", "buckets",
			list(func(m *codec.SpecResync) { m.Part = codec.Part{Buckets: 2, Listed: []int{1}} })},
		{"chunk without an ID", "only the ID links the chunks", "resyncid",
			list(func(m *codec.SpecResync) { m.Chunk.Count = 2 })},
		{"lists only", "agents would send all statuses", "resyncscope",
			hashes(func(m *codec.StatusResync) { m.Scope = codec.ScopeLists })},
		{"end marker", "agents would send all statuses", "resyncscope",
			hashes(func(m *codec.StatusResync) { m.Scope = codec.ScopeListed })},
		{"broadcast for one source", "nothing would tell", "originalsource",
			list(func(m *codec.SpecResync) { m.Broadcast, m.TargetSource = true, source })},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := codec.ManifestBundle.Encode(tc.message)
			var e *codec.Error
			if !errors.As(err, &e) || e.Field != tc.field {
				t.Errorf("%v, want an error about %q: %s", err, tc.field, tc.reason)
			}
		})
	}
}

// TestManifestBundleRefuses checks that an event is refused if it is malformed or contradicts its
// topic, and that the error names the place.
func TestManifestBundleRefuses(t *testing.T) {
	const events = "sources/s1/clusters/c1/"
	tests := []struct {
		name, reason string
		step         int
		topic        string
		set          map[string]string
		payload      string
		code         codec.Code
		field        string
	}{
		{"other topic", "not the profile's", 2, "/sources/s1/clusters/c1/manifests", nil, "", codec.CodeTopic, ""},
		{"no source", "an empty level", 2, "sources//clusters/c1/sourceevents", nil, "", codec.CodeTopic, "source"},
		{"no cluster", "an empty level", 1, "clusters//agentbroadcast", nil, "", codec.CodeTopic, "cluster"},
		{"status from a source", "agents report", 3, events + "sourceevents", nil, "", codec.CodeType, "type"},
		{"spec from an agent", "sources decide", 2, events + "agentevents", nil, "", codec.CodeType, "type"},
		{"broadcast spec", "only requests are", 2, "sources/s1/sourcebroadcast", nil, "", codec.CodeType, "type"},
		{"other data type", "not a bundle", 2, "",
			map[string]string{"ce-type": "io.open-cluster-management.v1.manifestwork.spec.created"}, "", codec.CodeType, "type"},
		{"other source", "not the topic's", 2, "", map[string]string{"ce-source": "s2"}, "", codec.CodeMismatch, "source"},
		{"other cluster", "not the topic's", 2, "", map[string]string{"ce-clustername": "c2"}, "", codec.CodeMismatch,
			"clustername"},
		{"status of another source", "not the topic's", 3, "", map[string]string{"ce-originalsource": "s2"}, "",
			codec.CodeMismatch, "originalsource"},
		{"no resource ID", "required", 2, "", map[string]string{"ce-resourceid": ""}, "", codec.CodeAttribute, "resourceid"},
		{"no version", "required", 2, "", map[string]string{"ce-resourceversion": ""}, "", codec.CodeAttribute,
			"resourceversion"},
		{"long version", "no Integer", 2, "", map[string]string{"ce-resourceversion": "2147483648"}, "", codec.CodeAttribute,
			"resourceversion"},
		{"no sequence", "statuses are ordered by it", 3, "", map[string]string{"ce-sequenceid": ""}, "", codec.CodeAttribute,
			"sequenceid"},
		{"bad metadata", "no object", 2, "", map[string]string{"ce-metadata": "[]"}, "", codec.CodeData, "metadata"},
		{"bad metadata of a status", "no object", 3, "", map[string]string{"ce-metadata": "7"}, "", codec.CodeData,
			"metadata"},
		{"no manifests", "a missing list is no empty one", 2, "", nil, `{}`, codec.CodeData, "data.manifests"},
		{"bad manifests", "no list", 2, "", nil, `{"manifests":7}`, codec.CodeData, "data.manifests"},
		{"bad status", "no object", 3, "", nil, `[]`, codec.CodeData, "data"},
		{"bad list", "no list", 5, "", nil, `{"resourceVersions":7}`, codec.CodeData, "data.resourceVersions"},
	}
	captured := capturedEvents(t)
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			c := captured[tc.step]
			c.UserProperties = maps.Clone(c.UserProperties)
			maps.Copy(c.UserProperties, tc.set)
			if tc.topic != "" {
				c.Topic = tc.topic
			}
			if tc.payload != "" {
				c.Payload = []byte(tc.payload)
			}
			m, err := codec.ManifestBundle.Decode(c.Topic, c.event(t))
			var e *codec.Error
			if !errors.As(err, &e) || e.Code != tc.code || e.Field != tc.field || e.EventID == "" && tc.code != codec.CodeTopic {
				t.Errorf("%v, want code %s and field %q: %s", err, tc.code, tc.field, tc.reason)
			}
			// Decode returns the message of a spec with bad data, so its sender can be notified.
			if _, told := m.(*codec.Spec); told != (tc.code == codec.CodeData && tc.step == 2) {
				t.Errorf("a message beside the error: %v", m)
			}
		})
	}
}

// TestManifestBundleDeletionOfUnknown checks that Decode accepts deletions without metadata. A
// source of the OCM SDK answers a list with such deletions. Those of a gRPC server of the OCM SDK have
// no version either.
func TestManifestBundleDeletionOfUnknown(t *testing.T) {
	c := capturedEvents(t)[7]
	c.UserProperties = maps.Clone(c.UserProperties)
	delete(c.UserProperties, "ce-metadata")
	delete(c.UserProperties, "ce-logtracing")
	for _, version := range []int64{2, 0} {
		if version == 0 {
			delete(c.UserProperties, "ce-resourceversion")
		}
		m, err := codec.ManifestBundle.Decode(c.Topic, c.event(t))
		if err != nil {
			t.Fatal(err)
		}
		spec := m.(*codec.Spec)
		if spec.Name != capturedID || spec.Work.Name != "" || spec.DeletionTimestamp == nil || spec.Version != version {
			t.Errorf("read as %+v", spec)
		}
	}
}
