// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// faults simulates the network between one process and the API server. Each request, including
// reads, may be lost before it is sent, lose its response, arrive late, or be executed twice.
//
// The process may die at any request. That request is executed or not, or arrives long after
// another process has taken over, and no request follows. The process may also freeze: all its
// requests wait, and continue when it is woken.
type faults struct {
	next http.RoundTripper

	mu     sync.Mutex
	random *rand.Rand
	rate   float64 // share of requests with a fault
	only   []fault // the possible faults, if set
	prompt bool    // whether no request arrives after its caller has continued
	dieAt  int     // the number of the request at which the process dies; 0 means never
	count  int
	dead   bool
	nap    *nap
	thaw   chan struct{} // closed when frozen requests must arrive
	frozen sync.WaitGroup
	late   sync.WaitGroup // requests that continue without their caller
}

// nap is a period in which a process is frozen.
type nap struct {
	at     int           // the number of the request at which it begins
	asleep chan struct{} // closed when it has begun
	awake  chan struct{} // closed when it ends
	done   chan struct{} // closed when the process is done
}

func newNap(at int) *nap {
	return &nap{at: at, asleep: make(chan struct{}), awake: make(chan struct{}), done: make(chan struct{})}
}

func (n *nap) wait() {
	if n == nil {
		return
	}
	select {
	case <-n.asleep:
		<-n.awake
	default:
	}
}

var (
	errLost = errors.New("fault: connection reset by peer")
	errDead = errors.New("fault: the process is dead")
)

func newFaults(seed, process uint64, rate float64, dieAt int, thaw chan struct{}) *faults {
	return &faults{random: rand.New(rand.NewPCG(seed, process)), rate: rate, dieAt: dieAt, thaw: thaw}
}

func (f *faults) wrap(next http.RoundTripper) http.RoundTripper { f.next = next; return f }

type fault int

const (
	pass fault = iota
	dropBefore
	dropAfter
	delay
	duplicate
	die
	dieAfter
	freeze
)

func (f *faults) choose(write bool) (fault, time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dead {
		return die, 0
	}
	f.count++
	if f.nap != nil && f.count == f.nap.at {
		close(f.nap.asleep)
	}
	if f.count == f.dieAt {
		f.dead = true
		ends := []fault{die, dieAfter, freeze}
		if f.prompt {
			ends = ends[:2]
		}
		return ends[f.random.IntN(len(ends))], 0
	}
	if f.random.Float64() >= f.rate {
		return pass, 0
	}
	kinds := []fault{dropBefore, dropAfter, delay}
	if write && !f.prompt {
		kinds = append(kinds, duplicate, dropAfter)
	}
	if f.only != nil {
		kinds = f.only
	}
	return kinds[f.random.IntN(len(kinds))], time.Duration(f.random.IntN(20)) * time.Millisecond
}

// RoundTrip sends a request with the fault that the seed chooses.
func (f *faults) RoundTrip(request *http.Request) (*http.Response, error) {
	write := request.Method != http.MethodGet
	kind, wait := f.choose(write)
	f.nap.wait()
	switch kind {
	case dropBefore:
		return nil, errLost
	case die:
		return nil, errDead
	case delay:
		time.Sleep(wait)
	case dropAfter, dieAfter:
		f.execute(request)
		return nil, errLost
	case freeze:
		again := detached(request)
		f.frozen.Go(func() { <-f.thaw; f.execute(again) })
		return nil, errDead
	case duplicate:
		again := detached(request)
		response, err := f.next.RoundTrip(request)
		f.late.Go(func() { time.Sleep(wait); f.execute(again) })
		return response, err
	}
	return f.next.RoundTrip(request)
}

func (f *faults) execute(request *http.Request) {
	if response, err := f.next.RoundTrip(request); err == nil {
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}
}

// detached returns a copy of a request that outlives its caller.
func detached(request *http.Request) *http.Request {
	var body []byte
	if request.Body != nil {
		body, _ = io.ReadAll(request.Body)
		request.Body = io.NopCloser(bytes.NewReader(body))
	}
	copied := request.Clone(bareContext)
	copied.Body = io.NopCloser(bytes.NewReader(body))
	return copied
}
