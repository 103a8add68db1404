// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"iter"
	"strings"

	ce "github.com/cloudevents/sdk-go/v2/event"
	cetypes "github.com/cloudevents/sdk-go/v2/types"
)

// Attributes returns the context attributes of e for a transport's binary mode: names without a
// prefix, values in their canonical string form; specversion, id, source and type first, extensions
// sorted. It omits the content type, since every transport has its own field for it. An event
// without a context has no attributes. An extension with a type outside CloudEvents is omitted.
func Attributes(e *ce.Event) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		if e == nil || e.Context == nil {
			return
		}
		ctx, ok := e.Context.(*ce.EventContextV1)
		if !ok {
			ctx = e.Context.AsV1()
		}
		if !eachAttribute(ctx, yield) {
			return
		}
		var buf [16]string
		for _, name := range extensionNames(buf[:0], ctx) {
			value, ok := ctx.Extensions[name].(string)
			if !ok {
				var err error
				if value, err = cetypes.Format(ctx.Extensions[name]); err != nil {
					continue
				}
			}
			if !yield(name, value) {
				return
			}
		}
	}
}

// eachAttribute yields the attributes that both modes have, except extensions, until yield returns
// false.
func eachAttribute(ctx *ce.EventContextV1, yield func(name, value string) bool) bool {
	return yield("specversion", ce.CloudEventsVersionV1) && yield("id", ctx.ID) &&
		yield("source", ctx.Source.String()) && yield("type", ctx.Type) &&
		(ctx.Subject == nil || yield("subject", *ctx.Subject)) &&
		(ctx.DataSchema == nil || yield("dataschema", ctx.DataSchema.String())) &&
		(ctx.Time == nil || yield("time", ctx.Time.String()))
}

// FromAttributes builds the event that a transport received in binary mode. Names are read in any
// case, with and without the prefix "ce-" that cloudevents/sdk-go writes; invalid names of
// attributes are ignored, since they belong to the transport. Unknown attributes become extensions.
// Of several attributes with one name the last counts. contentType is the content type of data;
// empty if the message has none. The event refers to data, which must not change afterwards.
//
// It returns an [*Error] with [CodeAttribute] for a missing or malformed attribute and for another
// specversion than 1.0.
func FromAttributes(attrs iter.Seq2[string, string], contentType string, data []byte) (*ce.Event, error) {
	if attrs == nil {
		attrs = func(func(string, string) bool) {}
	}
	b := newContextBuilder()
	for name, value := range attrs {
		if len(name) > 3 && strings.EqualFold(name[:3], "ce-") {
			name = name[3:]
		}
		if name = strings.ToLower(name); isAttributeName(name) && name != "data" {
			b.set(name, value)
		}
	}
	if contentType != "" {
		b.set("datacontenttype", contentType)
	}
	ctx, err := b.context()
	if err != nil {
		return nil, err
	}
	e := &ce.Event{Context: ctx}
	if len(data) > 0 {
		e.DataEncoded = data
	}
	return e, nil
}
