// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"context"
	"errors"
	"fmt"

	glua "github.com/yuin/gopher-lua"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/interpreter"
)

const (
	// The stacks are at least as large as in Karmada, which uses the defaults of gopher-lua.
	maxCalls, maxRegisters          = 256, 8192
	firstRegisters, registersGrowth = 256, 256
	stackCost                       = maxCalls*96 + 16*maxRegisters

	mostResults = 2 // of a function: only InterpretReplica has the second
)

var errTimeout = errors.New("the script ran longer than Options.Timeout: make it simpler, or raise the timeout")

// run runs a script in a new state. With a question, it calls the function of the script and adds the
// results to the response.
func (i *Interpreter) run(ctx context.Context, s *script, q *question, r *interpreter.Response) error {
	select {
	case i.slots <- struct{}{}:
		defer func() { <-i.slots }()
	case <-ctx.Done():
		return s.fail(context.Cause(ctx))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, i.limits.timeout, errTimeout)
	defer cancel()
	m := newMeter(ctx, i.limits, s, i.clock)
	function, err := m.load(s)
	if err != nil || q == nil {
		return err
	}
	arguments, err := q.values(m)
	if err != nil {
		return s.runError(m, err)
	}
	if err := m.protected(function, mostResults, arguments); err != nil {
		return s.runError(m, err)
	}
	results := []glua.LValue{m.state.Get(-2), m.state.Get(-1)}
	if err := s.operation.answer(m, q, results, r); err != nil {
		return s.runError(m, err)
	}
	return nil
}

// newMeter returns a meter with a new state.
func newMeter(ctx context.Context, limits limits, s *script, now clock.PassiveClock) *meter {
	m := &meter{ctx: ctx, limits: limits, sites: s.sites, constants: s.constants}
	m.state = glua.NewState(glua.Options{
		SkipOpenLibs: true, CallStackSize: maxCalls,
		RegistrySize: firstRegisters, RegistryGrowStep: registersGrowth, RegistryMaxSize: maxRegisters,
	})
	m.object, m.list = m.state.NewTable(), m.state.NewTable()
	m.charge(stackCost)
	m.openLibraries(now)
	m.state.SetContext(m)
	return m
}

// load runs the whole script, and returns the function that it defines.
func (m *meter) load(s *script) (*glua.LFunction, error) {
	if err := m.protected(m.state.NewFunctionFromProto(s.proto), 0, nil); err != nil {
		return nil, s.runError(m, err)
	}
	name := s.operation.function
	function, ok := m.state.GetGlobal(name).(*glua.LFunction)
	if !ok {
		return nil, s.fail(fmt.Errorf("the script does not define the function %s", name))
	}
	return function, nil
}

// protected calls a function. A script can catch errors, but not an error that ends the call.
func (m *meter) protected(function *glua.LFunction, results int, arguments []glua.LValue) (err error) {
	defer func() {
		// gopher-lua makes a stack trace when it recovers from an error, which panics if the stack
		// is full in a tail call. The state is not used again.
		if problem := recover(); problem != nil {
			err = fmt.Errorf("the script failed: %v", problem)
		}
	}()
	err = m.state.CallByParam(glua.P{Fn: function, NRet: results, Protect: true}, arguments...)
	if m.err != nil {
		return errors.Join(m.err, err)
	}
	return err
}
