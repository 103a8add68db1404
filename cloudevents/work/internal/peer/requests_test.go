// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package peer_test

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	ce "github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
)

// desk is a request queue with a handler that ends each request only when the test calls finish.
type desk struct {
	*peer.RequestQueue
	*peer.Budget
	refused int
	t       *testing.T
	next    chan struct{}

	mu   sync.Mutex
	done []string // topics, in the order in which they were begun
}

// atDesk runs a script in a synctest bubble, which ends only when no goroutine is left.
func atDesk(t *testing.T, script func(*desk)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := &desk{t: t, next: make(chan struct{}), Budget: &peer.Budget{PerPeer: 1 << 20, Total: 1 << 20}}
		d.RequestQueue = peer.NewRequestQueue(d.Budget, func(m cloudevents.Message) {
			d.mu.Lock()
			d.done = append(d.done, m.Topic)
			d.mu.Unlock()
			<-d.next
		}, func(cloudevents.Message, error) { d.refused++ })
		script(d)
	})
}

// add adds requests with the numbers from first to last.
func (d *desk) add(first, last int) {
	for i := first; i <= last; i++ {
		d.Add(cloudevents.Message{Topic: strconv.Itoa(i)})
	}
}

// finish lets n requests end.
func (d *desk) finish(n int) {
	for range n {
		d.next <- struct{}{}
	}
}

// expect checks that the requests with the numbers from 1 to last were begun, in order.
func (d *desk) expect(last int) {
	d.t.Helper()
	synctest.Wait()
	var want []string
	for i := range last {
		want = append(want, strconv.Itoa(i+1))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if diff := cmp.Diff(want, d.done); diff != "" {
		d.t.Errorf("requests begun (-want +got):\n%s", diff)
	}
}

// TestRequestQueueKeepsOrder: requests run one at a time, in the order of their arrival.
func TestRequestQueueKeepsOrder(t *testing.T) {
	atDesk(t, func(d *desk) {
		d.add(1, 5)
		d.expect(1)
		d.finish(3)
		d.expect(4)
		d.finish(2)
		d.add(6, 7) // after the queue was idle
		d.finish(2)
		d.expect(7)
	})
}

// TestRequestQueueIsBounded: a topic may use a quarter of the bytes and never blocks the caller.
// Topics take turns. Drop removes all queued requests of the connection.
func TestRequestQueueIsBounded(t *testing.T) {
	atDesk(t, func(d *desk) {
		for range 1000 {
			d.Add(cloudevents.Message{Topic: "flood"})
		}
		d.Add(cloudevents.Message{Topic: "other"})
		if d.Used() > 1<<18+1<<11 || d.refused < 700 || d.refused >= 1000 {
			t.Errorf("%d bytes wait, and %d of 1000 requests were dropped", d.Used(), d.refused)
		}
		d.finish(2)
		synctest.Wait()
		d.mu.Lock()
		began := slices.Clone(d.done)
		d.mu.Unlock()
		if !slices.Contains(began, "other") {
			t.Errorf("the other topic waits behind the flood: %v", began)
		}
		dropped := make(chan struct{})
		go func() {
			d.Drop()
			close(dropped)
		}()
		synctest.Wait()
		select {
		case <-dropped:
			t.Error("the request that is handled was not waited for")
		default:
		}
		d.finish(1)
		<-dropped
		if d.Used() != 0 {
			t.Errorf("%d bytes are charged for no request", d.Used())
		}
	})
}

// TestRequestAttributesAreCharged: the attributes of a queued request count towards the bound, as
// its data does.
func TestRequestAttributesAreCharged(t *testing.T) {
	long := strings.Repeat("x", 60_000)
	for name, set := range map[string]func(e *ce.Event){
		"an extension":    func(e *ce.Event) { e.SetExtension("long", long) },
		"id":              func(e *ce.Event) { e.SetID(long) },
		"type":            func(e *ce.Event) { e.SetType(long) },
		"source":          func(e *ce.Event) { e.SetSource(long) },
		"subject":         func(e *ce.Event) { e.SetSubject(long) },
		"dataschema":      func(e *ce.Event) { e.SetDataSchema("http://" + long) },
		"datacontenttype": func(e *ce.Event) { e.SetDataContentType(long) },
	} {
		t.Run(name, func(t *testing.T) {
			atDesk(t, func(d *desk) {
				for range 10 {
					e := ce.New()
					set(&e)
					d.Add(cloudevents.Message{Topic: "flood", Event: &e})
				}
				if d.Used() > 1<<18 || d.refused < 5 {
					t.Errorf("%d bytes wait, and %d of 10 requests were dropped", d.Used(), d.refused)
				}
				synctest.Wait() // until the first request is handled
				go d.Drop()
				synctest.Wait()
				d.finish(1)
			})
		})
	}
}
