// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"slices"
	"strconv"
	"unicode/utf8"

	ce "github.com/cloudevents/sdk-go/v2/event"

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

// entryMember is a member of an entry. at returns the pointer to its value: a string or a number.
type entryMember[E any] struct {
	name string
	at   func(*E) any
}

// The members of entries. The enhancement has only the first two, which are always present. The
// others are omitted if they are empty.
var (
	// A read entry without a version has version 0, which is older than any other: the source sends
	// the work.
	specEntry = []entryMember[SpecEntry]{
		{entryResourceID, func(e *SpecEntry) any { return &e.ResourceID }},
		{entryVersion, func(e *SpecEntry) any { return &e.Version }},
		{entryUID, func(e *SpecEntry) any { return (*string)(&e.UID) }},
		{entrySource, func(e *SpecEntry) any { return &e.Source }},
		{entrySequenceID, func(e *SpecEntry) any { return &e.SequenceID }},
	}
	// A read entry without a hash has the empty hash, which no status has: the agent sends the
	// status.
	statusEntry = []entryMember[StatusEntry]{
		{entryResourceID, func(e *StatusEntry) any { return &e.ResourceID }},
		{entryHash, func(e *StatusEntry) any { return &e.Hash }},
		{entryUID, func(e *StatusEntry) any { return (*string)(&e.UID) }},
		{entryStatusSeq, func(e *StatusEntry) any { return &e.StatusSeq }},
	}
)

// checkEntry returns the invalid field of an entry, and the reason, or "".
func checkEntry[E any](e *E, members []entryMember[E]) (field, reason string) {
	for _, m := range members {
		switch v := m.at(e).(type) {
		case *int64:
			if *v < 0 {
				return m.name, "must not be negative"
			}
		case *string:
			switch {
			case *v == "" && m.name == entryResourceID:
				return m.name, "is missing"
			case len(*v) > MaxIDLength && isEntryID(m.name):
				return m.name, reasonLong
			case !utf8.ValidString(*v):
				return m.name, "is not valid UTF-8"
			}
		}
	}
	return "", ""
}

func isEntryID(name string) bool { return name == entryResourceID || name == entryUID }

func appendEntry[E any](dst []byte, e *E, members []entryMember[E]) []byte {
	dst = append(dst, '{')
	for i, m := range members {
		value := m.at(e)
		text, isText := value.(*string)
		number, _ := value.(*int64)
		if i > 1 && (isText && *text == "" || !isText && *number == 0) {
			continue
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), m.name...), `":`...)
		if isText {
			dst = jsontext.AppendString(dst, *text)
		} else {
			dst = append(strconv.AppendInt(append(dst, '"'), *number, 10), '"')
		}
	}
	return append(dst, '}')
}

// draftEntries writes the data of a request.
func draftEntries[E any](d *draft, list string, entries []E, members []entryMember[E]) {
	size := 64
	for i := range entries {
		size += mostEntryText
		for _, m := range members {
			if text, ok := m.at(&entries[i]).(*string); ok {
				size += len(*text)
			}
		}
	}
	d.list(list, len(entries), size, func(i int) (string, string) {
		d.data = appendEntry(d.data, &entries[i], members)
		return checkEntry(&entries[i], members)
	})
}

// readEntry reads one entry. It returns false if an identifier is too long: the entry belongs to
// other peers.
func readEntry[E any](p *dataParser, e *E, members []entryMember[E]) bool {
	for p.Open('{'); p.Member(); {
		i := slices.IndexFunc(members, func(m entryMember[E]) bool { return m.name == string(p.Key) })
		if i < 0 {
			p.Value()
			continue
		}
		switch to := members[i].at(e).(type) {
		case *int64:
			*to = p.number(members[i].name)
		case *string:
			*to = p.string(members[i].name)
		}
	}
	if id, _ := members[0].at(e).(*string); *id == "" {
		p.fail(entryResourceID, "is missing", nil)
	}
	return !slices.ContainsFunc(members, func(m entryMember[E]) bool {
		text, ok := m.at(e).(*string)
		return ok && isEntryID(m.name) && len(*text) > MaxIDLength
	})
}

// readEntries reads a list, which may be missing.
func readEntries[E any](
	e *ce.Event, ctx *ce.EventContextV1, list string, members []entryMember[E],
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
			if !readEntry(&p, &entries[len(entries)-1], members) {
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
