// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
)

// forbidding is a transport to a broker that refuses messages on topics that contain a text.
type forbidding struct {
	cloudevents.Transport

	mu        sync.Mutex
	forbidden string
	refused   int
}

var errForbidden = errors.New("not authorized")

func (f *forbidding) Connect(ctx context.Context, o cloudevents.ConnectOptions) (cloudevents.Conn, error) {
	conn, err := f.Transport.Connect(ctx, o)
	if err != nil {
		return nil, err
	}
	return &forbiddingConn{conn, f}, nil
}

// forbid sets the text of refused topics. An empty text refuses no messages.
func (f *forbidding) forbid(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forbidden, f.refused = text, 0
}

// refusals returns the number of refusals since forbid.
func (f *forbidding) refusals() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.refused
}

type forbiddingConn struct {
	cloudevents.Conn
	rules *forbidding
}

func (c *forbiddingConn) Publish(ctx context.Context, m cloudevents.Message, done func(error)) error {
	c.rules.mu.Lock()
	refused := c.rules.forbidden != "" && strings.Contains(m.Topic, c.rules.forbidden)
	if refused {
		c.rules.refused++
	}
	c.rules.mu.Unlock()
	if refused {
		done(errForbidden)
		return nil
	}
	return c.Conn.Publish(ctx, m, done)
}

// beginnings are the topics of the first request of each role.
var beginnings = []struct {
	name, agent, source string
	profile             codec.Profile
	sources             []string
}{
	{"ManifestWork", "/sources/resync/cluster1/", "/sources/hub/resync/", codec.ManifestWork, []string{"hub"}},
	{"ManifestWork, every source", "/sources/resync/cluster1/", "/sources/hub/resync/", codec.ManifestWork, nil},
	{"ManifestBundle", "sources/hub/clusters/cluster1/agentevents", "sources/hub/sourcebroadcast", codec.ManifestBundle,
		[]string{"hub"}},
}

// TestForbiddenAgentDoesNotSync: an agent that the broker does not permit to request its works does
// not end its initial sync. Otherwise its user would treat all works as deleted and remove what
// they have applied. When the broker's rules are corrected, the agent continues on the same
// connection.
func TestForbiddenAgentDoesNotSync(t *testing.T) {
	for _, tt := range beginnings {
		t.Run(tt.name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				h := s.source(work.SourceOptions{Profile: tt.profile})
				h.create("cluster1", newWork("app", "1"))
				h.complete()
				s.settle()
				f := &forbidding{Transport: s.bus.Transport(), forbidden: tt.agent}
				a := s.agentOn(f, work.AgentOptions{ClusterName: "cluster1", Profile: tt.profile, Sources: tt.sources,
					ResyncInterval: time.Minute})
				informer := s.informer(workinformers.NewSharedInformerFactory(a.Clientset(), 0))
				time.Sleep(time.Hour)
				if informer.HasSynced() {
					t.Error("synced without having asked")
				}
				select {
				case <-a.Ready():
					t.Error("ready without having asked")
				default:
				}
				expectProbes(t, "refused", a, "", "", "the broker refuses")
				if err := a.Readyz(nil); !errors.Is(err, errForbidden) {
					t.Errorf("the cause is lost in %v", err)
				}
				if n := f.refusals(); n > 1000 { // only the latest request is retried
					t.Errorf("%d refusals in an hour", n)
				}
				f.forbid("")
				time.Sleep(15 * time.Second)
				expectProbes(t, "mended", a, "", "", "")
				if n := len(informer.GetStore().List()); !informer.HasSynced() || n != 1 {
					t.Errorf("mended: synced %t with %d works", informer.HasSynced(), n)
				}

				f.forbid(tt.agent)
				s.reconnect()
				expectProbes(t, "refused later", a, "", "", "the broker refuses")
			})
		})
	}
}

// TestForbiddenSourceIsNotReady: the same for a source. A refused message to one cluster does not
// count.
func TestForbiddenSourceIsNotReady(t *testing.T) {
	for _, tt := range beginnings {
		t.Run(tt.name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				f := &forbidding{Transport: s.bus.Transport(), forbidden: tt.source}
				h := s.sourceOn(f, work.SourceOptions{SourceID: "hub", Profile: tt.profile, ResyncInterval: time.Minute})
				h.create("cluster1", newWork("app", "1"))
				h.complete()
				time.Sleep(time.Hour)
				expectProbes(t, "refused", h, "", "", "the broker refuses")
				select {
				case <-h.Ready():
					t.Error("ready without having asked")
				default:
				}
				if n := f.refusals(); n > 2000 {
					t.Errorf("%d refusals in an hour", n)
				}
				f.forbid("/cluster1/")
				time.Sleep(15 * time.Second)
				expectProbes(t, "one cluster refused", h, "", "", "")
				s.reconnect()
				expectProbes(t, "one cluster refused, connected again", h, "", "", "")
			})
		})
	}
}
