// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	ce "github.com/cloudevents/sdk-go/v2/event"
	cetypes "github.com/cloudevents/sdk-go/v2/types"

	"github.com/spokewire/sdk-go/internal/jsontext"
)

// ContentTypeStructured is the content type of an event in structured mode: the whole event as one
// JSON object, the form of [AppendStructured].
const ContentTypeStructured = "application/cloudevents+json"

// contentTypeJSON is the content type of the data of our events.
const contentTypeJSON = "application/json"

// AppendStructured appends e in the CloudEvents JSON format to dst and returns the extended buffer.
// Context attributes are first, extensions sorted by name, data last. JSON data is copied without
// validation (data of a [Profile] is valid). Other data becomes a string, or data_base64 if e
// selects that or the data is not UTF-8.
//
// It returns an [*Error], and dst unchanged, if a required attribute (id, source, type) is missing
// or an extension has a type outside CloudEvents.
func AppendStructured(dst []byte, e *ce.Event) ([]byte, error) {
	ctx, err := contextV1(e)
	if err != nil {
		return dst, err
	}
	out := append(dst, '{')
	eachAttribute(ctx, func(name, value string) bool {
		if name != "specversion" {
			out = append(out, ',')
		}
		out = append(append(append(out, '"'), name...), `":`...)
		out = jsontext.AppendString(out, value)
		return true
	})
	if ctx.DataContentType != nil {
		out = append(out, `,"datacontenttype":`...)
		out = jsontext.AppendString(out, *ctx.DataContentType)
	}
	if out, err = appendExtensions(out, ctx); err != nil {
		return dst, err
	}
	return append(appendData(out, e, ctx), '}'), nil
}

// contextV1 returns the context of e, with its required attributes checked.
func contextV1(e *ce.Event) (*ce.EventContextV1, *Error) {
	if e == nil || e.Context == nil {
		return nil, &Error{Code: CodeAttribute, Reason: "the event has no context"}
	}
	ctx, ok := e.Context.(*ce.EventContextV1)
	if !ok { // CloudEvents 0.3 has the same attributes under the names of 1.0
		ctx = e.Context.AsV1()
	}
	switch {
	case ctx.ID == "":
		return nil, &Error{Code: CodeAttribute, Field: "id", Reason: "is missing"}
	case ctx.Source.URL == (cetypes.URIRef{}).URL:
		return nil, &Error{Code: CodeAttribute, EventID: ctx.ID, Field: "source", Reason: "is missing"}
	case ctx.Type == "":
		return nil, &Error{Code: CodeAttribute, EventID: ctx.ID, Field: "type", Reason: "is missing"}
	}
	return ctx, nil
}

// extensionNames returns the names sorted, in buf if it is large enough.
func extensionNames(buf []string, ctx *ce.EventContextV1) []string {
	for name := range ctx.Extensions {
		buf = append(buf, name)
	}
	slices.Sort(buf)
	return buf
}

func appendExtensions(dst []byte, ctx *ce.EventContextV1) ([]byte, *Error) {
	var buf [16]string
	for _, name := range extensionNames(buf[:0], ctx) {
		dst = append(dst, ',')
		dst = append(jsontext.AppendString(dst, name), ':')
		switch v := ctx.Extensions[name].(type) {
		case string:
			dst = jsontext.AppendString(dst, v)
		case int32:
			dst = strconv.AppendInt(dst, int64(v), 10)
		case bool:
			dst = strconv.AppendBool(dst, v)
		default:
			s, err := cetypes.Format(v)
			if err != nil {
				return nil, &Error{Code: CodeAttribute, EventID: ctx.ID, Field: name,
					Reason: "cannot be expressed as an attribute", Err: err}
			}
			dst = jsontext.AppendString(dst, s)
		}
	}
	return dst, nil
}

func appendData(dst []byte, e *ce.Event, ctx *ce.EventContextV1) []byte {
	if len(e.DataEncoded) == 0 {
		return dst
	}
	isJSON := ctx.DataContentType == nil || isJSONType(*ctx.DataContentType)
	switch {
	case e.DataBase64 || !isJSON && !utf8.Valid(e.DataEncoded):
		dst = append(dst, `,"data_base64":"`...)
		return append(base64.StdEncoding.AppendEncode(dst, e.DataEncoded), '"')
	case isJSON:
		return append(append(dst, `,"data":`...), e.DataEncoded...)
	default:
		return jsontext.AppendString(append(dst, `,"data":`...), string(e.DataEncoded))
	}
}

// isJSONType reports whether data of a content type is JSON, by section 3.1 of the CloudEvents JSON
// format.
func isJSONType(contentType string) bool {
	if contentType == contentTypeJSON {
		return true
	}
	media, _, _ := strings.Cut(contentType, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	return media == "" || strings.HasSuffix(media, "/json") || strings.HasSuffix(media, "+json")
}
