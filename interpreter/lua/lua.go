// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// Options are the limits of an [Interpreter].
type Options struct {
	// MaxSteps is the limit for the instructions of one call. Functions that take longer for larger
	// arguments count as several. Defaults to 2,000,000.
	MaxSteps int
	// MaxMemory is the limit in bytes for the memory that one call allocates, also for its arguments
	// and its result. Garbage counts. Defaults to 64 MiB.
	MaxMemory int
	// Timeout is the limit for the time of one call. Defaults to one second, as in Karmada.
	Timeout time.Duration
	// Clock is the clock of scripts. Defaults to the clock of the system.
	Clock clock.PassiveClock
}

func (o Options) withDefaults() (Options, error) {
	switch {
	case o.MaxSteps < 0:
		return o, fmt.Errorf("invalid Options.MaxSteps: %d: must not be negative", o.MaxSteps)
	case o.MaxMemory < 0:
		return o, fmt.Errorf("invalid Options.MaxMemory: %d: must not be negative", o.MaxMemory)
	case o.Timeout < 0:
		return o, fmt.Errorf("invalid Options.Timeout: %v: must not be negative", o.Timeout)
	}
	o.MaxSteps, o.MaxMemory = cmp.Or(o.MaxSteps, 2_000_000), cmp.Or(o.MaxMemory, 64<<20)
	o.Timeout = cmp.Or(o.Timeout, time.Second)
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return o, nil
}

// File is a file with customizations.
type File struct {
	// Name is the name of the file in errors. Defaults to "file 1" for the first file, and so on.
	Name string
	// Text has any number of YAML or JSON documents, which are customizations or lists of them.
	Text []byte
}

// Interpreter interprets objects with the scripts of customizations. Its methods may be called from
// any goroutine.
type Interpreter struct {
	interpreter.Ask
	limits limits
	clock  clock.PassiveClock
	slots  chan struct{} // one for each running call
	kinds  atomic.Pointer[map[schema.GroupVersionKind]scripts]
}

// scripts are the scripts of one kind. Only InterpretDependency may have several.
type scripts map[interpreter.Operation][]*script

// New returns an interpreter with the customizations of files, as [Interpreter.Set] loads them.
func New(options Options, files ...File) (*Interpreter, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	i := &Interpreter{
		limits: limits{steps: options.MaxSteps, memory: options.MaxMemory, timeout: options.Timeout},
		clock:  options.Clock,
		slots:  make(chan struct{}, runtime.GOMAXPROCS(0)),
	}
	i.Ask = interpreter.Ask{Interpreter: i}
	if err := i.Set(context.Background(), files...); err != nil {
		return nil, err
	}
	return i, nil
}

// Set replaces all customizations by those in files. It compiles each script and runs it once,
// without a call of its function. Calls in progress continue with the earlier customizations. If
// Set fails, it returns an [*Error], and the earlier customizations stay in effect.
func (i *Interpreter) Set(ctx context.Context, files ...File) error {
	customizations, err := read(files)
	if err != nil {
		return err
	}
	slices.SortFunc(customizations, func(a, b *customization) int { return cmp.Compare(a.Name, b.Name) })
	kinds := map[schema.GroupVersionKind]scripts{}
	for _, c := range customizations {
		for _, o := range operations {
			source := c.scripts[o.field]
			if source == "" {
				continue
			}
			s, err := compile(c, o, source)
			if err != nil {
				return err
			}
			if err := i.run(ctx, s, nil, nil); err != nil {
				return err
			}
			if kinds[c.target()] == nil {
				kinds[c.target()] = scripts{}
			}
			of := kinds[c.target()]
			if len(of[o.name]) == 0 || o.name == v1alpha1.InterpreterOperationInterpretDependency {
				of[o.name] = append(of[o.name], s)
			}
		}
	}
	i.kinds.Store(&kinds)
	return nil
}

// Interpret implements [interpreter.Interpreter]. The error is [interpreter.ErrNotInterpreted] for
// a kind or an operation without a script, and an [*Error] for a script that fails.
func (i *Interpreter) Interpret(ctx context.Context, q interpreter.Query) (interpreter.Answer, error) {
	var found []*script
	if q.Object != nil && q.Operation.Known() {
		if found = i.scripts(q.Object.GroupVersionKind(), q.Operation); len(found) == 0 {
			return interpreter.Answer{}, fmt.Errorf("%w: %w", interpreter.ErrNotInterpreted,
				noScript(q.Operation, q.Object.GetKind()))
		}
	}
	request, err := q.Request(interpreter.ProtocolInterpret, "")
	if err != nil {
		return interpreter.Answer{}, err
	}
	response, err := i.respond(ctx, request, found)
	if err != nil {
		return interpreter.Answer{}, err
	}
	answer, err := q.Answer(interpreter.ProtocolInterpret, &response)
	if err != nil {
		return interpreter.Answer{}, about(request, found[0].fail(err))
	}
	return answer, nil
}

// Handle implements [interpreter.Handler], to serve customizations as a webhook. A kind or an
// operation without a script is answered with the code 501.
func (i *Interpreter) Handle(ctx context.Context, r interpreter.Request) interpreter.Response {
	gvk := schema.GroupVersionKind(r.Kind)
	found := i.scripts(gvk, r.Operation)
	if len(found) == 0 {
		return interpreter.Errored(http.StatusNotImplemented, noScript(r.Operation, gvk.Kind))
	}
	response, err := i.respond(ctx, &r, found)
	var bad *interpreter.RequestError
	if errors.As(err, &bad) {
		return interpreter.Errored(int32(bad.Code), err)
	}
	if err != nil {
		return interpreter.Errored(http.StatusInternalServerError, err)
	}
	return response
}

func noScript(operation interpreter.Operation, kind string) error {
	return fmt.Errorf("no Lua script has %s of %s", operation, kind)
}

func (i *Interpreter) scripts(gvk schema.GroupVersionKind, operation interpreter.Operation) []*script {
	return (*i.kinds.Load())[gvk][operation]
}

// Kinds returns the kinds that have a script, sorted.
func (i *Interpreter) Kinds() []schema.GroupVersionKind {
	return slices.SortedFunc(maps.Keys(*i.kinds.Load()), func(a, b schema.GroupVersionKind) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Version, b.Version))
	})
}

// Supports reports whether a customization has a script for an operation on a kind.
func (i *Interpreter) Supports(gvk schema.GroupVersionKind, operation interpreter.Operation) bool {
	return len(i.scripts(gvk, operation)) > 0
}
