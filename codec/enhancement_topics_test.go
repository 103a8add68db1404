// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/codec"
)

func TestFilters(t *testing.T) {
	want := []string{
		"/sources/src/clusters/+/manifestsstatus",
		"/sources/resync/+/manifests",
		"/sources/src/clusters/+/specresync",
	}
	if diff := cmp.Diff(want, codec.ManifestWork.SourceFilters("src")); diff != "" {
		t.Errorf("SourceFilters (-want +got):\n%s", diff)
	}
	want = []string{
		"/sources/+/clusters/c1/manifests",
		"/sources/+/resync/clusters/manifestsstatus",
		"/sources/+/clusters/c1/statusresync",
	}
	if diff := cmp.Diff(want, codec.ManifestWork.AgentFilters("c1")); diff != "" {
		t.Errorf("AgentFilters (-want +got):\n%s", diff)
	}
}

// TestFiltersMatchTopics checks that the filters of the receiving side match each message's topic,
// and that those of the other side do not.
func TestFiltersMatchTopics(t *testing.T) {
	for _, tc := range goldenCases() {
		forAgent := false
		switch m := tc.message.(type) {
		case *codec.Presence:
			if got := codec.ManifestWork.PresenceFilter(m.Source, m.Cluster); got != tc.topic {
				t.Errorf("%s: the filter is %s, want %s", tc.name, got, tc.topic)
			}
			if matchesAny(append(codec.ManifestWork.AgentFilters("+"), codec.ManifestWork.SourceFilters("+")...), tc.topic) {
				t.Errorf("%s: peers get %s", tc.name, tc.topic)
			}
			continue
		case *codec.Spec, *codec.StatusResync:
			forAgent = true
		}
		if got := matchesAny(codec.ManifestWork.AgentFilters(cluster), tc.topic); got != forAgent {
			t.Errorf("%s: the agent gets %s: %t, want %t", tc.name, tc.topic, got, forAgent)
		}
		if got := matchesAny(codec.ManifestWork.SourceFilters(source), tc.topic); got == forAgent {
			t.Errorf("%s: the source gets %s: %t, want %t", tc.name, tc.topic, got, !forAgent)
		}
	}
}

func matchesAny(filters []string, topic string) bool {
	for _, filter := range filters {
		want, got := strings.Split(filter, "/"), strings.Split(topic, "/")
		match := len(want) == len(got)
		for i := 0; match && i < len(want); i++ {
			match = want[i] == "+" || want[i] == got[i]
		}
		if match {
			return true
		}
	}
	return false
}

// TestTopicsWithFixedWords uses the fixed words of the topics as names. Decode must return the
// correct source, cluster, and type.
func TestTopicsWithFixedWords(t *testing.T) {
	words := []string{"sources", "resync", "clusters", "manifests", "manifestsstatus", "specresync", "statusresync"}
	for _, s := range words {
		for _, c := range words {
			for _, tc := range goldenCases() {
				m := tc.message
				h := m.Head()
				if h.Source != "" {
					h.Source = s
				}
				if h.Cluster != "" {
					h.Cluster = c
				}
				switch m := m.(type) {
				case *codec.Spec:
					m.UID = ""
					if m.Work != nil {
						m.Work.Namespace = c
					}
				case *codec.Status:
					m.UID = ""
				case *codec.SpecResync:
					if m.TargetSource != "" {
						m.TargetSource = s
					}
				}
				topic, payload := structured(t, m)
				if diff := cmp.Diff(m, decode(t, topic, payload), sameMessage); diff != "" {
					t.Fatalf("%s with source %s and cluster %s (-want +got):\n%s", tc.name, s, c, diff)
				}
			}
		}
	}
}

func TestDecodeTopic(t *testing.T) {
	for _, tc := range []struct{ name, topic, reason string }{
		{"empty", "", "no topic"},
		{"no leading slash", "sources/s/clusters/c/manifests", "another profile's"},
		{"other root", "/other/s/clusters/c/manifests", "not ours"},
		{"other middle", "/sources/s/consumers/c/manifests", "a fixed word differs"},
		{"other end", "/sources/s/clusters/c/specs", "unknown last level"},
		{"too short", "/sources/s/clusters", "levels are missing"},
		{"too long", "/sources/s/clusters/c/manifests/x", "a level too many"},
		{"trailing slash", "/sources/s/clusters/c/manifests/", "an empty level"},
		{"empty source", "/sources//clusters/c/manifests", "a name must not be empty"},
		{"directed resync of no source", "/sources//clusters/c/specresync", "it is not the one to all sources"},
		{"directed resync of no cluster", "/sources/s/clusters//statusresync", "it is not the one to all clusters"},
		{"empty cluster", "/sources/s/clusters//manifests", "a name must not be empty"},
		{"resync of no cluster", "/sources/resync//manifests", "a name must not be empty"},
		{"resync of no source", "/sources//resync/clusters/manifestsstatus", "a name must not be empty"},
		{"wildcard", "/sources/+/clusters/c/manifests", "a filter is no topic"},
		{"hash", "/sources/s/clusters/#/manifests", "a filter is no topic"},
		{"control character", "/sources/s\x00/clusters/c/manifests", "never in a name"},
		{"not UTF-8", "/sources/s/clusters/\xff/manifests", "never in a name"},
		{"shared", "$share/g/sources/s/clusters/c/manifests", "a filter is no topic"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, e, err := codec.ManifestWork.Encode(newSpec())
			if err != nil {
				t.Fatal(err)
			}
			m, err := codec.ManifestWork.Decode(tc.topic, e)
			if m != nil {
				t.Errorf("%s: got a message", tc.reason)
			}
			wantError(t, err, codec.CodeTopic, "*", tc.reason)
		})
	}
}
