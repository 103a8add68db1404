// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"strconv"
	"unicode/utf8"

	ce "github.com/cloudevents/sdk-go/v2/event"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/internal/jsontext"
)

// The lists in the data of resync requests, and the members of an entry. Numbers are decimal
// strings; JSON numbers are read too.
const (
	listVersions = "resourceVersions"
	listHashes   = "statusHashes"

	entryResourceID = "resourceID"
	entryVersion    = "resourceVersion"
	entryHash       = "statusHash"
	entryUID        = "uid"
	entrySource     = "source"
	entrySequenceID = "sequenceID"
	entryStatusSeq  = "statusSeq"
)

const (
	// mostEntryText is an upper estimate of the text of an entry in addition to its strings: names,
	// and two numbers of typical size.
	mostEntryText = 128
	// leastEntryText is below the length of most entries. The capacity of a list is the length of
	// its text divided by it.
	leastEntryText = 160
)

// The lists are encoded and decoded without encoding/json, which is slow for 10,000 works.

// list writes the data of a request, in a buffer of the expected size. write appends one entry and
// returns its invalid field and the reason, or "".
func (d *draft) list(name string, n, size int, write func(int) (field, reason string)) {
	d.elements("data."+name, n)
	d.data = append(make([]byte, 0, size), `{"`+name+`":[`...)
	for i := range n {
		if i > 0 {
			d.data = append(d.data, ',')
		}
		if field, reason := write(i); reason != "" {
			d.fail(CodeData, entryField(name, i, field), reason, nil)
			return
		}
	}
	d.data = append(d.data, "]}"...)
}

func entryField(list string, i int, name string) string {
	field := "data." + list + "[" + strconv.Itoa(i) + "]"
	if name != "" {
		field += "." + name
	}
	return field
}

// check returns the invalid field of an entry, and the reason, or "".
func (e *SpecEntry) check() (field, reason string) {
	switch {
	case e.Version < 0:
		return entryVersion, "must not be negative"
	case e.SequenceID < 0:
		return entrySequenceID, "must not be negative"
	case !utf8.ValidString(e.Source):
		return entrySource, "is not valid UTF-8"
	}
	return checkEntry(e.ResourceID, e.UID)
}

func (e *StatusEntry) check() (field, reason string) {
	switch {
	case e.StatusSeq < 0:
		return entryStatusSeq, "must not be negative"
	case !utf8.ValidString(e.Hash):
		return entryHash, "is not valid UTF-8"
	}
	return checkEntry(e.ResourceID, e.UID)
}

func checkEntry(id string, uid types.UID) (field, reason string) {
	switch {
	case id == "":
		return entryResourceID, "is missing"
	case len(id) > MaxIDLength:
		return entryResourceID, reasonLong
	case len(uid) > MaxIDLength:
		return entryUID, reasonLong
	case !utf8.ValidString(id):
		return entryResourceID, "is not valid UTF-8"
	case !utf8.ValidString(string(uid)):
		return entryUID, "is not valid UTF-8"
	}
	return "", ""
}

func (e *SpecEntry) append(dst []byte) []byte {
	dst = jsontext.AppendString(append(dst, `{"resourceID":`...), e.ResourceID)
	dst = append(dst, `,"resourceVersion":"`...)
	dst = append(strconv.AppendInt(dst, e.Version, 10), '"')
	dst = appendMember(dst, `,"uid":`, string(e.UID))
	dst = appendMember(dst, `,"source":`, e.Source)
	return append(appendNumber(dst, `,"sequenceID":"`, e.SequenceID), '}')
}

func (e *StatusEntry) append(dst []byte) []byte {
	dst = jsontext.AppendString(append(dst, `{"resourceID":`...), e.ResourceID)
	dst = append(dst, `,"statusHash":`...) // the enhancement's only other field: present even if empty
	dst = jsontext.AppendString(dst, e.Hash)
	dst = appendMember(dst, `,"uid":`, string(e.UID))
	return append(appendNumber(dst, `,"statusSeq":"`, e.StatusSeq), '}')
}

