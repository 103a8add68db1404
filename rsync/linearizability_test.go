// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
	"github.com/spokewire/sdk-go/rsync/store/storetest"
)

// call is a request of a user for a context. It queues an event, or reads the number of events and
// of state changes.
type call struct {
	context string
	queue   bool
}

type answer struct {
	queued      uint64 // the number of the event, or the number of events
	transitions uint64
}

// queueModel is a queue from the view of its users. Events get consecutive numbers. Neither events
// nor state changes are undone.
var queueModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		parts := map[string][]porcupine.Operation{}
		for _, o := range history {
			id := o.Input.(call).context
			parts[id] = append(parts[id], o)
		}
		var out [][]porcupine.Operation
		for _, part := range parts {
			out = append(out, part)
		}
		return out
	},
	Init: func() any { return answer{} },
	Step: func(state, input, output any) (bool, any) {
		have, in, out := state.(answer), input.(call), output.(answer)
		if in.queue {
			return out.queued == have.queued+1, answer{have.queued + 1, have.transitions}
		}
		if out.transitions > 2*out.queued { // an event changes the state at most at its begin and its end
			return false, state
		}
		return out.queued == have.queued && out.transitions >= have.transitions, answer{have.queued, out.transitions}
	},
	Equal: func(a, b any) bool { return a == b },
}

// TestHistoriesAreLinearizable: users queue events and read statuses at three engines concurrently,
// which are frozen in turn. The test finds an order in which a single queue gives the same answers.
func TestHistoriesAreLinearizable(t *testing.T) {
	for seed := range 10 {
		synctest.Test(t, func(t *testing.T) { history(t, seed) })
	}
}

func history(t *testing.T, seed int) {
	const contexts, users, calls = 2, 4, 25
	memory := memstore.New(memstore.Options{})
	clusters := fake.New()
	var views []*storetest.Faults
	var engines []*rsync.Engine
	for i := range 3 {
		view := storetest.NewFaults(memory, nil)
		view.Delay = time.Duration(1+(seed+i)%3) * time.Millisecond
		engine, stop := startEngine(t, view, clusters, rsync.Options{Name: fmt.Sprint("engine", i), LeaseTTL: time.Second})
		t.Cleanup(stop)
		views, engines = append(views, view), append(engines, engine)
	}
	for i := range contexts {
		if err := engines[0].Create(t.Context(), parse(t, fmt.Sprint("id", i), fmt.Sprintf("web@c1 x%d=1", i))); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	var operations []porcupine.Operation
	var all sync.WaitGroup
	began := time.Now()
	for user := range users {
		all.Go(func() {
			for n := range calls {
				time.Sleep(time.Duration((seed*7+user*13+n*29)%200) * time.Millisecond)
				in := call{fmt.Sprint("id", (user+n)%contexts), (user+n+seed)%3 != 0}
				engine := engines[(user+n/5)%3]
				o := porcupine.Operation{ClientId: user, Input: in, Call: int64(time.Since(began))}
				out, err := ask(t, engine, in)
				if err != nil {
					t.Error(err)
					return
				}
				o.Output, o.Return = out, int64(time.Since(began))
				mu.Lock()
				operations = append(operations, o)
				mu.Unlock()
			}
		})
	}
	for i := range 3 {
		time.Sleep(500 * time.Millisecond)
		views[i].Hold()
		time.Sleep(2 * time.Second)
		views[i].Release()
	}
	all.Wait()
	if result := porcupine.CheckOperationsTimeout(queueModel, operations, 0); result != porcupine.Ok {
		t.Errorf("seed %d: no order explains the answers: %s", seed, result)
	}
	time.Sleep(time.Minute)
	for i := range contexts {
		status, err := engines[0].Status(t.Context(), fmt.Sprint("id", i))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range status.Queue {
			if !e.Status.Final() {
				t.Errorf("seed %d: event %d of %s is %s after a minute", seed, e.Seq, status.ID, e.Status)
			}
		}
	}
}

func ask(t *testing.T, engine *rsync.Engine, in call) (answer, error) {
	if in.queue {
		ref, err := engine.Instantiate(t.Context(), in.context)
		return answer{queued: ref.Seq}, err
	}
	status, err := engine.Status(t.Context(), in.context)
	if err != nil {
		return answer{}, err
	}
	out := answer{transitions: status.Transitions}
	if n := len(status.Queue); n > 0 {
		out.queued = status.Queue[n-1].Seq
	}
	return out, nil
}
