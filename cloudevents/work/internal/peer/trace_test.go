// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package peer_test

import (
	"context"
	"testing"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
)

// TestTracingCostsNothingWhenOff: without a tracer, a step allocates nothing.
func TestTracingCostsNothingWhenOff(t *testing.T) {
	var off peer.Tracer
	step := func() {
		_, end := off.Start(context.Background(), "", peer.Step{Name: peer.StepCreate, Source: "hub", Work: "web"})
		end(nil)
	}
	if n := testing.AllocsPerRun(100, step); n != 0 {
		t.Errorf("a step allocates %v times", n)
	}
}

func BenchmarkStepWithoutTracer(b *testing.B) {
	var off peer.Tracer
	b.ReportAllocs()
	for b.Loop() {
		_, end := off.Start(context.Background(), "", peer.Step{Name: peer.StepCreate, Source: "hub", Work: "web"})
		end(nil)
	}
}
