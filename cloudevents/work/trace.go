// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
)

// Tracer creates the spans of a source or an agent. Package oteltrace has a Tracer for
// OpenTelemetry.
//
// The spans of one write form one tree, over both processes and their restarts:
//
//	create work               the source's clientset, until the work is stored
//	└ publish spec            until the broker acknowledges it
//	  └ receive spec          at the agent; see [Agent.TraceContext]
//	    └ apply work          from the receipt until the agent's user writes the condition Applied
//	      └ publish status
//	        └ receive status  at the source; see [Source.TraceContext]
//
// "create work" may also be "update work" or "delete work". After the latter, "remove work" follows
// in place of "apply work": until the agent's user removes the last finalizer, or writes the
// condition Deleted. An event that is
// published again, and a later status of the same version, create no spans. Traces are stored with
// the works.
type Tracer interface {
	// Start begins the span of a step. Its parent is the span in ctx if there is one, otherwise
	// step.Parent. Start returns the trace context of the new span for the next step, and a function
	// that ends the span: with an error if the step has failed. The function may be nil. It is not
	// called if the process ends first.
	//
	// Start is called with a mutex locked, from any goroutine. It must not block, and must not call
	// the source or the agent. An invalid trace context is not sent.
	Start(ctx context.Context, step TraceStep) (TraceContext, func(error))
}

// TraceContext is a trace context as in the W3C recommendation, and in the CloudEvents extension
// Distributed Tracing: Parent is the traceparent, State the tracestate. State has at most 512 bytes.
type TraceContext = struct{ Parent, State string }

// TraceStep is a step on the path of one version of a work. It has no content of the work.
type TraceStep struct {
	// Name is one of the constants.
	Name string
	// Source is the source ID, and Work the name of the work.
	Source, Cluster, Work string
	// UID is the UID at the source, and Version the version of the protocol. An agent with the
	// profile ManifestBundle does not know the UID.
	UID     types.UID
	Version int64
	// EventID and EventSource are the CloudEvents id and source of the event that is published or
	// received.
	EventID, EventSource string
	// Parent is the trace context of the previous step, which is empty for the first step.
	Parent TraceContext
	// Began is when the step began. It is zero for a step that begins now.
	Began time.Time
}

// The names of steps.
const (
	TraceCreate        = peer.StepCreate
	TraceUpdate        = peer.StepUpdate
	TraceDelete        = peer.StepDelete
	TracePublishSpec   = peer.StepPublishSpec
	TraceReceiveSpec   = peer.StepReceiveSpec
	TraceApply         = peer.StepApply
	TraceRemove        = peer.StepRemove
	TracePublishStatus = peer.StepPublishStatus
	TraceReceiveStatus = peer.StepReceiveStatus
)

func tracer(t Tracer) peer.Tracer {
	if t == nil {
		return nil
	}
	return func(ctx context.Context, s peer.Step) (TraceContext, func(error)) { return t.Start(ctx, TraceStep(s)) }
}
