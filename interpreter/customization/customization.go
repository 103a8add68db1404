// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package customization

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spokewire/sdk-go/interpreter"
)

// File is a file with customizations.
type File struct {
	// Name is the name of the file in errors. Defaults to "file 1" for the first file, and so on.
	Name string
	// Text has documents in YAML or JSON, with at most 256 KiB each.
	Text []byte
}

// Interpreter interprets the kinds of customizations, without a webhook. Its methods may be called
// from any goroutine.
type Interpreter struct {
	interpreter.Ask
	compiler *compiler
	table    atomic.Pointer[table]
	slots    chan struct{} // one for each running evaluation
}

// New returns an interpreter of the customizations in files. The error is an [*Error].
func New(files ...File) (*Interpreter, error) {
	compiler, err := newCompiler()
	if err != nil {
		return nil, err
	}
	i := &Interpreter{compiler: compiler, slots: make(chan struct{}, runtime.GOMAXPROCS(0))}
	i.Ask = interpreter.Ask{Interpreter: i}
	if err := i.Set(files...); err != nil {
		return nil, err
	}
	return i, nil
}

// Set replaces all customizations by those in files. Evaluations in progress finish with the
// earlier ones. If Set fails, it returns an [*Error], and the earlier ones stay in effect.
func (i *Interpreter) Set(files ...File) error {
	loaded, err := i.compiler.load(files)
	if err != nil {
		return err
	}
	i.table.Store(loaded)
	return nil
}

// Kinds returns the targets, sorted and unchanged: groups, versions and kinds may be patterns.
func (i *Interpreter) Kinds() []schema.GroupVersionKind { return i.table.Load().kinds() }

// Supports reports whether an operation on a kind is answered.
func (i *Interpreter) Supports(gvk schema.GroupVersionKind, operation interpreter.Operation) bool {
	return i.table.Load().find(gvk, operation) != nil
}

// Interpret implements [interpreter.Interpreter]. The error is [interpreter.ErrNotInterpreted] for an
// operation without an expression and for a result without a value, and an [*Error] if an expression
// fails, exceeds its limits or has an invalid result.
func (i *Interpreter) Interpret(ctx context.Context, q interpreter.Query) (interpreter.Answer, error) {
	if err := ctx.Err(); err != nil {
		return interpreter.Answer{}, err
	}
	var o *operation
	if q.Object != nil && q.Operation.Known() {
		var err error
		if o, err = i.find(q.Object.GroupVersionKind(), q.Operation); err != nil {
			return interpreter.Answer{}, err
		}
	}
	r, err := q.Request(interpreter.ProtocolInterpret, "in-process")
	if err != nil {
		return interpreter.Answer{}, err
	}
	response, err := i.respond(ctx, o, r)
	if err != nil {
		return interpreter.Answer{}, err
	}
	answer, err := q.Answer(interpreter.ProtocolInterpret, &response)
	if err != nil {
		return interpreter.Answer{}, o.failed(ctx, o.expressions[0], q.Object, checked(err))
	}
	return answer, nil
}

// Handle implements [interpreter.Handler], to serve the kinds as a webhook.
func (i *Interpreter) Handle(ctx context.Context, r interpreter.Request) interpreter.Response {
	var response interpreter.Response
	o, err := i.find(schema.GroupVersionKind(r.Kind), r.Operation)
	if err == nil {
		response, err = i.respond(ctx, o, &r)
	}
	var request *interpreter.RequestError
	switch {
	case errors.As(err, &request):
		return interpreter.Errored(int32(request.Code), err)
	case errors.Is(err, interpreter.ErrNotInterpreted):
		return interpreter.Errored(http.StatusNotImplemented, err)
	case err != nil:
		return interpreter.Errored(http.StatusInternalServerError, err)
	}
	return response
}

// respond answers a request when it has a slot. Slots bound the memory of all evaluations.
func (i *Interpreter) respond(ctx context.Context, o *operation, r *interpreter.Request) (interpreter.Response, error) {
	select {
	case i.slots <- struct{}{}:
		defer func() { <-i.slots }()
	case <-ctx.Done():
		return interpreter.Response{}, ctx.Err()
	}
	return o.respond(ctx, r)
}

func (i *Interpreter) find(gvk schema.GroupVersionKind, asked interpreter.Operation) (*operation, error) {
	if o := i.table.Load().find(gvk, asked); o != nil {
		return o, nil
	}
	return nil, fmt.Errorf("%w: no customization has %s of %s", interpreter.ErrNotInterpreted, asked, gvk.Kind)
}
