// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package caller_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/caller"
	"github.com/spokewire/sdk-go/interpreter/customization"
	"github.com/spokewire/sdk-go/interpreter/lua"
	"github.com/spokewire/sdk-go/interpreter/native"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

func TestChainCallsInterpretersInOrder(t *testing.T) {
	never := configured(t, caller.Options{}, caller.Configurations{})
	_, err := caller.Chain(never).Health(t.Context(), object())
	if !errors.Is(err, interpreter.ErrNotInterpreted) ||
		err.Error() != "not interpreted: no webhook has a rule for InterpretHealth of example.com/v1 Workload" {
		t.Error(err)
	}
	_, err = caller.Chain().Health(t.Context(), object())
	if !errors.Is(err, interpreter.ErrNotInterpreted) || err.Error() != "not interpreted: InterpretHealth of Workload" {
		t.Error(err)
	}
	server, ca := serve(t, http.NotFoundHandler())
	fails := configured(t, caller.Options{}, inter(interpreting("c", at(server.URL, ca))))
	if _, err := caller.Chain(never, fails, never).Health(t.Context(), object()); errors.Is(err,
		interpreter.ErrNotInterpreted) || reason(t, err).Reason != caller.ReasonStatus {
		t.Errorf("a failure ends the chain: %v", err)
	}
	_, err = fails.Interpret(t.Context(), interpreter.Query{Operation: v1alpha1.InterpreterOperationInterpretHealth})
	var wrong *interpreter.RequestError
	if !errors.As(err, &wrong) || err.Error() != "object is nil, or has no kind or apiVersion" {
		t.Errorf("without an object: %v", err)
	}
}

// TestChainContinuesAfterNotImplemented checks a webhook for a kind that does not implement one operation. The
// next interpreter of the chain answers, in both protocols.
func TestChainContinuesAfterNotImplemented(t *testing.T) {
	own, err := customization.New(customization.File{Name: "w.yaml", Text: []byte(`
apiVersion: config.karmada.io/v1alpha1
kind: InterpreterCustomization
metadata: {name: workloads}
spec:
  targets: [{apiVersion: example.com/v1, kind: Workload}]
  replicas: object.spec.replicas
`)})
	if err != nil {
		t.Fatal(err)
	}
	server, ca := serve(t, interpreter.NewHandler(own, interpreter.HandlerOptions{}))
	for name, configurations := range map[string]caller.Configurations{
		"Interpret": inter(interpreting("c", at(server.URL, ca))),
		"Explore":   explore(exploring("c", at(server.URL, ca))),
	} {
		t.Run(name, func(t *testing.T) {
			webhooks := configured(t, caller.Options{}, configurations)
			if n, _, err := webhooks.Replicas(t.Context(), object()); n != 1 || err != nil {
				t.Errorf("%d replicas, %v", n, err)
			}
			_, err := webhooks.Health(t.Context(), object())
			if failed := reason(t, err); !errors.Is(err, interpreter.ErrNotInterpreted) ||
				failed.Reason != caller.ReasonNotImplemented || failed.Code != http.StatusNotImplemented {
				t.Errorf("got %v", err)
			}
			next := interpreter.FromHandler(
				interpreter.HandlerFunc(func(context.Context, interpreter.Request) interpreter.Response {
					r := interpreter.Succeeded("")
					r.Healthy = new(true)
					return r
				}))
			if ok, err := caller.Chain(webhooks, next).Health(t.Context(), object()); !ok || err != nil {
				t.Errorf("the chain: %v, %v", ok, err)
			}
		})
	}
}

// TestChainErrorHasEachReasonOnce checks that the error has one line and each reason once, also for nested chains.
func TestChainErrorHasEachReasonOnce(t *testing.T) {
	own, err := customization.New()
	if err != nil {
		t.Fatal(err)
	}
	inLua, err := lua.New(lua.Options{})
	if err != nil {
		t.Fatal(err)
	}
	server, ca := serve(t, interpreter.NewHandler(native.New(), interpreter.HandlerOptions{}))
	webhooks := configured(t, caller.Options{}, inter(interpreting("c", at(server.URL, ca))))
	_, err = caller.Chain(caller.Chain(own, inLua), webhooks, native.New(), own).Components(t.Context(), object())
	const want = "not interpreted: " +
		"no customization has InterpretComponent of Workload; no Lua script has InterpretComponent of Workload; " +
		"webhook c/w.c.example.com, InterpretComponent: NotImplemented: refused (501): InterpretComponent of Workload is " +
		"not native; " +
		"InterpretComponent of Workload is not native"
	if !errors.Is(err, interpreter.ErrNotInterpreted) || err.Error() != want {
		t.Errorf("got\n%s\nwant\n%s", strings.ReplaceAll(err.Error(), "\n", "⏎"), want)
	}
	if failed := reason(t, err); failed.Reason != caller.ReasonNotImplemented {
		t.Errorf("got %v", failed)
	}
}
