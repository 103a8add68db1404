// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work"
)

// desk is where requests are handled beside news, each when the test lets it.
type desk struct {
	work.Aside
	t    *testing.T
	next chan struct{}

	mu   sync.Mutex
	done []string // topics, in the order in which they were begun
}

// atDesk runs a script in a bubble, which ends only when no goroutine is left.
func atDesk(t *testing.T, script func(*desk)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := &desk{t: t, next: make(chan struct{})}
		d.Aside = work.NewAside(func(m cloudevents.Message) {
			d.mu.Lock()
			d.done = append(d.done, m.Topic)
			d.mu.Unlock()
			<-d.next
		})
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

// TestAsideKeepsOrder: one request after the other, in the order of their arrival, and nothing runs in between.
func TestAsideKeepsOrder(t *testing.T) {
	atDesk(t, func(d *desk) {
		d.add(1, 5)
		d.expect(1)
		d.finish(3)
		d.expect(4)
		d.finish(2)
		d.add(6, 7) // after it was idle
		d.finish(2)
		d.expect(7)
	})
}

// TestAsideIsBounded: while many requests wait, who brings another waits as well.
func TestAsideIsBounded(t *testing.T) {
	atDesk(t, func(d *desk) {
		d.add(1, work.MostAside)
		added := make(chan struct{})
		go func() {
			d.add(work.MostAside+1, work.MostAside+1)
			close(added)
		}()
		synctest.Wait()
		select {
		case <-added:
			t.Errorf("more than %d requests were taken", work.MostAside)
		default:
		}
		d.finish(1)
		<-added
		d.finish(work.MostAside)
		d.expect(work.MostAside + 1)
	})
}

// TestAsideDrops: with the connection go the requests that wait, and the one that is handled ends first. There is room
// for as many afterwards.
func TestAsideDrops(t *testing.T) {
	atDesk(t, func(d *desk) {
		d.add(1, work.MostAside)
		d.expect(1)
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
		d.expect(1)
		d.Drop() // nothing to forget

		d.mu.Lock()
		d.done = nil
		d.mu.Unlock()
		d.add(1, work.MostAside)
		d.finish(work.MostAside)
		d.expect(work.MostAside)
	})
}
