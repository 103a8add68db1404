// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"fmt"

	ce "github.com/cloudevents/sdk-go/v2/event"

	"github.com/spokewire/sdk-go/internal/cut"
)

// Code is the class of an [Error]; its text is the value of a metric label.
type Code string

const (
	// CodeTopic: the topic does not belong to the profile.
	CodeTopic Code = "topic"
	// CodeType: the event's type is unknown or does not belong on its topic.
	CodeType Code = "type"
	// CodeAttribute: an attribute is missing or malformed.
	CodeAttribute Code = "attribute"
	// CodeMismatch: an attribute contradicts the topic, or the resource ID is not that of the work.
	CodeMismatch Code = "mismatch"
	// CodeData: the data is missing, malformed or has another form.
	CodeData Code = "data"
)

// Error describes an invalid event or message, and the invalid field.
type Error struct {
	Code Code
	// Topic and EventID locate the event; either may be empty.
	Topic, EventID string
	// Field is the attribute's name or the path in the data, such as "data.manifests[2]"; empty for
	// the event as a whole.
	Field string
	// Reason describes the error and the expected value. It contains no manifest content.
	Reason string
	// Err is the cause, if there is one.
	Err error
}

// Error returns the parts as one text. Long parts that a peer chose are shortened.
func (e *Error) Error() string {
	s := e.Reason
	if e.Field != "" {
		s = cut.Text(e.Field, maxQuote) + ": " + s
	}
	if e.Err != nil {
		s += ": " + cut.Text(e.Err.Error(), maxQuote)
	}
	if e.EventID != "" {
		s = fmt.Sprintf("event %q: %s", cut.Text(e.EventID, maxQuote), s)
	}
	if e.Topic != "" {
		s = fmt.Sprintf("topic %q: %s", cut.Text(e.Topic, maxQuote), s)
	}
	return s
}

// maxQuote is the largest length of a part in an error's text, in bytes.
const maxQuote = 256

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// located adds the topic and the ID of the event to an error.
func located(m Message, err *Error, topic string, e *ce.Event) (Message, error) {
	if err == nil {
		return m, nil
	}
	err.Topic = topic
	if e != nil && e.Context != nil {
		err.EventID = e.Context.GetID()
	}
	return m, err
}
