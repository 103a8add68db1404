// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"strings"
	"testing"
)

// canary is a rollout to c1 first, and to the other clusters after an approval.
const canary = "groups: [{name: canary, clusters: {names: [c1]}, approveAfter: true}]"

// rolled returns an application with a rollout.
func rolled(rollout string, content ...string) string {
	return application("shop", content...) + "  rollout: {" + rollout + "}\n"
}

const afterCanary = `{"group": "canary", "gate": "After"}`

// newRollout starts a site with an application on three clusters. Its rollout waits after the first
// cluster.
func newRollout(t *testing.T) *site {
	t.Helper()
	s := newSite(t, "c1", "c2", "c3")
	s.start()
	s.must("PUT", "/api/v1/applications/shop", application("shop", "a=1"))
	s.place("shop", "c1", "c2", "c3")
	s.must("PUT", "/api/v1/applications/shop", rolled(canary, "a=2"))
	s.waitsAfterCanary()
	return s
}

func (s *site) waitsAfterCanary() {
	s.t.Helper()
	s.shows(`"waiting":"the rollout waits for an approval after group \"canary\""`)
}

// versions checks the values on c1, c2 and c3.
func (s *site) versions(want ...string) {
	s.t.Helper()
	for i, v := range want {
		s.objects("c"+string(rune('1'+i)), `x/a={"v":"`+v+`"}`)
	}
}

// TestRollout checks that groups roll out one after the other, and that an approval starts the next
// group, also after restarts.
func TestRollout(t *testing.T) {
	s := newRollout(t)
	s.versions("2", "1", "1")
	for range 2 {
		s.shows(`"sync":"OutOfSync","health":"Suspended","reason":"the rollout waits for an approval after group \"canary\""`)
		s.shows(`"groups":[{"name":"canary","clusters":1,"inProgress":0,"succeeded":1,"failed":0},` +
			`{"clusters":2,"inProgress":0,"succeeded":0,"failed":0}]}`)
		s.shows(`{"application":"shop","name":"c1","revision":"2","sync":"Synced","health":"Healthy"`)
		s.shows(`{"application":"shop","name":"c2","revision":"1","sync":"OutOfSync","health":"Healthy",` +
			`"reason":"waits for its turn in the rollout"`)
		s.showsOn("/applications/shop", ">canary</th>")
		s.stop()
		s.start()
	}
	s.waitsAfterCanary()
	s.versions("2", "1", "1")
	s.must("POST", "/api/v1/applications/shop/approve", afterCanary)
	if got := s.status("shop"); got != "Synced Healthy 2" {
		t.Errorf("status %q", got)
	}
	s.versions("2", "2", "2")
	for path, want := range map[string]int{
		"shop/approve": http.StatusAccepted, "shop/resume": http.StatusAccepted, // they change nothing
		"shop/pause": http.StatusConflict, "shop/abort": http.StatusConflict, "none/pause": http.StatusNotFound,
	} {
		if code, text := s.call("POST", "/api/v1/applications/"+path, afterCanary); code != want {
			t.Errorf("%s: %d %s, want %d", path, code, text, want)
		}
	}
	// A rollback uses the rollout of the document.
	s.must("POST", "/api/v1/applications/shop/rollback", "")
	s.waitsAfterCanary()
	s.versions("1", "2", "2")
	s.must("POST", "/api/v1/applications/shop/approve", afterCanary)
	if got := s.status("shop"); !strings.HasPrefix(got, "Synced Healthy 1") {
		t.Errorf("status %q", got)
	}
	s.versions("1", "1", "1")
}

