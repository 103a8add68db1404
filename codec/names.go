// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"crypto/sha1"
	"fmt"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
)

// MaxNameLength is the longest source ID, cluster name or share group in bytes. Topics have at most
// two names and fixed words, so they stay far below the limit of MQTT, 65,535 bytes.
const MaxNameLength = 1024

// MaxIDLength is the longest identifier in an event, in bytes: resource IDs, the names and UIDs of
// works, agent sessions and resync IDs. Peers store them, and use them as keys.
const MaxIDLength = 1024

// MaxHashLength is the limit of a status hash in bytes. Hashes of this package and of the OCM SDK
// have 64. A source stores the hash of each status, and computes the sizes of its lists with it.
const MaxHashLength = 128

// ValidateName checks that a name can be one level of a topic: not empty, at most [MaxNameLength]
// bytes, valid UTF-8, without the characters `/`, `+` and `#` and without control characters. kind
// is the purpose of the name, such as "source ID", and begins the text of the error. The error is
// an [*Error] with [CodeTopic].
func ValidateName(kind, name string) error {
	reason := ""
	switch {
	case name == "":
		reason = "must not be empty"
	case len(name) > MaxNameLength:
		reason = fmt.Sprintf("must not be longer than %d bytes", MaxNameLength)
	case !utf8.ValidString(name):
		reason = "is not valid UTF-8"
	}
	if reason != "" {
		return &Error{Code: CodeTopic, Field: kind, Reason: reason}
	}
	for _, r := range name {
		switch {
		case r == '/' || r == '+' || r == '#':
			reason = fmt.Sprintf("must not contain %q, which has a meaning in topics", r)
		case unicode.IsControl(r):
			reason = fmt.Sprintf("must not contain the control character %U", r)
		case isNoncharacter(r):
			reason = fmt.Sprintf("must not contain the noncharacter %U", r)
		default:
			continue
		}
		return &Error{Code: CodeTopic, Field: kind, Reason: reason}
	}
	return nil
}

// ResourceID returns the resource ID of a work in the profile [ManifestWork]: the UUIDv5, in the
// OID namespace, of `<source>/<cluster>/<name>`. It is the same after any restart.
func ResourceID(source, cluster, name string) string {
	return resourceUUID(source, cluster, name).String()
}

// resourceUUID is uuid.NewSHA1 without its allocations: the ID is checked on every event.
func resourceUUID(source, cluster, name string) (id uuid.UUID) {
	var buf [192]byte
	text := append(buf[:0], uuid.NameSpaceOID[:]...)
	text = append(append(text, source...), '/')
	text = append(append(text, cluster...), '/')
	sum := sha1.Sum(append(text, name...))
	copy(id[:], sum[:])
	id[6] = id[6]&0x0f | 5<<4 // version 5
	id[8] = id[8]&0x3f | 0x80 // RFC 4122 variant
	return id
}

// isResourceID reports whether id is the resource ID of the work.
func isResourceID(id, source, cluster, name string) bool {
	// It compares the text form: uuid.Parse accepts several others, and other code compares IDs as
	// strings.
	u := resourceUUID(source, cluster, name)
	text, _ := u.MarshalText()
	return id == string(text)
}
