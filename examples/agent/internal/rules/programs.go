// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"container/list"
	"sync"

	"github.com/spokewire/sdk-go/internal/celbound"
)

const (
	// mostCached limits the cache of compiled expressions, in estimated bytes.
	mostCached = 16 << 20
	// perProgram and perNode are the estimated bytes of a compiled expression, and of each of its
	// parts. Measured with cel-go 0.29: a part has 70 to 130 bytes.
	perProgram, perNode = 4 << 10, 160
)

// expression is the key of a program: the same text may be compiled for two environments.
type expression struct {
	env  *celbound.Env
	text string
}

// program is a compiled expression, or the error of the compiler.
type program struct {
	*celbound.Program
	err error
}

// programs is a cache of the most recently used compiled expressions. The zero value is ready to
// use.
type programs struct {
	mu    sync.Mutex
	bytes int
	byKey map[expression]*list.Element
	used  list.List // of cached, most recently used first
}

type cached struct {
	expression
	program
	bytes int
}

func (p *programs) get(key expression) (program, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e, ok := p.byKey[key]
	if !ok {
		return program{}, false
	}
	p.used.MoveToFront(e)
	return e.Value.(cached).program, true
}

func (p *programs) add(key expression, compiled program, nodes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.byKey[key]; ok { // compiled concurrently for two works
		return
	}
	if p.byKey == nil {
		p.byKey = map[expression]*list.Element{}
	}
	bytes := perProgram + 2*len(key.text) + nodes*perNode
	p.byKey[key] = p.used.PushFront(cached{key, compiled, bytes})
	for p.bytes += bytes; p.bytes > mostCached; {
		oldest := p.used.Remove(p.used.Back()).(cached)
		delete(p.byKey, oldest.expression)
		p.bytes -= oldest.bytes
	}
}
