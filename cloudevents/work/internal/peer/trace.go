// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/codec"
)

// Trace is a valid W3C trace context: the traceparent, followed by the tracestate. It is empty if
// there is no trace.
type Trace string

// parentLength is the length of each traceparent.
const parentLength = 55

// NewTrace returns the trace of a traceparent and a tracestate, which may be invalid.
func NewTrace(parent, state string) Trace {
	parent, state = codec.ValidTrace(parent, state)
	return Trace(parent + state)
}

// TraceOf returns the trace of an event.
func TraceOf(h *codec.Header) Trace { return Trace(h.TraceParent + h.TraceState) }

// Context returns the traceparent and the tracestate.
func (t Trace) Context() TraceContext {
	if t == "" {
		return TraceContext{}
	}
	return TraceContext{string(t[:parentLength]), string(t[parentLength:])}
}

// TraceContext is work.TraceContext.
type TraceContext = struct{ Parent, State string }

// Step is a work.TraceStep.
type Step struct {
	Name                  string
	Source, Cluster, Work string
	UID                   types.UID
	Version               int64
	EventID, EventSource  string
	Parent                TraceContext
	Began                 time.Time
}

// The names of steps, as in package work.
const (
	StepCreate        = "create work"
	StepUpdate        = "update work"
	StepDelete        = "delete work"
	StepPublishSpec   = "publish spec"
	StepReceiveSpec   = "receive spec"
	StepApply         = "apply work"
	StepRemove        = "remove work"
	StepPublishStatus = "publish status"
	StepReceiveStatus = "receive status"
)

// Tracer is the method Start of a work.Tracer.
type Tracer func(context.Context, Step) (TraceContext, func(error))

// Start begins the span of a step that follows parent, unless there is no tracer: then the trace is
// parent. The returned function ends the span. The mutex is usually locked.
func (t Tracer) Start(ctx context.Context, parent Trace, s Step) (Trace, func(error)) {
	if t == nil {
		return parent, func(error) {}
	}
	s.Parent = parent.Context()
	c, end := t(ctx, s)
	if end == nil {
		end = func(error) {}
	}
	return NewTrace(c.Parent, c.State), end
}

// ErrNotApplied returns an error with the reason of a condition Applied that is not True.
func ErrNotApplied(status *workv1.ManifestWorkStatus) error {
	c := meta.FindStatusCondition(status.Conditions, workv1.WorkApplied)
	if c == nil || c.Status == metav1.ConditionTrue {
		return nil
	}
	return errors.New(c.Reason)
}

// AppliedChanged reports whether a status has a condition Applied that is new: the work was applied,
// or failed to be applied for another reason.
func AppliedChanged(before, after *workv1.ManifestWorkStatus) bool {
	was := meta.FindStatusCondition(before.Conditions, workv1.WorkApplied)
	is := meta.FindStatusCondition(after.Conditions, workv1.WorkApplied)
	return is != nil && (was == nil ||
		was.Status != is.Status || was.Reason != is.Reason || was.ObservedGeneration != is.ObservedGeneration)
}
