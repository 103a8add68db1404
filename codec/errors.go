// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"fmt"
	"strings"
)

// Code classes an [Error]; its text serves as a metric label.
type Code string

const (
	// CodeTopic: the topic is none of the profile's.
	CodeTopic Code = "topic"
	// CodeType: the event's type is unknown or does not belong on its topic.
	CodeType Code = "type"
	// CodeAttribute: an attribute is missing or malformed.
	CodeAttribute Code = "attribute"
	// CodeMismatch: an attribute contradicts the topic, or the resource ID is not the one of the work.
	CodeMismatch Code = "mismatch"
	// CodeData: the data is missing, malformed or of another shape.
	CodeData Code = "data"
)

// Error says what is wrong with an event or a message, and where.
type Error struct {
	Code Code
	// Topic and EventID locate the event; either may be empty.
	Topic, EventID string
	// Field is the attribute's name or the path in the data, such as "data.manifests[2]"; empty when the
	// event as a whole is meant.
	Field string
	// Reason says what is wrong and what is expected. It holds no manifest content.
	Reason string
	// Err is the cause, if there is one.
	Err error
}

// Error puts the parts together, most specific first. Parts that a peer chose are cut where they are long.
func (e *Error) Error() string {
	s := e.Reason
	if e.Field != "" {
		s = cut(e.Field) + ": " + s
	}
	if e.Err != nil {
		s += ": " + cut(e.Err.Error())
	}
	if e.EventID != "" {
		s = fmt.Sprintf("event %q: %s", cut(e.EventID), s)
	}
	if e.Topic != "" {
		s = fmt.Sprintf("topic %q: %s", cut(e.Topic), s)
	}
	return s
}

// maxQuote is how much of a part an error's text shows, in bytes.
const maxQuote = 256

func cut(s string) string {
	if len(s) <= maxQuote {
		return s
	}
	return strings.ToValidUTF8(s[:maxQuote], "") + "…"
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
