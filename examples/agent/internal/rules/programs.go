// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
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
	err   error
	bytes int
}

// programs is a cache of compiled expressions: those that were used recently, and those that were
// used before these. The zero value is ready to use.
type programs struct {
	mu             sync.Mutex
	recent, before map[expression]program
	bytes          int // of recent
}

func (p *programs) get(key expression) (program, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	found, ok := p.recent[key]
	if ok {
		return found, true
	}
	if found, ok = p.before[key]; ok {
		p.addLocked(key, found)
	}
	return found, ok
}

func (p *programs) add(key expression, compiled program) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.addLocked(key, compiled)
}

func (p *programs) addLocked(key expression, compiled program) {
	if p.recent == nil || p.bytes+compiled.bytes > mostCached/2 {
		p.recent, p.before, p.bytes = map[expression]program{}, p.recent, 0
	}
	p.recent[key] = compiled
	p.bytes += compiled.bytes
}