// TestRolloutSuspended checks that an application is Suspended while its rollout waits for an approval,
// although the objects that the update removes still exist on all clusters.
func TestRolloutSuspended(t *testing.T) {
	s := newSite(t, "c1", "c2", "c3")
	s.start()
	s.must("PUT", "/api/v1/applications/shop", application("shop", "a=1", "b=1"))
	s.place("shop", "c1", "c2")
	s.must("PUT", "/api/v1/applications/shop", rolled(canary, "a=2"))
	s.shows(`"health":"Suspended","reason":"the rollout waits for an approval after group \"canary\""`)
	s.shows(`"needs":{"group":"canary","gate":"After"}`)
	s.shows(`"name":"c1","revision":"2","sync":"OutOfSync","health":"Suspended",` +
		`"reason":"ConfigMap x/b of revision 1 still exists"`)
	s.objects("c1", `x/a={"v":"2"}`, `x/b={"v":"1"}`)
	s.must("POST", "/api/v1/applications/shop/approve", afterCanary)
	s.becomes("shop", "Synced Healthy 2")
	s.objects("c1", `x/a={"v":"2"}`)
	s.must("PUT", "/api/v1/clusters/c3", cluster("c3", ""))
	s.shows(`"health":"Suspended","reason":"the rollout waits for an approval after group \"canary\""`)
	s.shows(`"name":"c3","sync":"OutOfSync","health":"Suspended","reason":"waits for its turn in the rollout"`)
}

// TestRemovalWithoutDependencies checks that the removal of objects does not wait for the agents of
// other clusters, if no part depends on another one.
func TestRemovalWithoutDependencies(t *testing.T) {
	s := newSite(t, "c1", "c2")
	s.start()
	s.must("PUT", "/api/v1/applications/shop", application("shop", "a=1", "b=1"))
	s.place("shop", "c1", "c2")
	s.becomes("shop", "Synced Healthy 1")
	s.clusters["c2"].Refuse(func(string) string { return "no" })
	s.must("PUT", "/api/v1/applications/shop", application("shop", "a=2"))
	s.objects("c1", `x/a={"v":"2"}`)
}

// TestRolloutSuperseded checks that a new document does not wait for the approval of the previous
// one, also after a restart.
func TestRolloutSuperseded(t *testing.T) {
	s := newRollout(t)
	s.must("PUT", "/api/v1/applications/shop", rolled(canary, "a=3"))
	s.versions("3", "1", "1")
	s.waitsAfterCanary()
	s.stop()
	s.start()
	s.waitsAfterCanary()
	s.must("PUT", "/api/v1/applications/shop", application("shop", "a=4"))
	if got := s.status("shop"); got != "Synced Healthy 4" {
		t.Errorf("status %q", got)
	}
	s.versions("4", "4", "4")
	// Another rollout of the same content starts again. An application that waits for an approval
	// can be removed.
	s.must("PUT", "/api/v1/applications/shop", rolled(canary, "a=5"))
	s.waitsAfterCanary()
	const first = "groups: [{name: first, clusters: {names: [c2]}, approveAfter: true}]"
	s.must("PUT", "/api/v1/applications/shop", rolled(first, "a=5"))
	s.shows(`after group \"first\"`)
	s.versions("5", "5", "4")
	s.must("PUT", "/api/v1/placements/p", placement("p", "shop", "names: [c1]"))
	s.shows(`after group \"first\"`)
	s.must("DELETE", "/api/v1/placements/p", "")
	s.must("DELETE", "/api/v1/applications/shop", "")
	s.gone("shop")
	s.objects("c1")
	s.objects("c3")
}

// TestRolloutAborted checks that an aborted rollout stays stopped until it is resumed, also after a
// restart.
func TestRolloutAborted(t *testing.T) {
	s := newRollout(t)
	s.must("POST", "/api/v1/applications/shop/abort", "")
	for range 2 {
		s.shows(`"sync":"OutOfSync","health":"Degraded","reason":"Aborted`)
		s.shows(`"aborted":true`)
		s.versions("2", "1", "1")
		s.stop()
		s.start()
	}
	s.shows(`"sync":"OutOfSync","health":"Degraded","reason":"Aborted`)
	s.must("POST", "/api/v1/applications/shop/resume", "")
	s.waitsAfterCanary()
	s.must("POST", "/api/v1/applications/shop/approve", afterCanary)
	s.becomes("shop", "Synced Healthy 2")
	s.versions("2", "2", "2")
}

