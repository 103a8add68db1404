// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"context"
	"iter"
)

// Activity reports whether a context has unfinished events.
type Activity struct {
	AppContextID string
	Active       bool
}

// Activity returns the contexts with unfinished events. It then returns a value for each queued
// event, and for each context when its last event has ended. It ends without an error when ctx
// ends. It ends with an error of the store, for example store.ErrCompacted: then call Activity
// again. [Engine.Watch] returns the changes of one context.
func (e *Engine) Activity(ctx context.Context) iter.Seq2[Activity, error] {
	return func(yield func(Activity, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		result, err := e.store.Range(ctx, activePrefix)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			yield(Activity{}, err)
			return
		}
		for _, kv := range result.KVs {
			if !yield(Activity{idOf(activePrefix, kv.Key), true}, nil) {
				return
			}
		}
		for message := range e.store.Watch(ctx, activePrefix, result.Revision+1) {
			for _, event := range message.Events {
				if !yield(Activity{idOf(activePrefix, event.KV.Key), !event.Deleted}, nil) {
					return
				}
			}
			if message.Err != nil {
				yield(Activity{}, message.Err)
				return
			}
		}
	}
}
