// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"bytes"
	"encoding/base64"

	ce "github.com/cloudevents/sdk-go/v2/event"

	"github.com/spokewire/sdk-go/internal/jsontext"
)

// ParseStructured reads an event in the CloudEvents JSON format. Names of attributes are read in
// any case; of several with one name the last counts. Numbers and booleans become strings with the
// same text, so 64 bits are preserved; null counts as absent. Members with names that attributes
// cannot have (other characters than letters and digits) are ignored. Unknown attributes become
// extensions.
//
// JSON data in the event is a slice of the argument, which must not change afterwards.
//
// It returns an [*Error]: [CodeData] for malformed JSON and data of the wrong form, [CodeAttribute]
// for a missing or malformed attribute and for another specversion than 1.0.
func ParseStructured(data []byte) (*ce.Event, error) {
	b := newContextBuilder()
	var body, body64 []byte
	c := newReader(data)
	for c.Open('{'); c.Member(); {
		switch string(c.Key) {
		case "data":
			body = c.Value()
		case "data_base64":
			body64 = c.Value()
		default:
			name := attributeName(c.Key)
			if name == "data" { // in another case
				body = c.Value()
				continue
			}
			b.setJSON(name, c.Value())
		}
	}
	if err := c.End(); err != nil {
		return nil, &Error{Code: CodeData, EventID: b.ctx.ID, Reason: "the event is not a JSON object", Err: err}
	}
	ctx, err := b.context()
	if err != nil {
		return nil, err
	}
	e := &ce.Event{Context: ctx}
	if err := setData(e, ctx, body, body64); err != nil {
		return nil, err
	}
	return e, nil
}

// setData sets the data of e. body and body64 are scanned values, or nil.
func setData(e *ce.Event, ctx *ce.EventContextV1, body, body64 []byte) error {
	if isNull(body64) {
		body64 = nil
	}
	switch {
	case body != nil && body64 != nil:
		return &Error{Code: CodeData, EventID: ctx.ID, Field: "data_base64", Reason: "is there beside data"}
	case body64 != nil:
		return setBase64(e, ctx, body64)
	case body == nil:
		return nil
	case ctx.DataContentType == nil || isJSONType(*ctx.DataContentType):
		e.DataEncoded = body
		return nil
	case isNull(body):
		return nil
	}
	text, ok := jsontext.Text(body)
	if !ok {
		return &Error{Code: CodeData, EventID: ctx.ID, Field: "data",
			Reason: "must be a string, as datacontenttype is not JSON"}
	}
	e.DataEncoded = []byte(text)
	return nil
}

func setBase64(e *ce.Event, ctx *ce.EventContextV1, raw []byte) error {
	text, ok := jsontext.Text(raw)
	if !ok {
		return &Error{Code: CodeData, EventID: ctx.ID, Field: "data_base64", Reason: "must be a string"}
	}
	decoded, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return &Error{Code: CodeData, EventID: ctx.ID, Field: "data_base64", Reason: "is not base64", Err: err}
	}
	e.DataEncoded, e.DataBase64 = decoded, true
	return nil
}

// attributeName returns the name in lower case, or "" if no attribute can have it. Frequent names
// need no allocation.
func attributeName(key []byte) string {
	switch string(key) {
	case "specversion":
		return "specversion"
	case "id":
		return "id"
	case "source":
		return "source"
	case "type":
		return "type"
	case "time":
		return "time"
	case "datacontenttype":
		return "datacontenttype"
	}
	for _, name := range ourAttributes {
		if string(key) == name {
			return name
		}
	}
	if !isAttributeName(key) {
		return ""
	}
	return string(bytes.ToLower(key))
}

// isAttributeName reports whether the bytes are ASCII letters and digits only.
func isAttributeName[T string | []byte](name T) bool {
	for i := range len(name) {
		if b := name[i] | 0x20; !isDigit(name[i]) && (b < 'a' || b > 'z') {
			return false
		}
	}
	return len(name) > 0
}
