// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package pgstore_test

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/spokewire/sdk-go/internal/testing/postgres"
	"github.com/spokewire/sdk-go/rsync/store"
)

// call reads a key, or replaces one value by another.
type call struct {
	key, from, to string
	write         bool
}

// result is the value of a read, or the success of a write. A write without an answer is unknown.
type result struct {
	value         string
	done, unknown bool
}

// registers is the model of keys with values that are never repeated.
var registers = porcupine.NondeterministicModel{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		parts := map[string][]porcupine.Operation{}
		for _, o := range history {
			key := o.Input.(call).key
			parts[key] = append(parts[key], o)
		}
		var out [][]porcupine.Operation
		for _, part := range parts {
			out = append(out, part)
		}
		return out
	},
	Init: func() []any { return []any{""} },
	Step: func(state, input, output any) []any {
		have, in, out := state.(string), input.(call), output.(result)
		switch {
		case !in.write && out.value == have, in.write && !out.done && !out.unknown && have != in.from:
			return []any{have}
		case in.write && out.done && have == in.from:
			return []any{in.to}
		case in.write && out.unknown && have == in.from:
			return []any{have, in.to}
		case in.write && out.unknown:
			return []any{have}
		}
		return nil
	},
	Equal: func(a, b any) bool { return a == b },
}

// TestLinearizable: clients of three engines read and write the same keys, alone and with a prefix.
// Connections are cut, one engine is black-holed, and the server crashes. The history of all calls
// is linearizable.
func TestLinearizable(t *testing.T) {
	server := postgres.Start(t, postgres.Options{})
	db := server.Database(t)
	began := time.Now()
	var mu sync.Mutex
	var history []porcupine.Operation
	record := func(client int, at time.Duration, in call, out result) {
		ended := time.Since(began)
		if out.unknown {
			ended = math.MaxInt64 // it may be executed later
		}
		mu.Lock()
		defer mu.Unlock()
		history = append(history, porcupine.Operation{
			ClientId: client, Input: in, Call: int64(at), Output: out, Return: int64(ended),
		})
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var clients sync.WaitGroup
	var engines []engine
	for i := range 6 {
		if i < 3 {
			engines = append(engines, newEngine(t, server, db))
		}
		s := engines[i%3]
		clients.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				at := time.Since(began)
				key := fmt.Sprintf("/r/%d/", (n+i)%3)
				kv, ok := read(ctx, s, key, n%2 == 0)
				if !ok {
					continue
				}
				record(i, at, call{key: key}, result{value: string(kv.Value)})
				in := call{key: key, from: string(kv.Value), to: fmt.Sprintf("%d.%d", i, n), write: true}
				at = time.Since(began)
				r, err := s.Txn(ctx, []store.Compare{store.Unchanged(kv)}, []store.Op{store.Put(key, []byte(in.to))})
				record(i, at, in, result{done: err == nil && r.Succeeded, unknown: err != nil})
				time.Sleep(2 * time.Millisecond) // a short history is checked faster
			}
		})
	}
	written := func() (n int) {
		mu.Lock()
		defer mu.Unlock()
		for _, o := range history {
			if o.Output.(result).done {
				n++
			}
		}
		return n
	}
	progress := func() {
		before := written()
		time.Sleep(300 * time.Millisecond)
		eventually(t, "writes", func() bool { return written() >= before+10 })
	}
	for range 3 {
		progress()
		engines[0].proxy.Cut()
		engines[1].proxy.Stall()
		time.Sleep(300 * time.Millisecond)
		engines[2].proxy.Cut()
		server.Kill()
		server.Restart()
		engines[1].proxy.Resume()
		progress()
	}
	stop()
	clients.Wait()
	unknown := 0
	for _, o := range history {
		if o.Output.(result).unknown {
			unknown++
		}
	}
	t.Logf("%d calls, %d writes, %d more without an answer", len(history), written(), unknown)
	if got := porcupine.CheckOperationsTimeout(registers.ToModel(), history, 5*patience); got != porcupine.Ok {
		t.Errorf("the history is not linearizable: %s", got)
	}
}

// read returns a key, by itself or with all keys of its prefix.
func read(ctx context.Context, s store.Store, key string, alone bool) (store.KeyValue, bool) {
	if alone {
		kv, err := s.Get(ctx, key)
		return kv, err == nil
	}
	all, err := s.Range(ctx, "/r/")
	for _, kv := range all.KVs {
		if kv.Key == key {
			return kv, err == nil
		}
	}
	return store.KeyValue{Key: key}, err == nil
}
