// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"fmt"
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

// kind has the handler and the operations of a kind.
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
		return interpreter.Answer{}, fmt.Errorf("%w: %s of %s is not native", interpreter.ErrNotInterpreted, q.Operation, q.Object.GetKind())
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
	out := make([]schema.GroupVersionKind, 0, len(i.kinds))
	for gvk := range i.kinds {
		out = append(out, gvk)
	}
	slices.SortFunc(out, func(a, b schema.GroupVersionKind) int {
		return slices.Compare([]string{a.Group, a.Kind}, []string{b.Group, b.Kind})
	})
	return out
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

// typed is a handler for one type that lists its operations.
type typed interface {
	interpreter.Handler
	Operations() []interpreter.Operation
}

func kinds() map[schema.GroupVersionKind]kind {
	core, apps, batch := schema.GroupVersion{Version: "v1"}, schema.GroupVersion{Group: "apps", Version: "v1"}, schema.GroupVersion{Group: "batch", Version: "v1"}
	out := map[schema.GroupVersionKind]kind{}
	add := func(gv schema.GroupVersion, name string, h typed, status statusKind) {
		out[gv.WithKind(name)] = kind{handler: h, operations: h.Operations(), status: status}
	}
	add(apps, "Deployment", deployment(), generationStatus)
	add(apps, "StatefulSet", statefulSet(), generationStatus)
	add(apps, "DaemonSet", daemonSet(), generationStatus)
	add(apps, "ReplicaSet", replicaSet(), generationStatus)
	add(batch, "Job", job(), plainStatus)
	add(batch, "CronJob", cronJob(), plainStatus)
	add(core, "Pod", pod(), plainStatus)
	add(core, "Service", service(), plainStatus)
	add(core, "PersistentVolume", persistentVolume(), plainStatus)
	add(core, "PersistentVolumeClaim", persistentVolumeClaim(), plainStatus)
	add(core, "ServiceAccount", serviceAccount(), noStatus)
	add(core, "Secret", secret(), noStatus)
	add(schema.GroupVersion{Group: "networking.k8s.io", Version: "v1"}, "Ingress", ingress(), plainStatus)
	add(schema.GroupVersion{Group: "policy", Version: "v1"}, "PodDisruptionBudget", disruptionBudget(), generationStatus)
	add(schema.GroupVersion{Group: "autoscaling", Version: "v2"}, "HorizontalPodAutoscaler", autoscaler(), generationStatus)
	return out
}