// appendMember writes a member, unless it is empty: the enhancement does not have the optional ones.
func appendMember(dst []byte, name, value string) []byte {
	if value == "" {
		return dst
	}
	return jsontext.AppendString(append(dst, name...), value)
}

func appendNumber(dst []byte, name string, value int64) []byte {
	if value == 0 {
		return dst
	}
	return append(strconv.AppendInt(append(dst, name...), value, 10), '"')
}

// readSpecEntries reads the list. An entry without a version has version 0, which is older than any
// other: the source sends the work.
func readSpecEntries(e *ce.Event, ctx *ce.EventContextV1) ([]SpecEntry, *Error) {
	return readEntries(e, ctx, listVersions, func(p *dataParser, e *SpecEntry) (string, types.UID) {
		for p.Open('{'); p.Member(); {
			switch string(p.Key) {
			case entryResourceID:
				e.ResourceID = p.string(entryResourceID)
			case entryVersion:
				e.Version = p.number(entryVersion)
			case entryUID:
				e.UID = types.UID(p.string(entryUID))
			case entrySource:
				e.Source = p.string(entrySource)
			case entrySequenceID:
				e.SequenceID = p.number(entrySequenceID)
			default:
				p.Value()
			}
		}
		return e.ResourceID, e.UID
	})
}

// readStatusEntries reads the list. An entry without a hash has the empty hash, which no status has:
// the agent sends the status.
func readStatusEntries(e *ce.Event, ctx *ce.EventContextV1) ([]StatusEntry, *Error) {
	return readEntries(e, ctx, listHashes, func(p *dataParser, e *StatusEntry) (string, types.UID) {
		for p.Open('{'); p.Member(); {
			switch string(p.Key) {
			case entryResourceID:
				e.ResourceID = p.string(entryResourceID)
			case entryHash:
				e.Hash = p.string(entryHash)
			case entryUID:
				e.UID = types.UID(p.string(entryUID))
			case entryStatusSeq:
				e.StatusSeq = p.number(entryStatusSeq)
			default:
				p.Value()
			}
		}
		return e.ResourceID, e.UID
	})
}

// readEntries reads a list, which may be missing. read reads one entry and returns its identifiers.
// Entries with identifiers that are too long belong to other peers and are skipped.
func readEntries[E any](
	e *ce.Event, ctx *ce.EventContextV1, list string, read func(*dataParser, *E) (string, types.UID),
) ([]E, *Error) {
	data, err := payload(e, ctx)
	if data == nil {
		return nil, err
	}
	p := dataParser{Reader: newReader(data)}
	var entries []E
	for p.Open('{'); p.Member(); {
		if !p.enter(list) {
			continue
		}
		if entries == nil { // otherwise the list is a duplicate
			entries = make([]E, 0, len(data)/leastEntryText)
		}
		entries = entries[:0]
		p.Open('[')
		for i := 0; p.entry(i); i++ {
			entries = append(entries, *new(E))
			id, uid := read(&p, &entries[len(entries)-1])
			if id == "" {
				p.fail(entryResourceID, "is missing", nil)
			}
			if len(id) > MaxIDLength || len(uid) > MaxIDLength {
				entries = entries[:len(entries)-1]
			}
		}
		p.list = ""
	}
	return entries, p.finish()
}

// enter reports whether the current member is the list and can be opened. It skips other members,
// and a null list, which counts as missing.
func (p *dataParser) enter(list string) bool {
	if string(p.Key) != list {
		p.Value()
		return false
	}
	if p.Peek() != '[' {
		if raw := p.Value(); raw != nil && !isNull(raw) {
			p.fail("data."+list, "is not a list", nil)
		}
		return false
	}
	p.list = list
	return true
}

// entry moves to the next entry of the list that is an object. i is its index.
func (p *dataParser) entry(i int) bool {
	p.index = i
	for p.Element() {
		if p.Peek() == '{' {
			return true
		}
		p.Value()
		p.fail("", "is not an object", nil)
	}
	return false
}
