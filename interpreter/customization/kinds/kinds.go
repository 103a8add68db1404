// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"context"
	"embed"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/customization"
)

// texts has a file for each API group.
//
//go:embed *.yaml
var texts embed.FS

// Interpreter interprets the kinds of this package, without a webhook. Its methods may be called
// from any goroutine.
type Interpreter struct {
	interpreter.Ask
}

// New returns an interpreter.
func New() *Interpreter {
	i := &Interpreter{}
	i.Ask = interpreter.Ask{Interpreter: i}
	return i
}

// Kinds returns the kinds, sorted. Groups, versions and kinds may be patterns, for example *.
func (*Interpreter) Kinds() []schema.GroupVersionKind { return shared().Kinds() }

// Supports reports whether an operation on a kind is answered. Because of the default, it is true
// for the health, the status and the aggregated status of every kind.
func (*Interpreter) Supports(gvk schema.GroupVersionKind, operation interpreter.Operation) bool {
	return shared().Supports(gvk, operation)
}

// Interpret implements [interpreter.Interpreter], with the errors of package customization.
func (*Interpreter) Interpret(ctx context.Context, q interpreter.Query) (interpreter.Answer, error) {
	return shared().Interpret(ctx, q)
}

// Handle implements [interpreter.Handler], to serve the kinds as a webhook.
func (*Interpreter) Handle(ctx context.Context, r interpreter.Request) interpreter.Response {
	return shared().Handle(ctx, r)
}

// shared returns the interpreter with the compiled files.
var shared = sync.OnceValue(func() *customization.Interpreter {
	all, err := compile()
	if err != nil {
		panic(err) // a file of this package is invalid: TestFilesLoad fails
	}
	return all
})

func compile() (*customization.Interpreter, error) {
	entries, err := texts.ReadDir(".")
	if err != nil {
		return nil, err
	}
	files := make([]customization.File, len(entries))
	for i, entry := range entries {
		text, err := texts.ReadFile(entry.Name())
		if err != nil {
			return nil, err
		}
		files[i] = customization.File{Name: "kinds/" + entry.Name(), Text: text}
	}
	return customization.New(files...)
}
