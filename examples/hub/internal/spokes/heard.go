// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package spokes

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/spokewire/sdk-go/cloudevents"
)

// Beat is how often agents that have works are asked what they have, which each of them answers: one that is not heard of for longer is away, or its broker is.
const Beat = time.Minute

// maxHeard bounds how many clusters are remembered, whatever names a broker lets through.
const maxHeard = 100_000

// ears is a transport that notes of which clusters it hears.
type ears struct {
	cloudevents.Transport

	mu   sync.Mutex
	last map[string]time.Time
}

// Connect implements [cloudevents.Transport].
func (e *ears) Connect(ctx context.Context, o cloudevents.ConnectOptions) (cloudevents.Conn, error) {
	receive := o.Receive
	o.Receive = func(m cloudevents.Message) {
		e.note(clusterOf(m.Topic))
		receive(m)
	}
	return e.Transport.Connect(ctx, o)
}

func (e *ears) note(cluster string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, known := e.last[cluster]; cluster != "" && (known || len(e.last) < maxHeard) {
		e.last[cluster] = time.Now()
	}
}

// heard returns when a cluster's agent was last heard of; zero for never.
func (e *ears) heard(cluster string) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.last[cluster]
}

// clusterOf returns the cluster whose agent may write to a topic, or "": see package codec.
func clusterOf(topic string) string {
	levels := strings.Split(strings.TrimPrefix(topic, "/sources/"), "/")
	switch {
	case len(levels) == 4 && levels[1] == "clusters":
		return levels[2]
	case len(levels) == 3 && levels[0] == "resync":
		return levels[1]
	}
	return ""
}
