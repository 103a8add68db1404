// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/codec"
)

// written is a write that must be stored: the term in which it was made, and the end of its span.
type written struct {
	term uint64
	end  func(error)
}

// finish waits until a write is stored.
func (s *Source) finish(ctx context.Context, w written) error {
	err := s.stored(ctx, w.term)
	if w.end != nil {
		w.end(err)
	}
	return err
}

// traceLocked begins the span of a step.
func (w *sourceWork) traceLocked(
	ctx context.Context, name string, parent peer.Trace, eventID, eventSource string,
) (peer.Trace, func(error)) {
	o := &w.cluster.options
	return o.Tracer.Start(ctx, parent, peer.Step{
		Name: name, Source: o.SourceID, Cluster: w.cluster.name, Work: w.name, UID: w.uid, Version: w.version,
		EventID: eventID, EventSource: eventSource,
	})
}

// traceWriteLocked begins the trace of a new version.
func (w *sourceWork) traceWriteLocked(ctx context.Context, name string) (done written) {
	done.term = w.cluster.records.term
	w.trace, done.end = w.traceLocked(ctx, name, "", "", "")
	w.traced = false
	return done
}

// publishTraceLocked sets the trace of an event of the work. The first event of a version has a
// span, which endPublish ends.
func (w *sourceWork) publishTraceLocked(spec *codec.Spec) {
	if w.trace != "" && !w.traced && !w.confirmed && w.cluster.options.Tracer != nil {
		w.traced = true
		w.endPublishLocked(nil) // of an older version
		w.trace, w.cluster.records.spans[w] = w.traceLocked(
			context.Background(), peer.StepPublishSpec, w.trace, spec.ID, spec.Source)
	}
	trace := w.trace.Context()
	spec.TraceParent, spec.TraceState = trace.Parent, trace.State
}

// endPublish ends the span of an event.
func (w *sourceWork) endPublish(err error) {
	if w.cluster.options.Tracer == nil {
		return
	}
	w.cluster.mu.Lock()
	defer w.cluster.mu.Unlock()
	w.endPublishLocked(err)
}

func (w *sourceWork) endPublishLocked(err error) {
	if end := w.cluster.records.spans[w]; end != nil {
		delete(w.cluster.records.spans, w)
		end(err)
	}
}

// traceStatusLocked records that a status was received which ends the trace of a version.
func (w *sourceWork) traceStatusLocked(m *codec.Status, failed error) {
	var end func(error)
	w.statusTrace, end = w.traceLocked(
		context.Background(), peer.StepReceiveStatus, peer.TraceOf(&m.Header), m.ID, m.Agent)
	end(failed)
}
