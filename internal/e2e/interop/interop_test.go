// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package interop_test

import (
	"slices"
	"strconv"
	"testing"

	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

// checkNotes checks the labels and annotations that agents of both SDKs set on a received work.
func checkNotes(t *testing.T, w *workv1.ManifestWork) {
	t.Helper()
	if got := w.Labels[codec.LabelOriginalSource]; got != sourceID {
		t.Errorf("label originalsource %q", got)
	}
	if got := w.Annotations[codec.AnnotationDataType]; got != "io.open-cluster-management.works.v1alpha1.manifestbundles" {
		t.Errorf("annotation datatype %q", got)
	}
}

// TestInteropTheirSource runs a source of the OCM SDK with an agent of this one.
func TestInteropTheirSource(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			broker := mosquitto.Start(t, mosquitto.Options{})
			p := &pair{source: theirSource(t, broker, m), agent: ourAgent(t, broker, m)}
			// The user of the OCM source counts the versions. Without the annotation a work has no
			// version.
			count := 0
			version := func() string {
				count++
				if !m.versioned {
					return ""
				}
				return strconv.Itoa(count)
			}
			runSteps(t, []step{
				{"create", func(t *testing.T) {
					created := p.source.create(t, name, "1", version())
					w := p.agent.eventuallyValue(t, name, "1")
					checkNotes(t, w)
					m.generation(t, w, 1)
					if w.UID == created.UID || w.UID == "" {
						t.Errorf("the agent's object has UID %q, that of the wire: it must be its own", w.UID)
					}
				}},
				{"status", func(t *testing.T) {
					p.agent.report(t, name, "one")
					w := p.source.eventuallyReported(t, name, "one")
					if _, err := strconv.ParseInt(w.Annotations[codec.AnnotationSequenceID], 10, 64); err != nil {
						t.Errorf("sequence: %v", err)
					}
					if !slices.Contains(w.Finalizers, workv1.ManifestWorkFinalizer) {
						t.Errorf("finalizers %v", w.Finalizers)
					}
				}},
				{"update", func(t *testing.T) {
					p.source.update(t, name, "2", version())
					w := p.agent.eventuallyValue(t, name, "2")
					m.generation(t, w, 2)
					if reported(w) != "one" || !slices.Contains(w.Finalizers, workv1.ManifestWorkFinalizer) {
						t.Errorf("the update took status %q or finalizers %v away", reported(w), w.Finalizers)
					}
					p.agent.report(t, name, "two")
					p.source.eventuallyReported(t, name, "two")
				}},
				{"resync after their link is cut", func(t *testing.T) {
					back := p.source.away(t)
					p.agent.report(t, name, "while the source was away")
					back()
					p.source.eventuallyReported(t, name, "while the source was away")
				}},
				{"resync after ours is cut", func(t *testing.T) {
					back := p.agent.away(t)
					p.source.update(t, name, "3", version())
					p.source.create(t, "second", "of second", version())
					back()
					m.generation(t, p.agent.eventuallyValue(t, name, "3"), 3)
					p.agent.eventuallyValue(t, "second", "of second")
					p.agent.report(t, name, "three")
					p.agent.report(t, "second", "of second")
					p.source.eventuallyReported(t, name, "three")
					p.source.eventuallyReported(t, "second", "of second")
				}},
				{"delete", func(t *testing.T) {
					p.source.delete(t, name)
					p.cleanUp(t, name)
				}},
				{"delete while our link is cut", func(t *testing.T) {
					back := p.agent.away(t)
					p.source.delete(t, "second")
					back()
					p.cleanUp(t, "second")
				}},
				{"create again", func(t *testing.T) {
					count = 0
					p.source.create(t, name, "again", version())
					m.generation(t, p.agent.eventuallyValue(t, name, "again"), 1)
					p.agent.report(t, name, "again")
					p.source.eventuallyReported(t, name, "again")
				}},
			})
		})
	}
}

// TestInteropTheirAgent runs a source of this SDK with an agent of the OCM SDK.
func TestInteropTheirAgent(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			root := t // processes that outlive a step end with this test
			broker := mosquitto.Start(t, mosquitto.Options{})
			source, stop := ourSource(t, broker, m)
			p := &pair{source: source, agent: theirAgent(t, broker, m)}
			version := "" // the source counts, unless its user disables versions
			if !m.versioned {
				version = "0"
			}
			runSteps(t, []step{
				{"create", func(t *testing.T) {
					created := p.source.create(t, name, "1", version)
					w := p.agent.eventuallyValue(t, name, "1")
					checkNotes(t, w)
					m.generation(t, w, 1)
					if id := codec.ManifestBundle.ResourceID(sourceID, cluster, name); string(w.UID) != id ||
						string(created.UID) == id {
						t.Errorf("UID %q on the wire, want the resource ID %s; %q at the source, want its own", w.UID, id, created.UID)
					}
				}},
				{"status", func(t *testing.T) {
					p.agent.report(t, name, "one")
					p.source.eventuallyReported(t, name, "one")
				}},
				{"update", func(t *testing.T) {
					p.source.update(t, name, "2", version)
					w := p.agent.eventuallyValue(t, name, "2")
					m.generation(t, w, 2)
					if w.Annotations[codec.AnnotationSequenceID] == "" {
						t.Error("the source did not send the sequence of the status it has")
					}
					p.agent.report(t, name, "two")
					p.source.eventuallyReported(t, name, "two")
				}},
				{"resync after their link is cut", func(t *testing.T) {
					back := p.agent.away(t)
					p.source.update(t, name, "3", version)
					p.source.create(t, "second", "of second", version)
					back()
					m.generation(t, p.agent.eventuallyValue(t, name, "3"), 3)
					p.agent.eventuallyValue(t, "second", "of second")
					p.agent.report(t, name, "three")
					p.agent.report(t, "second", "of second")
					p.source.eventuallyReported(t, name, "three")
					p.source.eventuallyReported(t, "second", "of second")
				}},
				{"resync after ours is cut", func(t *testing.T) {
					back := p.source.away(t)
					p.agent.report(t, name, "while the source was away")
					p.source.update(t, "second", "from the outbox", version)
					back()
					p.source.eventuallyReported(t, name, "while the source was away")
					p.agent.eventuallyValue(t, "second", "from the outbox")
				}},
				{"restart of our source without a store", func(t *testing.T) {
					stop()
					p.source, stop = ourSource(root, broker, m)
					p.source.create(t, name, "restarted", version)
					p.source.create(t, "second", "restarted", version)
					w := p.agent.eventuallyValue(t, name, "restarted")
					p.agent.eventuallyValue(t, "second", "restarted")
					p.agent.report(t, name, "restarted")
					at := p.source.eventuallyReported(t, name, "restarted")
					if m.versioned && (w.Generation <= 3 || at.Generation != w.Generation) {
						t.Errorf("generation %d at the agent, %d at the source, want the same above 3", w.Generation, at.Generation)
					}
				}},
				{"delete", func(t *testing.T) {
					p.source.delete(t, name)
					p.cleanUp(t, name)
				}},
				{"delete while their link is cut", func(t *testing.T) {
					back := p.agent.away(t)
					p.source.delete(t, "second")
					back()
					p.cleanUp(t, "second")
				}},
				{"create again", func(t *testing.T) {
					p.source.create(t, name, "again", version)
					p.agent.eventuallyValue(t, name, "again")
					p.agent.report(t, name, "again")
					p.source.eventuallyReported(t, name, "again")
				}},
			})
		})
	}
}
