// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/internal/topicfilter"
)

var _ cloudevents.Transport = (*Transport)(nil)

// Transport connects one source or agent to its [Bus]. Its methods may be called from any
// goroutine.
type Transport struct {
	bus     *Bus
	claimed atomic.Bool
}

// Claim reserves the transport; a second call returns [cloudevents.ErrClaimed]. The name is not
// used.
func (t *Transport) Claim(string) error {
	if !t.claimed.CompareAndSwap(false, true) {
		return cloudevents.ErrClaimed
	}
	return nil
}

// Connect opens a connection. It returns a [*cloudevents.PermanentError] for a malformed filter,
// [ErrDisconnected] between [Bus.Disconnect] and [Bus.Reconnect], and ctx's error when ctx has
// ended. It ignores the content mode: events are not encoded.
func (t *Transport) Connect(ctx context.Context, o cloudevents.ConnectOptions) (cloudevents.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("connect to the memory bus: %w", err)
	}
	wanted := slices.Concat(o.Filters, o.Optional)
	filters := make([]topicfilter.Filter, len(wanted))
	for i, s := range wanted {
		f, err := topicfilter.Parse(s)
		if err != nil {
			return nil, &cloudevents.PermanentError{Err: err}
		}
		filters[i] = f
	}
	return open(t.bus, o, filters)
}
