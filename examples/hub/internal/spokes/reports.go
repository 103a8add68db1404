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

// Beat is the interval of resyncs, which every agent with works answers. An agent without a message
// for longer is offline, or its broker is.
const Beat = time.Minute

// maxClusters limits the number of recorded clusters, for any names that a broker allows.
const maxClusters = 100_000

// reports is a transport that records the clusters of received messages.
type reports struct {
	cloudevents.Transport

	mu   sync.Mutex
	last map[string]time.Time
}

// Connect implements [cloudevents.Transport].
func (e *reports) Connect(ctx context.Context, o cloudevents.ConnectOptions) (cloudevents.Conn, error) {
	receive := o.Receive
	o.Receive = func(m cloudevents.Message) {
		e.note(clusterOf(m.Topic))
		receive(m)
	}
	return e.Transport.Connect(ctx, o)
}

func (e *reports) note(cluster string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, known := e.last[cluster]; cluster != "" && (known || len(e.last) < maxClusters) {
		e.last[cluster] = time.Now()
	}
}

// lastOf returns when the last message of the agent of a cluster arrived; zero for never.
func (e *reports) lastOf(cluster string) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.last[cluster]
}

// clusterOf returns the cluster of the agent that may publish to a topic, or "": see package codec.
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
