// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package folderwatch

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestPending checks that events wait until the folder is quiet, but not forever.
func TestPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPending()
		defer p.timer.Stop()
		for _, tt := range []struct {
			reason string
			events int // one every 30 ms; the first is for a document
			want   time.Duration
		}{
			{"one", 1, quiet},
			{"some", 10, 9*30*time.Millisecond + quiet},
			{"noise all the time", 1000, longest},
		} {
			began := time.Now()
			more := time.NewTicker(30 * time.Millisecond)
			p.add(true)
			for told, events := false, 1; !told; {
				select {
				case <-p.timer.C:
					told = true
				case <-more.C:
					if events++; events <= tt.events {
						p.add(false)
					}
				}
			}
			more.Stop()
			if took := time.Since(began); took != tt.want {
				t.Errorf("%s: told after %s, want %s", tt.reason, took, tt.want)
			}
			if !p.end() {
				t.Errorf("%s: none is of a document", tt.reason)
			}
		}
		p.add(false)
		if <-p.timer.C; p.end() {
			t.Error("an event of another file is one of a document")
		}
	})
}
