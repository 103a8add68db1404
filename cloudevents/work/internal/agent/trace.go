// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"time"

	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/codec"
)

// traceLocked begins the span of a step.
func (w *agentWork) traceLocked(
	ctx context.Context, parent peer.Trace, of codec.WorkRef, s peer.Step,
) (peer.Trace, func(error)) {
	o := &w.source.records.options
	s.Source, s.Cluster, s.Work, s.UID, s.Version = w.source.name, o.ClusterName, of.Name, of.UID, of.Version
	return o.Tracer.Start(ctx, parent, s)
}

func (w *agentWork) ref() codec.WorkRef {
	return codec.WorkRef{ResourceID: w.id, Version: w.Version, UID: w.UID, Name: w.Name}
}

// followLocked records that a new version was received.
func (w *agentWork) followLocked(spec *codec.Spec) {
	w.Trace, w.Traced = peer.TraceOf(&spec.Header), false
	if w.source.records.options.Tracer == nil {
		return
	}
	w.received = w.source.records.options.Clock.Now().UnixNano()
	var end func(error)
	w.Trace, end = w.traceLocked(context.Background(), w.Trace, spec.WorkRef, peer.Step{
		Name: peer.StepReceiveSpec, EventID: spec.ID, EventSource: spec.Source,
	})
	end(nil)
}

// traceStatusLocked records that a write shows that the work was removed, was applied, or failed to
// be applied.
func (w *agentWork) traceStatusLocked(ctx context.Context, current, next *workv1.ManifestWork) {
	if w.source.records.options.Tracer == nil {
		return
	}
	step, failed := peer.Step{}, error(nil)
	switch was, is := gone(current), gone(next); {
	case !was && is:
		step.Name = peer.StepRemove
	case !was && peer.AppliedChanged(&current.Status, &next.Status):
		step.Name, failed = peer.StepApply, peer.ErrNotApplied(&next.Status)
	default:
		return
	}
	if w.received != 0 {
		step.Began = time.Unix(0, w.received)
	}
	var end func(error)
	w.Trace, end = w.traceLocked(ctx, w.Trace, w.ref(), step)
	w.Traced = true
	end(failed)
}

// gone reports whether a work was removed: it has the condition Deleted, or no finalizer is left.
func gone(obj *workv1.ManifestWork) bool {
	return (&codec.Status{Status: &obj.Status}).Gone() || obj.DeletionTimestamp != nil && len(obj.Finalizers) == 0
}

// publishTraceLocked sets the trace of an event of the work. The first event after a step has a
// span, which endPublish ends.
func (w *agentWork) publishTraceLocked(m *codec.Status) {
	if w.Traced && w.source.records.options.Tracer != nil {
		w.Traced = false
		w.endPublishLocked(nil) // of an older status
		w.Trace, w.source.records.spans[w] = w.traceLocked(context.Background(), w.Trace, m.WorkRef, peer.Step{
			Name: peer.StepPublishStatus, EventID: m.ID, EventSource: m.Agent,
		})
	}
	trace := w.Trace.Context()
	m.TraceParent, m.TraceState = trace.Parent, trace.State
}

// endPublish ends the span of an event.
func (w *agentWork) endPublish(err error) {
	r := w.source.records
	if r.options.Tracer == nil {
		return
	}
	r.cache.Lock()
	defer r.cache.Unlock()
	w.endPublishLocked(err)
}

func (w *agentWork) endPublishLocked(err error) {
	if end := w.source.records.spans[w]; end != nil {
		delete(w.source.records.spans, w)
		end(err)
	}
}
