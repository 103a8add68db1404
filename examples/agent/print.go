// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"sync"

	"github.com/spokewire/sdk-go/examples/agent/internal/controller"
)

// printTo returns a function that prints a line for an event. It may be called concurrently.
func printTo(w io.Writer) func(controller.Event) {
	var mu sync.Mutex
	return func(e controller.Event) {
		mu.Lock()
		defer mu.Unlock()
		if text := line(e); text != "" {
			fmt.Fprintln(w, text) // the agent continues if stdout is closed
		}
	}
}

// line returns the text of an event; empty if nothing changed.
func line(e controller.Event) string {
	work := e.Work + ", which the hub does not have"
	if e.Generation != 0 {
		work = fmt.Sprintf("%s generation %d", e.Work, e.Generation)
	}
	switch {
	case e.Err != nil:
		return fmt.Sprintf("not yet   %s: %v", work, e.Err)
	case e.Deleted:
		return "removed   " + work + ": its objects are deleted or orphaned"
	case e.Changed:
		return "applied   " + work
	}
	return ""
}
