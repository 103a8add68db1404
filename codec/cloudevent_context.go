// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	ce "github.com/cloudevents/sdk-go/v2/event"
	cetypes "github.com/cloudevents/sdk-go/v2/types"

	"github.com/spokewire/sdk-go/internal/jsontext"
)

// contextBuilder builds a context of attributes, without the checks of SetExtension.
type contextBuilder struct {
	ctx     *ce.EventContextV1
	version string
	size    int // of all attributes in memory
	err     *Error
}

const (
	// maxAttributes bounds the size of all attributes of one event in bytes, with attributeCost for
	// each.
	maxAttributes = 256 << 10
	attributeCost = 64
)

func newContextBuilder() *contextBuilder {
	return &contextBuilder{ctx: &ce.EventContextV1{Extensions: make(map[string]any, 8)}}
}

func (b *contextBuilder) fail(field, reason string, cause error) {
	if b.err == nil {
		b.err = &Error{Code: CodeAttribute, Field: field, Reason: reason, Err: cause}
	}
}

// setJSON sets an attribute to a scanned JSON value.
func (b *contextBuilder) setJSON(name string, raw []byte) {
	if name == "" || len(raw) == 0 || isNull(raw) {
		return
	}
	if known := usualValue(name, raw); known != "" {
		b.set(name, known)
		return
	}
	if text, ok := jsontext.Text(raw); ok {
		b.set(name, text)
		return
	}
	if raw[0] == '{' || raw[0] == '[' {
		b.fail(name, "must be a string, number or boolean", nil)
		return
	}
	b.set(name, string(raw))
}

// usualValue returns a frequent value of an attribute without an allocation, or "" if the scanned
// value is another one.
func usualValue(name string, raw []byte) string {
	switch name {
	case "specversion", "datacontenttype", "type":
	default:
		return ""
	}
	switch string(raw) {
	case `"` + ce.CloudEventsVersionV1 + `"`:
		return ce.CloudEventsVersionV1
	case `"` + contentTypeJSON + `"`:
		return contentTypeJSON
	case `"` + typeSpecCreated + `"`:
		return typeSpecCreated
	case `"` + typeStatus + `"`:
		return typeStatus
	}
	return ""
}

// set sets an attribute. The name is in lower case. A later value replaces an earlier one, as in
// encoding/json.
func (b *contextBuilder) set(name, value string) {
	if b.size += attributeCost + len(name) + len(value); b.size > maxAttributes {
		b.fail(name, fmt.Sprintf("takes the attributes of the event above %d bytes", maxAttributes), nil)
		return
	}
	ctx := b.ctx
	switch name {
	case "specversion":
		b.version = value
	case "id":
		ctx.ID = value
	case "type":
		ctx.Type = value
	case "source":
		u, err := parseURI(value)
		if err != nil {
			b.fail(name, "is not a URI reference", err)
		}
		ctx.Source.URL = u
	case "subject":
		ctx.Subject = optional(value)
	case "datacontenttype":
		ctx.DataContentType = optional(value)
	case "dataschema":
		u, err := parseURI(value)
		if err != nil {
			b.fail(name, "is not a URI", err)
		}
		ctx.DataSchema = &cetypes.URI{URL: u}
	case "time":
		b.setTime(value)
	default:
		ctx.Extensions[name] = value
	}
}

func (b *contextBuilder) setTime(value string) {
	if value == "" {
		return
	}
	t, err := time.Parse(time.RFC3339Nano, value)
	if err != nil {
		b.fail("time", "is not an RFC 3339 timestamp", err)
	}
	b.ctx.Time = &cetypes.Timestamp{Time: t.UTC()}
}

// context returns the context, or the first error.
func (b *contextBuilder) context() (*ce.EventContextV1, *Error) {
	switch {
	case b.version == "":
		b.fail("specversion", "is missing", nil)
	case b.version != ce.CloudEventsVersionV1:
		b.fail("specversion", "must be 1.0", nil)
	}
	if b.err != nil {
		b.err.EventID = b.ctx.ID
		return nil, b.err
	}
	if len(b.ctx.Extensions) == 0 { // as in cloudevents/sdk-go
		b.ctx.Extensions = nil
	}
	return contextV1(&ce.Event{Context: b.ctx})
}

// optional returns nil for the empty string.
func optional(value string) *string {
	if value == "" {
		return nil
	}
	return &value
}

// parseURI parses a URI reference; most are a plain name, which needs no parser.
func parseURI(s string) (url.URL, error) {
	if isPlain(s) {
		return url.URL{Path: s}, nil
	}
	u, err := url.Parse(s)
	if err != nil {
		return url.URL{}, err
	}
	return *u, nil
}

// isPlain reports whether s has only characters that a URI never escapes (unreserved in RFC 3986).
func isPlain(s string) bool {
	for i := range len(s) {
		switch b := s[i]; {
		case 'a' <= b|0x20 && b|0x20 <= 'z', isDigit(b), b == '-', b == '.', b == '_', b == '~':
		default:
			return false
		}
	}
	return true
}

// The CloudEvents source is a URI reference, but IDs can be any text. An ID that is a URI reference
// is sent unchanged, any other ID percent-escaped, so that other readers can parse it.

// sourceURI returns the URI reference of a source or agent ID. sourceID is its inverse.
func sourceURI(id string) url.URL {
	if isPlain(id) {
		return url.URL{Path: id}
	}
	if !strings.Contains(id, "%") {
		if u, err := url.Parse(id); err == nil && u.String() == id {
			return *u
		}
	}
	// PathEscape keeps colons, which a relative reference must not have in its first segment.
	// Opaque is written unchanged.
	return url.URL{Opaque: strings.ReplaceAll(url.PathEscape(id), ":", "%3A")}
}

func sourceID(u url.URL) string {
	if u.Path != "" && isPlain(u.Path) && u == (url.URL{Path: u.Path}) {
		return u.Path
	}
	s := u.String()
	if !strings.Contains(s, "%") {
		return s
	}
	id, err := url.PathUnescape(s)
	if err != nil {
		return s
	}
	return id
}
