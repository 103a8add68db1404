// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
)

var idleClusters = flag.Int("work.idle-clusters", 500,
	"how many clusters TestIdleClustersAreCheap has; the promise is for 10000")

const (
	idleBefore = 10 * time.Minute
	idleFor    = time.Hour
	// idleBytes is the size limit of a message of an idle pair, its topic included.
	idleBytes = 300
)

// idleMeter counts messages by sender, with their sizes in MQTT.
type idleMeter struct {
	mu             sync.Mutex
	messages       map[string]int
	bytes, largest map[string]int
	example        map[string]string // the largest message
}

func (m *idleMeter) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.messages, m.bytes, m.largest, m.example = map[string]int{}, map[string]int{}, map[string]int{}, map[string]string{}
}

func (m *idleMeter) take(t *testing.T, message cloudevents.Message) {
	data, err := codec.AppendStructured(nil, message.Event)
	if err != nil {
		t.Error(err)
	}
	sender, size := "source", len(message.Topic)+len(data)
	if _, ok := message.Event.Extensions()["agentsession"]; ok || strings.Contains(message.Topic, "clusters/cluster") &&
		strings.HasSuffix(message.Topic, "presence") {
		sender = "agent"
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.messages[sender]++
	m.bytes[sender] += size
	if size > m.largest[sender] {
		m.largest[sender], m.example[sender] = size, message.Topic+" "+string(data)
	}
}

// TestIdlePairIsQuiet: a source and a cluster in sync send at most one small message a minute in
// each direction. The agent, with or without named sources, sends one a minute.
func TestIdlePairIsQuiet(t *testing.T) {
	for name, sources := range map[string][]string{"named source": {"hub-of-region-1"}, "all sources": nil} {
		t.Run(name, func(t *testing.T) { testIdlePair(t, work.AgentOptions{Sources: sources}) })
	}
}

func testIdlePair(t *testing.T, options work.AgentOptions) {
	inScene(t, func(s *scene) {
		var m idleMeter
		m.reset()
		h, a := s.source(work.SourceOptions{SourceID: "hub-of-region-1"}), s.agent(options)
		for i := range 100 {
			h.create("cluster1", newWork(fmt.Sprintf("work%d", i), "1"))
		}
		h.complete()
		s.settle()
		for i := range 100 {
			a.report(fmt.Sprintf("work%d", i), "one")
		}
		time.Sleep(idleBefore)
		synctest.Wait()
		s.bus.Intercept(func(message cloudevents.Message, deliver func(cloudevents.Message)) {
			m.take(t, message)
			deliver(message)
		})
		time.Sleep(idleFor)
		synctest.Wait()
		m.mu.Lock()
		defer m.mu.Unlock()
		const minutes = int(idleFor / time.Minute)
		for _, sender := range []string{"source", "agent"} {
			t.Logf("the %s sent %d messages in %s, %d bytes; the largest has %d: %s",
				sender, m.messages[sender], idleFor, m.bytes[sender], m.largest[sender], m.example[sender])
			if m.messages[sender] > minutes || m.largest[sender] > idleBytes {
				t.Errorf("the %s sent %d messages in %s, of up to %d bytes", sender, m.messages[sender], idleFor, m.largest[sender])
			}
		}
		if m.messages["agent"] < minutes-1 {
			t.Errorf("the agent sent %d messages in %s", m.messages["agent"], idleFor)
		}
	})
}

// TestIdleClustersAreCheap: 10,000 idle clusters cost at most 170 messages a second and 2 % of a
// processor. Fewer clusters cost proportionally less. The source and the agents share this process,
// so the test measures them together.
func TestIdleClustersAreCheap(t *testing.T) {
	const messagesPerCluster, processorPerCluster = 170.0 / 10_000, 0.02 / 10_000
	inScene(t, func(s *scene) {
		var m idleMeter
		m.reset()
		h := s.source(work.SourceOptions{})
		for i := range *idleClusters {
			h.create(clusterName(i), newWork("app", "1"))
		}
		h.complete()
		for i := range *idleClusters {
			s.agent(work.AgentOptions{ClusterName: clusterName(i)}).report("app", "one")
		}
		time.Sleep(idleBefore)
		synctest.Wait()
		messages := 0
		var mu sync.Mutex
		s.bus.Intercept(func(message cloudevents.Message, deliver func(cloudevents.Message)) {
			mu.Lock()
			messages++
			mu.Unlock()
			deliver(message)
		})
		used := processorTime()
		time.Sleep(idleFor)
		synctest.Wait()
		used = processorTime() - used
		mu.Lock()
		defer mu.Unlock()
		seconds := idleFor.Seconds()
		rate, processor := float64(messages)/seconds, used.Seconds()/seconds
		t.Logf("%d clusters: %.1f messages a second, %.3f %% of a processor for source and agents", *idleClusters, rate,
			100*processor)
		if limit := messagesPerCluster * float64(*idleClusters); rate > limit {
			t.Errorf("%.1f messages a second, more than %.1f", rate, limit)
		}
		// The limit is three times the figure, because machines are busy and the agents are
		// included.
		if limit := 3 * processorPerCluster * float64(*idleClusters); processor > limit && !raceDetector {
			t.Errorf("%.3f %% of a processor, more than %.3f", 100*processor, 100*limit)
		}
	})
}
