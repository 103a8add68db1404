// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"sync"

	"github.com/spokewire/sdk-go/cloudevents"
)

// mostAside is how many requests may wait. One has at most 128 KiB where peers bound their lists.
const mostAside = 64

// aside handles the requests of peers, whose lists may be long, beside the news that comes behind them. Versions and
// sequences decide what is newer, not the order of arrival; and nothing of a request needs to be stored before the
// broker hears that it came, since whoever lost one begins a new exchange with its next connection.
type aside struct {
	handle func(cloudevents.Message)
	slots  chan struct{} // each request that waits or is handled holds one
	group  sync.WaitGroup

	mu      sync.Mutex
	waiting []cloudevents.Message
	working bool
}

func newAside(handle func(cloudevents.Message)) *aside {
	return &aside{handle: handle, slots: make(chan struct{}, mostAside)}
}

// add takes a request. While many wait it waits as well.
func (a *aside) add(m cloudevents.Message) {
	a.slots <- struct{}{}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting = append(a.waiting, m)
	if !a.working { // no goroutine while there is nothing to do: a process may have thousands of agents
		a.working = true
		a.group.Go(a.work)
	}
}

func (a *aside) work() {
	for {
		m, ok := a.next()
		if !ok {
			return
		}
		a.handle(m)
		<-a.slots
	}
}

func (a *aside) next() (cloudevents.Message, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.waiting) == 0 {
		a.waiting, a.working = nil, false
		return cloudevents.Message{}, false
	}
	m := a.waiting[0]
	a.waiting[0] = cloudevents.Message{}
	a.waiting = a.waiting[1:]
	return m, true
}

// drop forgets the requests of a connection that has ended and waits for the one that is handled.
func (a *aside) drop() {
	a.mu.Lock()
	for range a.waiting {
		<-a.slots
	}
	a.waiting = nil
	a.mu.Unlock()
	a.group.Wait()
}
