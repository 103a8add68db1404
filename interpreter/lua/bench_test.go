// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package lua_test

import (
	"testing"
	"time"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/lua"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

func BenchmarkInterpret(b *testing.B) {
	i, object := load(b, all...), thing(b, spec)
	for _, operation := range []interpreter.Operation{v1alpha1.InterpreterOperationInterpretHealth,
		v1alpha1.InterpreterOperationInterpretReplica, v1alpha1.InterpreterOperationReviseReplica} {
		b.Run(string(operation), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := i.Interpret(b.Context(),
					interpreter.Query{Operation: operation, Object: object, Replicas: 7}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSteps measures a script of about a million steps.
func BenchmarkSteps(b *testing.B) {
	i, err := lua.New(
		lua.Options{Timeout: time.Minute},
		document(
			"things",
			"healthInterpretation",
			"function InterpretHealth() local n = 0 for i = 1, 300000 do n = n + i % 7 end return n > 0 end",
		),
	)
	if err != nil {
		b.Fatal(err)
	}
	object := thing(b, "")
	for b.Loop() {
		if _, err := i.Health(b.Context(), object); err != nil {
			b.Fatal(err)
		}
	}
}
