// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/testing/background"
)

// becomes waits until an application has a status: word, revision and reason.
func (s *site) becomes(application, want string) {
	s.t.Helper()
	got := ""
	for end := time.Now().Add(patience); got != want; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("%s: status %q, want %q", application, got, want)
		}
		got = s.now(application, "")
	}
}

// now returns the status of an application. It waits at most the given time for the deployment.
func (s *site) now(application, wait string) string {
	s.t.Helper()
	if wait != "" {
		wait = "?wait=" + wait
	}
	var out struct{ Sync, Health, Revision, Reason string }
	if err := json.Unmarshal([]byte(s.must("GET", "/api/v1/applications/"+application+"/status"+wait, "")),
		&out); err != nil {
		s.t.Fatal(err)
	}
	return strings.TrimSpace(out.Sync + " " + out.Health + " " + out.Revision + " " + out.Reason)
}

// TestDeployedAfterAgentsReport checks that an application is deployed only when the agents of its clusters have
// reported it.
func TestDeployedAfterAgentsReport(t *testing.T) {
	s := newSite(t)
	s.start()
	for _, name := range []string{"c1", "c2"} {
		s.must("PUT", "/api/v1/clusters/"+name, cluster(name, ""))
	}
	s.must("PUT", "/api/v1/applications/shop", application("shop", "a=1"))
	s.must("PUT", "/api/v1/placements/p", placement("p", "shop", all))
	s.logs(`"Deployed an application" application=shop revision=1`)
	if got, want := s.now("shop", "300ms"), "OutOfSync Missing 1 2 of 2 clusters are Missing: c1: no agent of the "+
		"cluster has ever connected; waits for the agents of c1, c2 to apply it"; got != want {
		t.Errorf("without any agent: status %q, want %q", got, want)
	}
	leave := s.agent("c1")
	s.becomes("shop", "OutOfSync Missing 1 1 of 2 clusters is Missing: c2: no agent of the cluster has ever connected; "+
		"waits for the agent of c2 to apply it")
	clusters := regexp.MustCompile(`"clusters":\[\{"name":"c1","sync":"Synced","health":"Healthy","agent":"Connected",` +
		`"lastHeard":"[^"]*:00Z","on":\{"Healthy":1\}\},` +
		`\{"name":"c2","sync":"OutOfSync","health":"Missing","reason":"[^"]*","agent":"NeverJoined",` +
		`"on":\{"Missing":1\}\}\]`)
	if got := s.must("GET", "/api/v1/status", ""); !clusters.MatchString(got) {
		t.Errorf("of c1 something was heard, of c2 not: %s", got)
	}
	if got := s.must("GET", "/clusters", ""); strings.Count(got, "last heard") != 1 {
		t.Errorf("of c1 something was heard, of c2 not: %s", got)
	}
	metrics := s.must("GET", "/metrics", "")
	for _, want := range []string{`spokewire_hub_applications{health="Missing",sync="OutOfSync"} 1`,
		`spokewire_hub_clusters{agent="Connected",health="Healthy"} 1`, `spokewire_hub_link_up{link="broker"} 1`,
		`spokewire_hub_clusters{agent="NeverJoined",health="Missing"} 1`} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("the metrics do not have %s", want)
		}
	}
	s.agent("c2")
	if got := s.status("shop"); got != "Synced Healthy 1" {
		t.Errorf("status %q", got)
	}

	// The objects belong to the previous revision, so their health does not count.
	leave()
	s.must("PUT", "/api/v1/applications/shop", application("shop", "a=2"))
	s.logs(`"Deployed an application" application=shop revision=2`)
	s.becomes("shop", "OutOfSync Progressing 2 waits for the agent of c1 to apply it")
	if got, want := s.must("GET", "/api/v1/applications/shop/status", ""),
		`"clusters":[{"application":"shop","name":"c1","sync":"OutOfSync",`+
			`"health":"Progressing",`; !strings.Contains(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
	s.stop()
	s.start()
	s.becomes("shop", "OutOfSync Progressing 2 waits for the agent of c1 to apply it") // as before the restart
	s.agent("c1")
	if got := s.status("shop"); got != "Synced Healthy 2" {
		t.Errorf("status %q", got)
	}
}

// TestAgentOfAnotherSource checks that an agent that was started for another source is reported,
// although the hub receives messages from it.
func TestAgentOfAnotherSource(t *testing.T) {
	s := newSite(t)
	s.start()
	a, err := work.NewAgent(s.bus.Transport(), work.AgentOptions{ClusterName: "c1", Sources: []string{"hubb"}})
	if err != nil {
		t.Fatal(err)
	}
	background.Run(t, a.Start)
	s.must("PUT", "/api/v1/clusters/c1", cluster("c1", ""))
	s.must("PUT", "/api/v1/applications/shop", application("shop", "a=1"))
	s.must("PUT", "/api/v1/placements/p", placement("p", "shop", all))
	const reason = "its agent has connected, but has never confirmed a work: check that it is started with --source hub"
	s.showsOn("/api/v1/status", `"health":"Missing","reason":"`+reason+`","agent":"NeverJoined"`) // after 30 s
	s.shows(reason)
}

