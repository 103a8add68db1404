// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package peer_test

import (
	"testing"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
)

// TestRecordIsPublishedWhenSaved: a changed record is published only after it is saved, and only if
// that was requested since the change.
func TestRecordIsPublishedWhenSaved(t *testing.T) {
	var s peer.Saving
	if !s.Send() {
		t.Error("a saved record must be published at once")
	}
	s.Change()
	if s.Save() {
		t.Error("the publication of this change was not requested")
	}
	s.Change()
	if s.Send() {
		t.Error("an unsaved record must wait")
	}
	s.Change() // does not cancel the publication
	if !s.Save() || s != peer.Saved {
		t.Error("the publication must follow")
	}
	if s.Save() {
		t.Error("a second publication was not requested")
	}
}
