// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt

import (
	"context"
	"sync"
)

// maxConnecting is the number of clients of this process that connect to one broker at the same
// time. Mosquitto's queue of new connections has 100 places. Linux ignores further connections, and
// repeats each attempt after 1, 3 and 7 s.
const maxConnecting = 64

// admissions are those of all brokers, by address.
var admissions = struct {
	sync.Mutex
	brokers map[string]*admission
}{brokers: map[string]*admission{}}

// admission lets the clients of a process connect to a broker in waves, in the order of admit.
type admission struct {
	places  chan struct{}
	clients int // that wait or have a place
}

// admit waits for a place, or for ctx. The client calls leave when it has connected or failed.
func admit(ctx context.Context, broker string) (leave func(), err error) {
	admissions.Lock()
	a := admissions.brokers[broker]
	if a == nil {
		a = &admission{places: make(chan struct{}, maxConnecting)}
		admissions.brokers[broker] = a
	}
	a.clients++
	admissions.Unlock()
	forget := func() {
		admissions.Lock()
		defer admissions.Unlock()
		if a.clients--; a.clients == 0 {
			delete(admissions.brokers, broker)
		}
	}
	select {
	case a.places <- struct{}{}:
		return func() { <-a.places; forget() }, nil
	case <-ctx.Done():
		forget()
		return nil, ctx.Err()
	}
}
