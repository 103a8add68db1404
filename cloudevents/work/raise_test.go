// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/codec"
)

// TestRivalsWithoutPresence: two processes of one source that do not receive each other's presence
// raise a work's version at most once a minute each. After one process ends, a write of the other
// process arrives.
func TestRivalsWithoutPresence(t *testing.T) {
	inScene(t, func(s *scene) {
		var specs atomic.Int32
		s.decoding(codec.ManifestBundle, func(m codec.Message, _ cloudevents.Message) bool {
			switch m.(type) {
			case *codec.Spec:
				specs.Add(1)
			case *codec.Presence:
				return false
			}
			return true
		})
		a, one := s.agent(bundleAgent), s.source(bundleSource)
		one.create("cluster1", newWork("app", "1"))
		s.settle()
		a.report("app", "x")
		s.settle()
		two := s.source(bundleSource)
		two.create("cluster1", newWork("app", "2"))
		time.Sleep(time.Minute)
		sent := specs.Load()
		time.Sleep(time.Hour)
		if later := specs.Load() - sent; sent > 30 || later > 150 {
			t.Errorf("%d specs were sent within a minute, and %d after that", sent, later)
		}
		for i, h := range []*hub{one, two} {
			if got := h.get("cluster1", "app").Generation; got > 80_000 {
				t.Errorf("process %d has the version %d", i, got)
			}
		}
		one.kill()
		two.setValue("cluster1", "app", "3")
		time.Sleep(3 * time.Minute)
		if got := valueOf(t, a.get("app")); got != "3" {
			t.Errorf("the agent has %s", got)
		}
	})
}

// TestRestartsOfCountingSource: a source without a Store may restart any number of times, and an
// agent may have shown any version. The works of the source still arrive and their statuses return.
func TestRestartsOfCountingSource(t *testing.T) {
	inScene(t, func(s *scene) {
		a := s.agent(bundleAgent)
		for i := range 60 {
			h := s.source(bundleSource)
			h.create("cluster1", newWork("app", fmt.Sprint(i)))
			s.settle()
			a.report("app", fmt.Sprint(i))
			time.Sleep(10 * time.Second)
			if got := valueOf(t, a.get("app")); got != fmt.Sprint(i) {
				t.Errorf("restart %d: the agent has %s", i, got)
			}
			obj := h.get("cluster1", "app")
			if got := applied(obj); got != fmt.Sprint(i) {
				t.Errorf("restart %d: the source shows %q", i, got)
			}
			if obj.Generation > math.MaxInt32/4 {
				t.Errorf("restart %d: the version is %d", i, obj.Generation)
			}
			h.kill()
		}
	})
}
