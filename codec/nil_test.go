// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec_test

import (
	"errors"
	"testing"

	"github.com/spokewire/sdk-go/codec"
)

// TestNil checks that nil arguments return an error or an empty result, and do not panic.
func TestNil(t *testing.T) {
	if codec.IsResync(nil) {
		t.Error("no event is a resync")
	}
	var refused *codec.Error
	if e, err := codec.FromAttributes(nil, "", nil); !errors.As(err, &refused) || refused.Code != codec.CodeAttribute {
		t.Errorf("no attributes make the event %v: %v", e, err)
	}
	if got := codec.SplitSpecResync(nil, 0); len(got) != 1 || got[0] != nil {
		t.Errorf("no request for specs is divided into %v", got)
	}
	if got := codec.SplitStatusResync(nil, 0); len(got) != 1 || got[0] != nil {
		t.Errorf("no request for statuses is divided into %v", got)
	}
	if (*codec.Status)(nil).Gone() {
		t.Error("no status says that its work is gone")
	}
}
