// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/codec"
)

// TestPresenceRoundTrip encodes and decodes the presence of both roles in each profile, including a
// profile with the same first word in all topics.
func TestPresenceRoundTrip(t *testing.T) {
	other, err := codec.NewManifestBundle(codec.ManifestBundleOptions{SourcesLevel: "s", ClustersLevel: "consumers",
		SharedGroup: "g"})
	if err != nil {
		t.Fatal(err)
	}
	same, err := codec.NewManifestBundle(codec.ManifestBundleOptions{SourcesLevel: "all", ClustersLevel: "all"})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)
	for topics, profile := range map[[2]string]codec.Profile{
		{"/sources/hub/presence", "/clusters/c1/presence"}: codec.ManifestWork,
		{"sources/hub/presence", "clusters/c1/presence"}:   codec.ManifestBundle,
		{"s/hub/presence", "consumers/c1/presence"}:        other,
		{"all/hub/presence", "all/c1/presence"}:            same,
	} {
		for i, m := range []*codec.Presence{
			{Header: codec.Header{ID: "1", Time: at, Source: "hub"}, Session: "a", Started: at},
			{Header: codec.Header{ID: "2", Time: at, Cluster: "c1", Agent: "agent"}, Session: "b", Started: at, Leaving: true},
		} {
			topic, e, err := profile.Encode(m)
			if err != nil {
				t.Fatal(err)
			}
			if topic != topics[i] || topic != profile.PresenceFilter(m.Source, m.Cluster) {
				t.Errorf("topic %q, filter %q, want %q", topic, profile.PresenceFilter(m.Source, m.Cluster), topics[i])
			}
			if !codec.IsPresence(e) || codec.IsResync(e) {
				t.Errorf("type %q is taken for another message", e.Type())
			}
			got, err := profile.Decode(topic, e)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(codec.Message(m), got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", topic, diff)
			}
		}
	}
}

// TestPresenceRefused checks that Encode and Decode reject an incomplete or malformed presence, and
// that Encode rejects a presence of both roles or of neither.
func TestPresenceRefused(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	good := codec.Presence{Header: codec.Header{ID: "1", Source: "hub"}, Session: "a", Started: at}
	for name, spoil := range map[string]func(*codec.Presence){
		"no session": func(m *codec.Presence) { m.Session = "" },
		"no start":   func(m *codec.Presence) { m.Started = time.Time{} },
		"both roles": func(m *codec.Presence) { m.Cluster = "c1" },
		"no role":    func(m *codec.Presence) { m.Source = "" },
	} {
		m := good
		spoil(&m)
		if _, _, err := codec.ManifestWork.Encode(&m); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for attribute, value := range map[string]string{
		"session": "", "started": "yesterday", "leaving": "perhaps", "type": "spec.created", "topic": "/sources/a/b/presence",
	} {
		topic, e, err := codec.ManifestWork.Encode(&good)
		if err != nil {
			t.Fatal(err)
		}
		switch attribute {
		case "type":
			e.SetType("io.open-cluster-management.v1.manifestwork." + value)
		case "topic":
			topic = value
		default:
			e.SetExtension(attribute, value)
		}
		if m, err := codec.ManifestWork.Decode(topic, e); err == nil {
			t.Errorf("%s %q: decoded as %v", attribute, value, m)
		}
	}
}