// TestRolloutPaused checks that a pause delays the next group.
func TestRolloutPaused(t *testing.T) {
	s := newRollout(t)
	s.must("POST", "/api/v1/applications/shop/pause", "")
	s.must("POST", "/api/v1/applications/shop/approve", afterCanary)
	for range 2 {
		s.shows(`"reason":"the rollout is paused"`)
		s.showsOn("/", "paused")
		s.versions("2", "1", "1")
		s.stop()
		s.start()
	}
	s.must("POST", "/api/v1/applications/shop/resume", "")
	s.becomes("shop", "Synced Healthy 2")
	s.versions("2", "2", "2")
}

// TestRolloutFails checks that the next group does not start after more failures than maxFailures.
// With rollbackOnFailure, the changed clusters are rolled back.
func TestRolloutFails(t *testing.T) {
	for name, back := range map[string]bool{"stays": false, "goes back": true} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, "c1", "c2", "c3")
			s.start()
			s.must("PUT", "/api/v1/applications/shop", application("shop", "a=1"))
			s.place("shop", "c1", "c2", "c3")
			s.clusters["c2"].Refuse(func(string) string { return "no" })
			rollout := "progressDeadline: 2s, groups: [{name: first, clusters: {names: [c1, c2]}}]"
			if back {
				rollout += ", rollbackOnFailure: true"
			}
			s.must("PUT", "/api/v1/applications/shop", rolled(rollout, "a=2"))
			s.shows(`"groups":[{"name":"first","clusters":2,"inProgress":0,"succeeded":1,"failed":1},` +
				`{"clusters":1,"inProgress":0,"succeeded":0,"failed":0}]}`)
			s.shows(`"sync":"OutOfSync","health":"Degraded"`)
			if !back { // the previous revision runs on c3
				s.shows(`"name":"c3","revision":"1","sync":"OutOfSync","health":"Healthy",` +
					`"reason":"the rollout has ended before its turn"`)
			}
			want := "2"
			if back {
				want = "1"
			}
			s.versions(want, "1", "1")
			s.clusters["c2"].Refuse(nil)
			s.stop()
			s.start()
			s.shows(`"sync":"OutOfSync","health":"Degraded"`)
			s.versions(want, want, "1") // c2 now applies its works
			s.must("POST", "/api/v1/applications/shop/resume", "")
			s.becomes("shop", "Synced Healthy 2")
			s.versions("2", "2", "2")
		})
	}
}

// TestRolloutRefused checks that rejected documents and approvals change nothing.
func TestRolloutRefused(t *testing.T) {
	s := newRollout(t)
	before := s.must("GET", "/api/v1/applications/shop", "")
	for rollout, want := range map[string]string{
		"maxConcurrency: 0": `"field":"spec.rollout.maxConcurrency"`,
		"groups: [{name: a, clusters: {names: [c9]}}]": `there is no Cluster \"c9\"",` +
			`"field":"spec.rollout.groups[0].clusters.names[0]"`,
		"groups: [{name: a, clusters: {names: [c1]}}, {name: b, clusters: {selector: {}}}]": `is in group \"a\" already",` +
			`"field":"spec.rollout.groups[1].clusters"`,
	} {
		code, text := s.call("PUT", "/api/v1/applications/shop", rolled(rollout, "a=3"))
		if code/100 != 4 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s, want %s", rollout, code, text, want)
		}
	}
	if got := s.must("GET", "/api/v1/applications/shop", ""); got != before {
		t.Errorf("the document is %s", got)
	}
	for _, body := range []string{
		"", `{"group": 1}`, `{"group": "canary"}`, `{"group": "other", "gate": "After"}`, `{"groups": "canary"}`,
	} {
		if code, text := s.call("POST", "/api/v1/applications/shop/approve", body); code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", body, code, text)
		}
	}
	s.waitsAfterCanary()
	s.versions("2", "1", "1")
}
