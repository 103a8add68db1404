// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

func documents(all ...string) string { return strings.Join(all, "---\n") }

// TestApplyIsAllOrNothing checks that a diff changes nothing, and that documents which refer to each
// other are accepted together, or not at all.
func TestApplyIsAllOrNothing(t *testing.T) {
	s := newSite(t)
	s.start()
	s.agent("c1")
	first := documents(placement("p", "shop", all), application("shop", "a=one"), cluster("c1", ""))
	empty := func() {
		t.Helper()
		if got := s.must("GET", "/api/v1/clusters", ""); got != "[]\n" {
			t.Errorf("clusters: %s", got)
		}
	}
	fails := func(method, path, body string, code int, want string) {
		t.Helper()
		if got, text := s.call(method, path, body); got != code || !strings.Contains(text, want) {
			t.Errorf("%s %s: %d %s; want %d %s", method, path, got, text, code, want)
		}
	}
	diff := s.must("POST", "/api/v1/diff", first)
	for _, want := range []string{
		`{"kind":"Placement","name":"p","action":"created"}`, `{"kind":"Cluster","name":"c1","action":"created"}`,
		`"applications":[{"name":"shop","objects":[{"object":"ConfigMap x/a","action":"created","clusters":["c1"]}]}]`,
	} {
		if !strings.Contains(diff, want) {
			t.Errorf("diff: %s; want %s", diff, want)
		}
	}
	empty()
	wrong := documents(first, placement("q", "other", "names: [c1]"))
	for _, path := range []string{"/api/v1/diff", "/api/v1/apply"} {
		fails("POST", path, wrong, http.StatusUnprocessableEntity,
			`Placement q: spec.applications[0]: there is no Application`)
		fails("POST", path, documents(first, cluster("c1", "")), http.StatusUnprocessableEntity, "another Cluster c1 is in")
		fails("POST", path, "kind: X", http.StatusBadRequest, `the body, document 1: kind: \"X\"`)
	}
	empty()

	s.must("POST", "/api/v1/apply", first)
	if got := s.status("shop"); got != "Synced Healthy 1" {
		t.Errorf("status %q", got)
	}
	if got := s.must("POST", "/api/v1/apply", cluster("c1", "")); got !=
		`[{"kind":"Cluster","name":"c1","action":"unchanged"}]`+"\n" {
		t.Errorf("apply: %s", got)
	}
	diff = s.must("POST", "/api/v1/diff", application("shop", "b=two"))
	for _, want := range []string{
		`{"object":"ConfigMap x/a","action":"deleted","clusters":["c1"]},{"object":"ConfigMap x/b","action":"created"`,
		`"action":"changed","changes":[{"path":".spec.parts[name=\"`,
	} {
		if !strings.Contains(diff, want) {
			t.Errorf("diff: %s; want %s", diff, want)
		}
	}
	s.objects("c1", `x/a={"v":"one"}`)
}

// TestApplyOfAFleet checks that a request may have as many documents as fit into it.
func TestApplyOfAFleet(t *testing.T) {
	s := newSite(t)
	s.start()
	var all []string
	for i := range 2000 {
		all = append(all, cluster(fmt.Sprintf("c%d", i), ""))
	}
	s.must("POST", "/api/v1/apply", documents(all...))
	if got := strings.Count(s.must("GET", "/api/v1/clusters", ""), `"Cluster"`); got != len(all) {
		t.Errorf("%d clusters, want %d", got, len(all))
	}
}

// TestWatchAnswersAfterAChange checks that a watch waits while the answer is that of its tag.
func TestWatchAnswersAfterAChange(t *testing.T) {
	s := newSite(t)
	s.start()
	s.agent("c1")
	s.must("POST", "/api/v1/apply",
		documents(placement("p", "shop", all), application("shop", "a=one"), cluster("c1", "")))
	s.status("shop")
	watch := func(tag, limit string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "GET", s.url+"/api/v1/history?watch="+limit, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("If-None-Match", tag)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		return response.StatusCode, response.Header.Get("ETag")
	}
	code, tag := watch("", "1m")
	if code != http.StatusOK || tag == "" {
		t.Fatalf("first: %d %s", code, tag)
	}
	for _, given := range []string{tag, "W/" + tag} { // the latter from a proxy that compresses
		if code, same := watch(given, "1ms"); code != http.StatusNotModified || same != tag {
			t.Errorf("without a change: %d %s, want %s", code, same, tag)
		}
	}
	type answer struct {
		code int
		tag  string
	}
	answers := make(chan answer)
	go func() {
		code, tag := watch(tag, "9m")
		answers <- answer{code, tag}
	}()
	s.must("PUT", "/api/v1/applications/shop", application("shop", "a=two"))
	select {
	case got := <-answers:
		if got.code != http.StatusOK || got.tag == tag {
			t.Errorf("after a change: %+v", got)
		}
	case <-time.After(patience):
		t.Error("the watch has not ended")
	}
	if code, text := s.call("GET", "/api/v1/status?watch=x", ""); code != http.StatusBadRequest ||
		!strings.Contains(text, "watch: must be a duration of up to 10m0s") {
		t.Errorf("an invalid time: %d %s", code, text)
	}
}
