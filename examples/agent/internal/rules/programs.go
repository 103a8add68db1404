// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"container/list"
	"sync"

	"github.com/spokewire/sdk-go/internal/celbound"
)

const (
	// mostCached bounds the compiled expressions that are kept, in bytes as far as they can be estimated.
	mostCached = 16 << 20
	// perProgram and perNode are what a compiled expression has in bytes, and each of its parts. Measured with cel-go 0.29:
	// a part has 70 to 130.
	perProgram, perNode = 4 << 10, 160
)

// expression is the key of a program: the same text may be compiled for two environments.
type expression struct {
	env  *celbound.Env
	text string
}

// program is a compiled expression, or why it cannot be compiled.
type program struct {
	*celbound.Program
	err error
}

// programs keeps those compiled expressions that were used last. The zero value is ready to use.
type programs struct {
	mu    sync.Mutex
	bytes int
	byKey map[expression]*list.Element
	used  list.List // of cached, the last used first
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
	if _, ok := p.byKey[key]; ok { // two works have compiled it
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