// TestRemovedOfflineCluster checks that the hub waits for a removed cluster to clean up, not to apply.
func TestRemovedOfflineCluster(t *testing.T) {
	s := newSite(t, "c1")
	leave := s.agent("c2")
	s.start()
	s.must("PUT", "/api/v1/applications/shop", application("shop", "a=1"))
	s.place("shop", "c1", "c2")
	s.logs(`"Started a rollout" application=shop revision=1 clusters=2 cause=`)
	leave()
	s.must("DELETE", "/api/v1/clusters/c2", "")
	s.logs("clusters=1 cause=")
	s.becomes("shop", "OutOfSync Progressing 2 waits for the agent of c2 to clean up")
	for path, want := range map[string]string{
		"applications/shop/status": `{"application":"shop","name":"c2","revision":"1","sync":"OutOfSync",` +
			`"health":"Progressing","reason":"its agent has not cleaned up yet"}`,
		"status": `{"name":"c2","sync":"OutOfSync","health":"Progressing",` +
			`"reason":"the cluster has no document any more: its agent has 1 work to clean up"`,
	} {
		if got := s.must("GET", "/api/v1/"+path, ""); !strings.Contains(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
	s.agent("c2")
	if got := s.status("shop"); got != "Synced Healthy 2" {
		t.Errorf("status %q", got)
	}
}

// TestRefusedByCluster checks that the error of an agent is shown for the application and the
// cluster until the agent can apply the work.
func TestRefusedByCluster(t *testing.T) {
	s := newSite(t, "c1", "c2")
	s.start()
	s.must("PUT", "/api/v1/applications/shop", application("shop", "a=1"))
	s.place("shop", "c1", "c2")
	s.clusters["c2"].Refuse(func(object string) string {
		if object == "ConfigMap x/a" {
			return "the quota is used up"
		}
		return ""
	})
	s.must("PUT", "/api/v1/applications/shop", application("shop", "a=2"))
	s.becomes("shop", "OutOfSync Degraded 2 c2 could not apply ConfigMap x/a: Failed: the quota is used up")
	if got := s.now("shop", "200ms"); !strings.HasPrefix(got, "OutOfSync Degraded") {
		t.Errorf("status %q", got)
	}
	if page := s.must("GET", "/applications/shop", ""); strings.Count(page,
		"ConfigMap x/a: Failed: the quota is used up") != 2 {
		t.Errorf("the page does not say it of application and cluster: %s", page)
	}
	s.clusters["c2"].Refuse(nil)
	if got := s.status("shop"); got != "Synced Healthy 2" {
		t.Errorf("status %q", got)
	}
}

// TestDependency checks that a part is applied when its dependency is ready on the cluster, or
// earlier with the condition Deployed.
func TestDependency(t *testing.T) {
	for _, condition := range []string{"", ", condition: Deployed"} {
		s := newSite(t, "c1")
		s.start()
		const second = "  - name: second\n    dependsOn: [{part: main}]\n    manifests:\n"
		text := strings.Replace(application("shop", "a=1", "b=1"),
			"    - template: |\n        {apiVersion: v1, kind: ConfigMap, metadata: {name: b", second+
				"    - template: |\n        {apiVersion: v1, kind: ConfigMap, metadata: {name: b", 1)
		refuse := func(object string) string {
			if object == "ConfigMap x/a" {
				return "not now"
			}
			return ""
		}
		s.clusters["c1"].Refuse(refuse)
		s.must("PUT", "/api/v1/clusters/c1", cluster("c1", ""))
		s.must("PUT", "/api/v1/applications/shop", strings.Replace(text, "{part: main}", "{part: main"+condition+"}", 1))
		s.must("PUT", "/api/v1/placements/p", placement("p", "shop", all))
		s.becomes("shop", "OutOfSync Degraded 1 c1 could not apply ConfigMap x/a: Failed: not now")
		if condition != "" {
			s.objects("c1", `x/b={"v":"1"}`)
		} else if calls := s.clusters["c1"].Calls(); len(calls) > 0 ||
			strings.Count(s.must("GET", "/applications/shop/c1", ""), "<h3>Work ") != 1 {
			t.Errorf("what depends on a part that is not applied comes before it: %v", calls)
		}
		s.clusters["c1"].Refuse(nil)
		if got := s.status("shop"); got != "Synced Healthy 1" {
			t.Errorf("status %q", got)
		}
		s.objects("c1", `x/a={"v":"1"}`, `x/b={"v":"1"}`)
	}
}
