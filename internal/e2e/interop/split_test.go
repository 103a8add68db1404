// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package interop_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/eclipse/paho.golang/paho"

	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

// splitMode has a packet limit that requires several messages for the list of 60 works.
var splitMode = mode{versioned: true, clusters: "clusters", packet: 4096}

const splitWorks = 60

func isChunk(p *paho.Publish) bool { return p.Properties.User.Get("ce-chunkcount") != "" }

// fill creates the works, and waits until the agent shows them and the source their
// statuses.
func (p *pair) fill(t *testing.T) {
	t.Helper()
	for i := range splitWorks {
		p.source.create(t, numbered(i), "1", "1")
	}
	for i := range splitWorks {
		p.agent.eventuallyValue(t, numbered(i), "1")
		p.agent.report(t, numbered(i), "one")
	}
	for i := range splitWorks {
		p.source.eventuallyReported(t, numbered(i), "one")
	}
}

func numbered(i int) string { return fmt.Sprintf("app%d", i) }

// change changes works at both ends of the list while the link of one side is cut, and checks that the
// changes arrive and that no other work is changed or deleted.
func (p *pair) change(t *testing.T, offline *peer, chunks *atomic.Int64) {
	t.Helper()
	first, last, deleted := numbered(0), numbered(splitWorks-1), numbered(splitWorks/2)
	sent := chunks.Load()
	back := offline.away(t)
	if offline == p.agent {
		p.source.update(t, first, "2", "2")
		p.source.update(t, last, "2", "2")
		p.source.delete(t, deleted)
	} else {
		p.agent.report(t, first, "two")
		p.agent.report(t, last, "two")
	}
	back()
	eventually(t, "a list in chunks", func() error { return when(chunks.Load() >= sent+2, "too few chunks") })
	if offline == p.agent {
		p.agent.eventuallyValue(t, first, "2")
		p.agent.eventuallyValue(t, last, "2")
		p.cleanUp(t, deleted)
	} else {
		p.source.eventuallyReported(t, first, "two")
		p.source.eventuallyReported(t, last, "two")
		deleted = ""
	}
	for i := range splitWorks {
		switch name := numbered(i); name {
		case first, last, deleted:
		default:
			if w := p.agent.shown(name); w == nil || w.DeletionTimestamp != nil || valueOf(w) != "1" {
				t.Errorf("the agent has %s as %+v", name, w)
			}
			if w := p.source.shown(name); w == nil || w.DeletionTimestamp != nil || reported(w) != "one" {
				t.Errorf("the source has %s as %+v", name, w)
			}
		}
	}
}

// TestInteropSplitListOfAgent: an agent of this SDK divides its list, and a source of the OCM SDK
// handles each chunk as a list of its own. It sends the works of the other chunks again, and deletes
// only works that it does not have.
func TestInteropSplitListOfAgent(t *testing.T) {
	broker := mosquitto.Start(t, mosquitto.Options{})
	chunks := count(t, broker, "clusters/+/agentevents", isChunk)
	p := &pair{source: theirSource(t, broker, splitMode), agent: ourAgent(t, broker, splitMode)}
	p.fill(t)
	p.change(t, p.agent, chunks)
}

// TestInteropSplitHashesOfSource: a source of this SDK divides the hashes of its statuses, and an
// agent of the OCM SDK answers each chunk for the works in it only.
func TestInteropSplitHashesOfSource(t *testing.T) {
	broker := mosquitto.Start(t, mosquitto.Options{})
	chunks := count(t, broker, "clusters/+/sourceevents", isChunk)
	source, _ := ourSource(t, broker, splitMode)
	p := &pair{source: source, agent: theirAgent(t, broker, splitMode)}
	p.fill(t)
	p.change(t, p.source, chunks)
}

// TestInteropSplitBoth: a source and an agent of this SDK join the chunks of the other side.
func TestInteropSplitBoth(t *testing.T) {
	broker := mosquitto.Start(t, mosquitto.Options{})
	chunks := count(t, broker, "clusters/+/agentevents", isChunk)
	source, _ := ourSource(t, broker, splitMode)
	p := &pair{source: source, agent: ourAgent(t, broker, splitMode)}
	p.fill(t)
	p.change(t, p.source, chunks)
	p.change(t, p.agent, chunks)
}
