// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"strconv"
	"unicode/utf8"
)

// The extension attributes of the profile. CloudEvents allows lower-case letters and digits only;
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
)

// ourAttributes are the names that the parser does not copy for each event. The most frequent ones
// are first.
var ourAttributes = [...]string{
	attrResourceID, attrResourceVersion, attrSpecResourceID, attrSpecResourceVersion, attrSpecResouceVersion,
	attrClusterName, attrWorkName, attrWorkUID, attrAgentSession, attrSequenceID, attrStatusSeq, attrStatusHash,
	attrResyncID, attrDeletionTimestamp, attrTraceParent, attrChunkIndex, attrChunkCount, attrResyncScope,
	attrTargetSource, attrBuckets, attrDigest, attrSession, attrStarted, attrLeaving,
}

// maxAttribute is the longest attribute value in bytes: in binary mode MQTT carries attributes as
// properties, with a length of 16 bits.
const maxAttribute = 1<<16 - 1

// text writes an attribute, unless it is empty.
func (d *draft) text(name, value string) {
	if value == "" {
		return
	}
	if reason := checkText(value); reason != "" {
		d.fail(CodeAttribute, name, reason, nil)
		return
	}
	d.ext[name] = value
}

// hash writes a status hash, unless it is empty.
func (d *draft) hash(value string) {
	if len(value) > MaxHashLength {
		d.fail(CodeAttribute, attrStatusHash, reasonLongHash, nil)
		return
	}
	d.text(attrStatusHash, value)
}

// id writes an attribute that identifies something, unless it is empty.
func (d *draft) id(name, value string) {
	if len(value) > MaxIDLength {
		d.fail(CodeAttribute, name, reasonLong, nil)
		return
	}
	d.text(name, value)
}

// number writes an attribute as a decimal string: 64 bits do not fit a CloudEvents Integer.
func (d *draft) number(name string, value int64) {
	if value < 0 {
		d.fail(CodeAttribute, name, "must not be negative", nil)
		return
	}
	d.ext[name] = strconv.FormatInt(value, 10)
}

// optionalNumber writes an attribute, unless it is 0.
func (d *draft) optionalNumber(name string, value int64) {
	if value != 0 {
		d.number(name, value)
	}
}

// ref writes the identity of a work. Spec and status events have different names for the ID and the
// version.
func (d *draft) ref(h *Header, w *WorkRef, idName, versionName string) {
	if w.ResourceID == "" {
		d.fail(CodeAttribute, idName, "is missing", nil)
	}
	d.id(idName, w.ResourceID)
	d.number(versionName, w.Version)
	d.id(attrWorkUID, string(w.UID))
	if w.named() {
		d.id(attrWorkName, w.Name)
	}
	if w.foreign(h) {
		d.fail(CodeMismatch, idName, reasonForeign, nil)
	}
}

// reasonLong is the reason of errors about [MaxIDLength].
const reasonLong = "is longer than 1024 bytes"

// reasonLongHash is the reason of errors about [MaxHashLength].
const reasonLongHash = "is longer than 128 bytes"

const reasonForeign = "is not the resource ID of this source, cluster and work name"

// named reports whether the work's name is known. Otherwise it is the default, the resource ID.
func (w *WorkRef) named() bool { return w.Name != "" && w.Name != w.ResourceID }

// foreign reports whether the resource ID of an incarnation is not the ID of its work. Without the
// name it returns false: a source that deletes an unknown work of an agent's list has no name.
func (w *WorkRef) foreign(h *Header) bool {
	return w.UID != "" && w.named() && !isResourceID(w.ResourceID, h.Source, h.Cluster, w.Name)
}

// nameless reports whether the name of an incarnation is unknown. Only a deletion may have no name.
func (w *WorkRef) nameless() bool { return w.UID != "" && !w.named() }

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
