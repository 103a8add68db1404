// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/examples/hub/internal/page"
	"github.com/spokewire/sdk-go/examples/hub/internal/status"
	"github.com/spokewire/sdk-go/rsync"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// hub is a hub in memory. The details of an application or cluster are those of its name, or those
// of "" for all others.
type hub struct {
	mu           sync.Mutex
	reads        int
	state        status.Hub
	applications map[string]status.Application
	clusters     map[string]status.Cluster
	changes      []status.Change
	revisions    []status.Revision
	controls     []string // the received changes
	failure      error    // of the next change
	note         string
}

func (h *hub) State(context.Context) status.Hub {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reads++
	return h.state
}

func (h *hub) Application(_ context.Context, name string) (status.Application, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a, ok := h.applications[name]
	return a, ok
}

func (h *hub) Cluster(_ context.Context, name string) (status.Cluster, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c, ok := h.clusters[name]
	return c, ok
}

func (h *hub) Diff(_ context.Context, _ string, from, to int) ([]status.Change, error) {
	if from > 2 || to > 2 {
		return nil, errors.New("no such revision")
	}
	return h.changes, nil
}

func (h *hub) History(context.Context) ([]status.Revision, error) { return h.revisions, nil }

func (h *hub) Control(_ context.Context, application string, c status.Control) (status.RolledBack, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.controls = append(h.controls, fmt.Sprintf("%s %s %v %d", application, c.Verb, c.Approval, c.Revision))
	a := h.applications[application]
	if c.Verb == status.Pause && h.failure == nil {
		r := *a.Rollout
		r.Paused = true
		a.Rollout = &r
		h.applications[application] = a
	}
	return status.RolledBack{Note: h.note}, h.failure
}

func everyone(*http.Request) bool { return true }

// edit changes the hub without a notification.
func (h *hub) edit(change func(*hub)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(h)
}

