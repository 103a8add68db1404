// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/examples/hub/internal/page"
)

var noon = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

// hub is a fake hub with a state that the test sets.
type hub struct {
	mu    sync.Mutex
	state page.State
	looks int
}

func (h *hub) State() page.State {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.looks++
	state := h.state
	// Copied, because a returned state must not change.
	state.Clusters = slices.Clone(state.Clusters)
	state.Works = slices.Clone(state.Works)
	for i := range state.Works {
		state.Works[i].Objects = slices.Clone(state.Works[i].Objects)
	}
	return state
}

// edit changes the state without a notification.
func (h *hub) edit(change func(*page.State)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(&h.state)
}

func (h *hub) looked() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.looks
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

// small returns a state with each kind of element.
func small() page.State {
	return page.State{
		Input: page.Input{Origin: "directory /etc/hub", Taken: noon,
			Error: "apps/shop.yaml: document 2: spec.placement: cluster \"mars\" is unknown"},
		Clusters: []page.Cluster{
			{Name: "cluster2", Status: page.Status{Tone: page.Bad, Word: "Silent", Reason: "no agent has answered",
				Since: noon}},
			{Name: "cluster1", Labels: map[string]string{"region": "eu", "env": "prod"},
				Status: page.Status{Tone: page.Good, Word: "Served"}},
		},
		Applications: []page.Application{{
			Name: "shop", Revision: "7c1f", Status: page.Status{Tone: page.Busy, Word: "Rolling out", Reason: "1 of 2 clusters"},
			Rollout: &page.Rollout{Paused: true, Groups: []page.RolloutGroup{
				{Name: "canary <1>", Clusters: 2, InProgress: 1, Succeeded: 1}, {Clusters: 3, Failed: 2},
			}},
			Placements: []page.Placement{
				{Cluster: "cluster1", Revision: "7c1f", Status: page.Status{Tone: page.Good, Word: "Ready"}},
				{Cluster: "cluster2", Revision: "19aa",
					Status: page.Status{Tone: page.Bad, Word: "Failed", Reason: "Deployment web: image not found"}},
			},
		}},
		Works: []page.Work{{
			Cluster: "cluster1", Name: "shop-web", Application: "shop",
			Conditions: []metav1.Condition{
				{Type: "Applied", Status: metav1.ConditionTrue, Reason: "AppliedManifestComplete", Message: "2 manifests"},
				{Type: "Available", Status: metav1.ConditionUnknown, Reason: "NotYet"},
				{Type: "Degraded", Status: metav1.ConditionTrue, Reason: "Unhealthy"},
				{Type: "Progressing", Status: metav1.ConditionFalse, Reason: "Done"},
			},
			Objects: []page.Object{
				{Kind: "Deployment", Namespace: "shop", Name: "web",
					Health: page.Status{Tone: page.Bad, Word: "Unhealthy", Reason: "1 of 3 replicas", Since: noon}},
				{Kind: "Namespace", Name: "shop", Health: page.Status{Tone: page.Good, Word: "Healthy"}},
			},
		}, {Cluster: "cluster2", Name: "shop-web", Application: "shop"}},
	}
}

// large returns a state with many clusters and works, and two objects in each work.
func large(clusters, works int) page.State {
	s := page.State{Input: page.Input{Origin: "directory /etc/hub", Taken: noon}}
	app := page.Application{Name: "shop", Revision: "7c1f", Status: page.Status{Tone: page.Good, Word: "Ready"}}
	for i := range clusters {
		name := fmt.Sprintf("cluster%d", i)
		s.Clusters = append(s.Clusters, page.Cluster{Name: name, Labels: map[string]string{"region": "eu"},
			Status: page.Status{Tone: page.Good, Word: "Served", Since: noon}})
		app.Placements = append(app.Placements,
			page.Placement{Cluster: name, Revision: "7c1f", Status: page.Status{Tone: page.Good, Word: "Ready"}})
	}
	s.Applications = []page.Application{app}
	for i := range works {
		s.Works = append(s.Works, page.Work{
			Cluster: fmt.Sprintf("cluster%d", i%clusters), Name: fmt.Sprintf("shop-%d", i), Application: "shop",
			Conditions: []metav1.Condition{
				{Type: "Applied", Status: metav1.ConditionTrue, Reason: "AppliedManifestComplete",
					Message: "all manifests are applied"},
				{Type: "Available", Status: metav1.ConditionTrue, Reason: "ResourcesAvailable",
					Message: "all resources are available"},
			},
			Objects: []page.Object{
				{Kind: "Deployment", Namespace: "shop", Name: "web", Health: page.Status{Tone: page.Good, Word: "Healthy"}},
				{Kind: "ConfigMap", Namespace: "shop", Name: "settings", Health: page.Status{Tone: page.Good, Word: "Healthy"}},
			},
		})
	}
	return s
}
