// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc_test

import ce "github.com/cloudevents/sdk-go/v2/event"

func newEvent() *ce.Event {
	e := ce.New()
	e.SetID("1")
	e.SetSource("test")
	e.SetType("test")
	return &e
}

// eventBytes is an event with only an ID.
var eventBytes = []byte("\x0a\x01x")
