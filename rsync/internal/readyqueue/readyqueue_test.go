// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package readyqueue_test

import (
	"testing"
	"testing/synctest"

	"github.com/spokewire/sdk-go/rsync/internal/readyqueue"
)

// TestOneWorkerPerContext: a context that is added again while a worker processes it is queued after
// the worker is done. After Close, Get returns false.
func TestOneWorkerPerContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := readyqueue.New()
		got := make(chan string)
		go func() {
			defer close(got)
			for {
				id, ok := q.Get()
				if !ok {
					return
				}
				got <- id
			}
		}()
		q.Add("a")
		q.Add("a")
		if id := <-got; id != "a" {
			t.Fatalf("got %q", id)
		}
		q.Add("a")
		q.Add("b")
		if id := <-got; id != "b" {
			t.Fatalf("got %q while a is busy", id)
		}
		q.Done("a")
		if id := <-got; id != "a" {
			t.Fatalf("got %q after a is done", id)
		}
		q.Close()
		q.Add("c")
		if id, ok := <-got; ok {
			t.Fatalf("got %q after Close", id)
		}
	})
}
