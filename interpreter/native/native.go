// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// Interpreter interprets the kinds of this package, without a webhook. Its methods may be called
// from any goroutine.
type Interpreter struct {
	interpreter.Ask
	kinds map[schema.GroupVersionKind]kind
}

type kind struct {
	handler    interpreter.Handler
	operations []interpreter.Operation
	status     statusKind
}

// New returns an interpreter of all kinds of this package.
func New() *Interpreter {
	i := &Interpreter{kinds: kinds()}
	i.Ask = interpreter.FromHandler(i)
	return i
}

// Interpret implements [interpreter.Interpreter]. It returns [interpreter.ErrNotInterpreted] for
// kinds and operations that this package does not support.
func (i *Interpreter) Interpret(ctx context.Context, q interpreter.Query) (interpreter.Answer, error) {
	if q.Object != nil && q.Operation.Known() && !i.Supports(q.Object.GroupVersionKind(), q.Operation) {
		return interpreter.Answer{}, fmt.Errorf("%w: %s of %s is not native",
			interpreter.ErrNotInterpreted, q.Operation, q.Object.GetKind())
	}
	return i.Ask.Interpreter.Interpret(ctx, q)
}

// Handle implements [interpreter.Handler], to serve the native kinds as a webhook.
func (i *Interpreter) Handle(ctx context.Context, r interpreter.Request) interpreter.Response {
	gvk := schema.GroupVersionKind(r.Kind)
	if !i.Supports(gvk, r.Operation) {
		return interpreter.Errored(http.StatusNotImplemented, fmt.Errorf("%s of %s is not native", r.Operation, gvk.Kind))
	}
	k := i.kinds[gvk]
	switch r.Operation {
	case v1alpha1.InterpreterOperationInterpretStatus:
		return reflectStatus(k.status, &r)
	case v1alpha1.InterpreterOperationPrune:
		return pruner.Handle(ctx, r)
	}
	return k.handler.Handle(ctx, r)
}

// Kinds returns the kinds of this package, sorted.
func (i *Interpreter) Kinds() []schema.GroupVersionKind {
	return slices.SortedFunc(maps.Keys(i.kinds), func(a, b schema.GroupVersionKind) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind))
	})
}

// Supports reports whether the package answers an operation on a kind.
func (i *Interpreter) Supports(gvk schema.GroupVersionKind, operation interpreter.Operation) bool {
	k, ok := i.kinds[gvk]
	if !ok {
		return false
	}
	switch operation {
	case v1alpha1.InterpreterOperationInterpretStatus:
		return k.status != noStatus
	case v1alpha1.InterpreterOperationPrune:
		return true
	}
	return slices.Contains(k.operations, operation)
}

func kinds() map[schema.GroupVersionKind]kind {
	out := map[schema.GroupVersionKind]kind{}
	type handler interface {
		interpreter.Handler
		Operations() []interpreter.Operation
	}
	add := func(group, version, name string, h handler, status statusKind) {
		gvk := schema.GroupVersionKind{Group: group, Version: version, Kind: name}
		out[gvk] = kind{handler: h, operations: h.Operations(), status: status}
	}
	add("apps", "v1", "Deployment", deployment(), generationStatus)
	add("apps", "v1", "StatefulSet", statefulSet(), generationStatus)
	add("apps", "v1", "DaemonSet", daemonSet(), generationStatus)
	add("apps", "v1", "ReplicaSet", replicaSet(), generationStatus)
	add("batch", "v1", "Job", job(), plainStatus)
	add("batch", "v1", "CronJob", cronJob(), plainStatus)
	add("", "v1", "Pod", pod(), plainStatus)
	add("", "v1", "Service", service(), plainStatus)
	add("", "v1", "PersistentVolume", persistentVolume(), plainStatus)
	add("", "v1", "PersistentVolumeClaim", persistentVolumeClaim(), plainStatus)
	add("", "v1", "ServiceAccount", serviceAccount(), noStatus)
	add("", "v1", "Secret", secret(), noStatus)
	add("networking.k8s.io", "v1", "Ingress", ingress(), plainStatus)
	add("policy", "v1", "PodDisruptionBudget", disruptionBudget(), generationStatus)
	add("autoscaling", "v2", "HorizontalPodAutoscaler", autoscaler(), generationStatus)
	return out
}
