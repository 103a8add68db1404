// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"strconv"
	"time"
	"unicode/utf8"
)

// The extension attributes. CloudEvents allows lower-case letters and digits only;
// the enhancement writes some of them in camel case, so they are read in any case.
const (
	attrResourceID          = "resourceid"
	attrResourceVersion     = "resourceversion"
	attrDeletionTimestamp   = "deletiontimestamp"
	attrSpecResourceID      = "specresourceid"
	attrSpecResourceVersion = "specresourceversion"
	// attrSpecResouceVersion is the spelling in the event schema of the enhancement. Both names are
	// written, and the correct one has priority on read.
	attrSpecResouceVersion = "specresouceversion"

	attrClusterName  = "clustername"
	attrWorkName     = "workname"
	attrWorkUID      = "workuid"
	attrAgentSession = "agentsession"
	attrSequenceID   = "sequenceid"
	attrStatusSeq    = "statusseq"
	attrStatusHash   = "statushash"
	attrResyncID     = "resyncid"
	attrChunkIndex   = "chunkindex"
	attrChunkCount   = "chunkcount"
	attrResyncScope  = "resyncscope"
	attrTargetSource = "targetsource"
	attrBuckets      = "buckets"
	attrDigest       = "digest"
	attrTraceParent  = "traceparent"
	attrTraceState   = "tracestate"
)

// The attributes that only a [Presence] has.
const (
	attrSession = "session"
	attrStarted = "started"
	attrLeaving = "leaving"
)

// Attributes that only the profile ManifestBundle has.
const (
	attrOriginalSource = "originalsource"
	attrMetadata       = "metadata"
	attrLogTracing     = "logtracing"
)

// ourAttributes are the names that the parser does not copy for each event. The most frequent ones
// are first.
var ourAttributes = [...]string{
	attrResourceID, attrResourceVersion, attrSpecResourceID, attrSpecResourceVersion, attrSpecResouceVersion,
	attrClusterName, attrWorkName, attrWorkUID, attrAgentSession, attrSequenceID, attrStatusSeq, attrStatusHash,
	attrResyncID, attrDeletionTimestamp, attrTraceParent, attrTraceState, attrChunkIndex, attrChunkCount, attrResyncScope,
	attrTargetSource, attrBuckets, attrDigest, attrSession, attrStarted, attrLeaving,
}

// MaxIDLength is the longest identifier in an event, in bytes: resource IDs, the names and UIDs of
// works, agent sessions and resync IDs. Peers store them, and use them as keys.
const MaxIDLength = 1024

// MaxHashLength is the limit of a status hash in bytes. Hashes of this package and of the OCM SDK
// have 64. A source stores the hash of each status, and sends it in resync requests.
const MaxHashLength = 128

// maxAttribute is the longest attribute value in bytes, as in the properties of MQTT.
const maxAttribute = 1<<16 - 1

// checkText returns why a string cannot be an attribute of an event, or "".
func checkText(s string) string {
	if len(s) > maxAttribute {
		return "is longer than 65535 bytes"
	}
	ascii := true
	for i := range len(s) {
		switch b := s[i]; {
		case b < ' ' || b == 0x7f:
			return "has a control character"
		case b >= utf8.RuneSelf:
			ascii = false
		}
	}
	if ascii {
		return ""
	}
	if !utf8.ValidString(s) {
		return "is not valid UTF-8"
	}
	for _, r := range s {
		switch {
		case 0x80 <= r && r <= 0x9f:
			return "has a control character"
		case isNoncharacter(r):
			return "has a Unicode noncharacter"
		}
	}
	return ""
}

// isNoncharacter reports whether Unicode reserves r for internal use; CloudEvents and MQTT refuse
// those too.
func isNoncharacter(r rune) bool {
	return r&0xfffe == 0xfffe || 0xfdd0 <= r && r <= 0xfdef
}

// Reasons of errors about identifiers, hashes and times.
const (
	reasonLong     = "is longer than 1024 bytes"
	reasonLongHash = "is longer than 128 bytes"
	reasonTime     = "is zero or not within the years 0 to 9999 of UTC"
)

// isRFC3339 reports whether RFC 3339 can express the time's year in UTC.
func isRFC3339(t time.Time) bool {
	year := t.UTC().Year()
	return 0 <= year && year <= 9999
}

// parseNumber accepts digits only: no sign, fraction or exponent.
func parseNumber(s string) (int64, bool) {
	if s == "" || !isDigit(s[0]) {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

func isDigit(b byte) bool { return '0' <= b && b <= '9' }
