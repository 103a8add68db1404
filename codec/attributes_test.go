// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/codec"
)

var (
	longestID = strings.Repeat("i", codec.MaxIDLength)
	tooLongID = longestID + "i"
)

// TestMaxIDLength checks that identifiers have a maximum length, in Encode and in Decode.
func TestMaxIDLength(t *testing.T) {
	ref := func(id string) codec.WorkRef { return codec.WorkRef{ResourceID: id, Version: 1, Name: id} }
	for _, tc := range []struct {
		name, reason, field string
		profile             codec.Profile
		message             func(id string) codec.Message
	}{
		{"spec", "an agent's key", "resourceid", codec.ManifestWork, func(id string) codec.Message {
			m := newSpec()
			m.WorkRef = ref(id)
			return m
		}},
		{"status", "a source's key", "specresourceid", codec.ManifestWork, func(id string) codec.Message {
			m := newStatus()
			m.WorkRef = ref(id)
			return m
		}},
		{"name", "an object has it", "workname", codec.ManifestWork, func(id string) codec.Message {
			m := newStatus()
			m.WorkRef = codec.WorkRef{ResourceID: "a", Version: 1, Name: id}
			return m
		}},
		{"uid", "kept with the work", "workuid", codec.ManifestWork, func(id string) codec.Message {
			m := newStatus()
			m.WorkRef = codec.WorkRef{ResourceID: "a", Version: 1, UID: types.UID(id)}
			return m
		}},
		{"session", "kept with the work", "agentsession", codec.ManifestWork, func(id string) codec.Message {
			m := newSpec()
			m.AgentSession = id
			return m
		}},
		{"resync", "a key while its chunks come", "resyncid", codec.ManifestWork, func(id string) codec.Message {
			m := newSpecResync()
			m.ResyncID = id
			return m
		}},
		{"bundle", "sources choose their IDs", "resourceid", codec.ManifestBundle, func(id string) codec.Message {
			m := bundleSpec()
			m.ResourceID = id
			return m
		}},
		{"bundle's name", "an object has it", "metadata", codec.ManifestBundle, func(id string) codec.Message {
			m := bundleSpec()
			m.Name = id
			return m
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			topic, e, err := tc.profile.Encode(tc.message(longestID))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tc.profile.Decode(topic, e); err != nil {
				t.Errorf("the longest is not read: %v", err)
			}
			if tc.field == "metadata" {
				e.SetExtension(tc.field, strings.Replace(e.Extensions()[tc.field].(string), longestID, tooLongID, 1))
			} else {
				e.SetExtension(tc.field, tooLongID)
			}
			_, err = tc.profile.Decode(topic, e)
			code := codec.CodeAttribute
			if tc.field == "metadata" {
				code = codec.CodeData
			}
			wantError(t, err, code, tc.field, tc.reason)
			_, _, err = tc.profile.Encode(tc.message(tooLongID))
			wantError(t, err, codec.CodeAttribute, tc.field, tc.reason)
		})
	}
}

// TestMaxIDLengthInLists checks that Decode accepts a list with an entry that no event of this package
// can match.
func TestMaxIDLengthInLists(t *testing.T) {
	specs := newSpecResync()
	specs.Entries = []codec.SpecEntry{{ResourceID: "a", Version: 1}, {ResourceID: longestID, Version: 2},
		{ResourceID: "b", Version: 3}}
	statuses := newStatusResync()
	statuses.Entries = []codec.StatusEntry{{ResourceID: "a", Hash: "1"}, {ResourceID: longestID, Hash: "2"},
		{ResourceID: "b", Hash: "3"}}
	for _, m := range []codec.Message{specs, statuses} {
		topic, e, err := codec.ManifestWork.Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		e.DataEncoded = []byte(strings.Replace(string(e.DataEncoded), longestID, tooLongID, 1))
		got, err := codec.ManifestWork.Decode(topic, e)
		if err != nil {
			t.Fatal(err)
		}
		ids := []string{}
		switch got := got.(type) {
		case *codec.SpecResync:
			for _, entry := range got.Entries {
				ids = append(ids, entry.ResourceID)
			}
		case *codec.StatusResync:
			for _, entry := range got.Entries {
				ids = append(ids, entry.ResourceID)
			}
		}
		if diff := cmp.Diff([]string{"a", "b"}, ids); diff != "" {
			t.Errorf("IDs that were read (-want +got):\n%s", diff)
		}
	}
	specs.Entries[1].ResourceID = tooLongID
	_, _, err := codec.ManifestWork.Encode(specs)
	wantError(t, err, codec.CodeData, "data.resourceVersions[1].resourceID", "peers would pass it over")
}
