// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec_test

import (
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/codec"
)

func TestValidateName(t *testing.T) {
	for _, tc := range []struct {
		name, reason string
		value        string
		want         string
	}{
		{"plain", "the usual", "cluster1", ""},
		{"dots", "cluster names are DNS names", "a.b-c", ""},
		{"resync", "a fixed word of the topics is a name like others", "resync", ""},
		{"letters", "any language", "Zürich-東京", ""},
		{"space", "allowed by MQTT", "a b", ""},
		{"dollar", "special only at the start of a topic", "$share", ""},
		{"longest", "exactly the limit", strings.Repeat("x", codec.MaxNameLength), ""},
		{"empty", "would be an empty level", "", "source ID: must not be empty"},
		{"slash", "would be two levels", "a/b", `source ID: must not contain '/', which has a meaning in topics`},
		{"plus", "wildcard", "+", `source ID: must not contain '+', which has a meaning in topics`},
		{"hash", "wildcard", "a#", `source ID: must not contain '#', which has a meaning in topics`},
		{"NUL", "MQTT forbids it", "a\x00", "source ID: must not contain the control character U+0000"},
		{"newline", "control character", "a\n", "source ID: must not contain the control character U+000A"},
		{"DEL", "control character", "\x7f", "source ID: must not contain the control character U+007F"},
		{"C1", "control character", "\u0085", "source ID: must not contain the control character U+0085"},
		{"noncharacter", "CloudEvents forbids it", "\ufffe", "source ID: must not contain the noncharacter U+FFFE"},
		{"not UTF-8", "MQTT strings are UTF-8", "a\xff", "source ID: is not valid UTF-8"},
		{"too long", "one above the limit", strings.Repeat("x", codec.MaxNameLength+1),
			"source ID: must not be longer than 1024 bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := codec.ValidateName("source ID", tc.value)
			if tc.want == "" {
				if err != nil {
					t.Errorf("%s: %v", tc.reason, err)
				}
				return
			}
			wantError(t, err, codec.CodeTopic, "source ID", tc.reason)
			if err.Error() != tc.want {
				t.Errorf("%s: got %q, want %q", tc.reason, err, tc.want)
			}
		})
	}
}
