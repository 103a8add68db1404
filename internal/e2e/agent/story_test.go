// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// suite lists the tests that run on both transports, each on one agent.
var suite = map[string]func(*scene){
	"Story":         story,
	"Strategies":    strategies,
	"Conflicts":     conflicts,
	"Executors":     executors,
	"DeleteOptions": deleteOptions,
	"Expiry":        expiry,
	"Rules":         rulesAndFeedback,
	"BadInput":      badInput,
	"Drift":         drift,
}

// TestAgent runs the suite.
func TestAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, transport := range transports {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			// Like OCM's agent, this agent adopts existing objects.
			s := w.managed(t, transport, transport, "--poll", "1s", "--degraded-after", "2s", "--adopt", "always")
			for name, test := range suite {
				t.Run(name, func(t *testing.T) { test(s.in(t, strings.ToLower(name))) })
			}
		})
	}
}

// TestKilled kills the process at each of its writes.
func TestKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, transport := range transports {
		for _, executed := range []bool{false, true} {
			for _, phase := range []string{"create", "update", "delete"} {
				t.Run(fmt.Sprintf("%s/%s/executed=%v", transport, phase, executed), func(t *testing.T) {
					t.Parallel()
					w.managed(t, transport, fmt.Sprintf("%s-%s-%v", transport, phase, executed)).killed(phase, executed)
				})
			}
		}
	}
}

// TestRestarts restarts agents while hubs are unreachable or have changed.
func TestRestarts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	t.Run("Store", func(t *testing.T) { w.stored(t) })
	t.Run("Refused", func(t *testing.T) { w.refused(t) })
	t.Run("Untracked", func(t *testing.T) { w.managed(t, "kube", "untracked").untracked() })
	for _, transport := range transports {
		t.Run("Eviction/"+transport, func(t *testing.T) {
			t.Parallel()
			w.managed(t, transport, "evict-"+transport, "--eviction-grace", "3s").evicted()
		})
		t.Run("Polled/"+transport, func(t *testing.T) {
			t.Parallel()
			w.managed(t, transport, "polled-"+transport, "--max-watches", "0", "--poll", "1s").polled()
		})
	}
}

// story is the life of a work: applied, changed, and deleted.
func story(s *scene) {
	namespace := `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"` + s.ns + `-shop"}}`
	inside := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"inside","namespace":"` + s.ns + `-shop"}}`
	role, settings, b := s.clusterRole("role"), s.configMap("settings", "1"), s.configMap("b", "1")
	s.create("shop", spec(inside, namespace, settings, b, role)) // the namespace is still created first
	w := s.applied("shop")
	record := s.owns("shop", inside, namespace, settings, b, role)
	uid := s.get(settings).GetUID()

	s.update("shop", manifests(namespace, s.configMap("settings", "2"), role))
	s.applied("shop")
	eventually(s.t, "what the work does not have any more is pruned", func() error {
		if s.get(inside) != nil || s.get(b) != nil || len(s.record("shop").Status.AppliedResources) != 3 {
			return errors.New("it is not")
		}
		return nil
	})
	if again := s.owns("shop", namespace, settings, role); again.UID != record.UID {
		s.t.Error("the AppliedWork is another")
	}
	if live := s.get(settings); live.GetUID() != uid || s.value("settings") != "2" {
		s.t.Errorf("the changed object is %v", live)
	}
	if now, err := s.work("shop"); err != nil || now.UID != w.UID || now.Generation != 2 {
		s.t.Errorf("the work is %+v, %v", now, err)
	}
	s.delete("shop")
	s.gone("shop")
	s.absent(namespace, settings, role)
}