func newPage(t testing.TB, h page.Hub, opts page.Options) *page.Page {
	t.Helper()
	p, err := page.New(h, opts)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// get requests a path of a page and returns the response.
func get(p http.Handler, path string, headers ...string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	answer := httptest.NewRecorder()
	p.ServeHTTP(answer, request)
	return answer
}

func healthy() status.Status { return status.Status{Sync: status.Synced, Health: status.Healthy} }

func progressing(reason string) status.Status {
	return status.Status{Sync: status.OutOfSync, Health: status.Progressing, Reason: reason}
}

func degraded(reason string) status.Status {
	return status.Status{Sync: status.OutOfSync, Health: status.Degraded, Reason: reason}
}

// up are the links of a hub without an outage.
func up() []status.Link {
	return []status.Link{{Name: "broker", Address: "mqtts://broker.example.com", Up: true},
		{Name: "database", Address: "postgres://db.example.com/hub", Up: true}}
}

// empty returns a hub that nothing has joined.
func empty() *hub {
	return &hub{state: status.Hub{Links: up(), Documents: status.Documents{Origin: "the HTTP API", Accepted: noon}}}
}

// shop returns a hub with the application shop on three clusters. One cluster has the given status,
// and the application too.
func shop(s status.Status) *hub {
	h := empty()
	last := s
	counts := status.Counts{status.Healthy: 2}
	counts[s.Health]++
	a := status.Application{Name: "shop", Revision: "2", On: counts, Status: last}
	if s.Health != status.Healthy {
		a.Reason = "1 of 3 clusters is " + string(s.Health) + ": cluster3: " + s.Reason
	}
	a.Placements = []status.Placement{
		{Application: "shop", Cluster: "cluster1", Revision: "2", Status: healthy()},
		{Application: "shop", Cluster: "cluster2", Revision: "2", Status: healthy()},
		{Application: "shop", Cluster: "cluster3", Revision: "1", Status: s},
	}
	h.revisions = []status.Revision{
		{Application: "shop", Number: 2, Before: 1, Cause: "Application shop has changed", Created: noon, Clusters: 3},
		{Application: "shop", Number: 1, Cause: "Placement everywhere has changed", Created: noon.Add(-time.Hour),
			Clusters: 2},
	}
	h.changes = []status.Change{{Path: ".spec.parts[name=\"web\"].manifests[0].template",
		Before: "        image: example.com/web:1.0", After: "        image: example.com/web:1.1"},
		{Path: "Secret shop/db, key password", Before: "(redacted)", After: "(redacted)"}}
	h.state.Applications = []status.Application{a}
	a.Revisions = h.revisions
	h.applications = map[string]status.Application{"shop": a}
	h.clusters = map[string]status.Cluster{}
	for _, p := range a.Placements {
		c := status.Cluster{Name: p.Cluster, Status: healthy(), Agent: status.Connected, LastHeard: noon,
			Labels: map[string]string{"region": "eu", "env": "prod"}, On: status.Counts{p.Health: 1}}
		h.state.Clusters = append(h.state.Clusters, c)
		c.Placements = []status.Placement{p}
		c.Works = []status.Work{{Cluster: p.Cluster, Name: "web-4f1a", Application: "shop",
			Conditions: []metav1.Condition{{Type: "Applied", Status: metav1.ConditionTrue, Reason: "AppliedManifestWorkComplete",
				Message: "Apply manifest work complete", LastTransitionTime: metav1.NewTime(noon)}},
			Objects: []status.Object{{Kind: "Deployment", Namespace: "shop", Name: "web", Status: p.Status},
				{Kind: "Namespace", Name: "shop", Status: healthy()}},
		}}
		h.clusters[p.Cluster] = c
	}
	return h
}

// held returns a hub that holds the application shop, with a rollout that waits for an approval.
func held() *hub {
	const waits = `the rollout waits for an approval after group "canary"`
	h := shop(status.Status{Sync: status.OutOfSync, Health: status.Suspended, Reason: waits})
	a := h.applications["shop"]
	a.Held, a.Reason = 2, a.Reason+"; held at revision 2 until its document changes"
	a.Rollout = &status.Rollout{Status: "InProgress", Waiting: waits,
		Needs:  &rsync.Approval{Group: "canary", Gate: rsync.GateAfterGroup},
		Groups: []status.RolloutGroup{{Name: "canary", Clusters: 2, Succeeded: 2}, {Clusters: 1}}}
	h.applications["shop"] = a
	return h
}

// large returns a hub with many clusters and applications, each application on each cluster. Some of
// them are not healthy.
func large(clusters, applications int) *hub {
	h := empty()
	h.applications, h.clusters = map[string]status.Application{}, map[string]status.Cluster{}
	health := func(i int) status.Status {
		switch {
		case i%97 == 13:
			return degraded("Deployment shop/web: 0 of 2 replicas available, for longer than 5 minutes")
		case i%41 == 7:
			return progressing("its agent has not applied it yet")
		}
		return healthy()
	}
	for i := range clusters {
		c := status.Cluster{Name: fmt.Sprintf("cluster%04d", i), Status: healthy(), Agent: status.Connected, LastHeard: noon,
			Labels: map[string]string{"region": fmt.Sprintf("region%d", i%7)}, On: status.Counts{status.Healthy: applications}}
		if i%200 == 3 {
			c.Agent, c.Status = status.Silent, status.Status{Sync: status.SyncUnknown, Health: status.Unknown,
				Reason: "no message from its agent since 2026-03-01 11:40Z"}
		}
		h.state.Clusters = append(h.state.Clusters, c)
		h.clusters[c.Name] = c
	}
	for n := range applications {
		name := fmt.Sprintf("application%03d", n)
		a := status.Application{Name: name, Revision: "7", On: status.Counts{}, Status: healthy()}
		for i := range clusters {
			s := health(i*applications + n)
			if n%10 != 3 {
				s = healthy()
			}
			if a.On[s.Health]++; s.Health.Rank() > a.Health.Rank() {
				a.Status = s
			}
			a.Placements = append(a.Placements, status.Placement{Application: a.Name, Cluster: h.state.Clusters[i].Name,
				Revision: "7", Status: s})
		}
		h.applications[a.Name] = a
		a.Placements = nil
		h.state.Applications = append(h.state.Applications, a)
	}
	return h
}
