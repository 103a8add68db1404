// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec_test

import (
	"testing"

	"github.com/spokewire/sdk-go/codec"
)

func TestSourceIDs(t *testing.T) {
	for _, id := range []string{
		"agent", "cluster1-work-agent", "http://hub.example:8080/path?q=1#f", "a b", "1:2", "a:b", "HTTP:x", "50%", "%41",
		"./x", "..", "*",
		"Zürich", "<agent>", `"quoted"`, "a\\b", "//host/x", "a?b", "#f", "?q", "urn:uuid:1", "a+b", "[::1]", "user:pw@host",
	} {
		m := newStatus()
		m.Agent = id
		topic, e, err := codec.ManifestWork.Encode(m)
		if err != nil {
			t.Errorf("agent ID %q: %v", id, err)
			continue
		}
		direct, err := codec.ManifestWork.Decode(topic, e) // as an in-process transport delivers it
		if err != nil {
			t.Errorf("agent ID %q: %v", id, err)
			continue
		}
		_, payload := structured(t, m)
		for _, got := range []codec.Message{direct, decode(t, topic, payload)} {
			if got.Head().Agent != id {
				t.Errorf("agent ID %q is read as %q", id, got.Head().Agent)
			}
		}
	}
}
