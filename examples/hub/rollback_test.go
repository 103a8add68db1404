// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// place creates clusters and a placement of applications on all clusters. It waits until the
// applications have settled. The agents must run.
func (s *site) place(applications string, clusters ...string) {
	s.t.Helper()
	for _, name := range clusters {
		s.must("PUT", "/api/v1/clusters/"+name, cluster(name, ""))
	}
	s.must("PUT", "/api/v1/placements/p", placement("p", applications, all))
	for name := range strings.SplitSeq(applications, ", ") {
		s.status(name)
	}
}

// refused sends a request that must be answered with 422 and a text.
func (s *site) refused(method, path, text string) {
	s.t.Helper()
	if code, body := s.call(method, path, ""); code != http.StatusUnprocessableEntity || !strings.Contains(body, text) {
		s.t.Errorf("%s %s: %d %s, want 422 and %q", method, path, code, body, text)
	}
}

// TestNewDocumentEndsRollback checks that another document ends a rollback permanently, also if the document that
// was rolled back is put again later.
func TestNewDocumentEndsRollback(t *testing.T) {
	s := newSite(t, "c1", "c2")
	s.start()
	s.must("PUT", "/api/v1/applications/shop", application("shop", "a=1"))
	s.place("shop", "c1")
	s.must("PUT", "/api/v1/applications/shop", application("shop", "a=2"))
	s.status("shop")
	s.must("POST", "/api/v1/applications/shop/rollback", "")
	if got := s.status("shop"); !strings.HasPrefix(got, "Synced Healthy") {
		t.Errorf("status %q", got)
	}
	s.must("PUT", "/api/v1/clusters/c2", cluster("c2", "")) // other documents do not end the rollback
	s.must("DELETE", "/api/v1/clusters/c2", "")
	if code, _ := s.call("PUT", "/api/v1/applications/shop", strings.Replace(application("shop", "a=3"), "{apiVersion",
		"{{ if }}{apiVersion", 1)); code != http.StatusUnprocessableEntity {
		t.Errorf("%d", code)
	}
	s.stop()
	s.start()
	if got := s.status("shop"); !strings.HasPrefix(got, "Synced Healthy") {
		t.Errorf("status %q", got)
	}
	for _, v := range []string{"a=3", "a=2"} {
		s.must("PUT", "/api/v1/applications/shop", application("shop", v))
		if got := s.status("shop"); !strings.HasPrefix(got, "Synced Healthy") {
			t.Errorf("%s: status %q", v, got)
		}
	}
	s.objects("c1", `x/a={"v":"2"}`)
}

// TestRollbackOfMovedObject checks that an object that moved to another application is not restored by a
// rollback or by its end.
func TestRollbackOfMovedObject(t *testing.T) {
	s := newSite(t, "c1")
	s.start()
	s.must("PUT", "/api/v1/applications/a", application("a", "x=1", "w=1"))
	s.must("PUT", "/api/v1/applications/b", application("b", "z=1"))
	s.place("a, b", "c1")
	s.must("PUT", "/api/v1/applications/a", application("a", "w=1"))
	s.status("a")
	s.must("PUT", "/api/v1/applications/b", application("b", "z=1", "x=2"))
	s.status("b")
	s.refused("POST", "/api/v1/applications/a/rollback", "is in the application b, on the cluster c1")
	if got := s.status("a"); got != "Synced Healthy 2" {
		t.Errorf("status %q", got)
	}
	s.objects("c1", `x/w={"v":"1"}`, `x/x={"v":"2"}`, `x/z={"v":"1"}`)

	// b is rolled back to the revision without x, and x is added to a.
	s.must("POST", "/api/v1/applications/b/rollback", "")
	s.status("b")
	s.must("PUT", "/api/v1/applications/a", application("a", "w=1", "x=3"))
	s.status("a")
	s.refused("DELETE", "/api/v1/applications/b/rollback", "is in the application a, on the cluster c1")
	if got := s.status("b"); !strings.HasPrefix(got, "Synced Healthy") {
		t.Errorf("status %q", got)
	}
	s.objects("c1", `x/w={"v":"1"}`, `x/x={"v":"3"}`, `x/z={"v":"1"}`)
	if problems := s.clusters["c1"].Problems(); len(problems) > 0 {
		t.Error(problems)
	}
}

// TestRollbackOfQueuedUpdate checks that a rollback reverts the newest document, also if the document
// still waits for an update in progress.
func TestRollbackOfQueuedUpdate(t *testing.T) {
	s := newSite(t, "c1")
	leave := s.agent("c2")
	s.start()
	s.must("PUT", "/api/v1/applications/shop", application("shop", "a=1", "b=1"))
	s.place("shop", "c1", "c2")
	leave()
	s.must("PUT", "/api/v1/applications/shop", application("shop", "a=2")) // b is deleted, but c2 does not confirm it
	s.logs("Started an update")
	s.must("PUT", "/api/v1/applications/shop", application("shop", "a=3"))
	before := s.must("GET", "/api/v1/applications/shop/status", "")
	if got := s.must("POST", "/api/v1/applications/shop/rollback", ""); !strings.Contains(before,
		`"revision":"`+revisionIn(got)+`"`) {
		t.Errorf("%s, while this was under way: %s", got, before)
	}
	if held := s.must("GET", "/api/v1/applications/shop/status", ""); !strings.Contains(held,
		`"sync":"OutOfSync","health":"Progressing","reason":"`) ||
		!strings.Contains(held, `"held":2`) {
		t.Errorf("it does not say that it is held: %s", held)
	}
	s.agent("c2")
	if got := s.status("shop"); !strings.HasPrefix(got, "Synced Healthy") {
		t.Errorf("status %q", got)
	}
	s.objects("c1", `x/a={"v":"2"}`)
	s.objects("c2", `x/a={"v":"2"}`)
}

// TestRollbackOfPlacements checks that a rollback skips revisions that differ only in their
// clusters, and that the response reports it.
func TestRollbackOfPlacements(t *testing.T) {
	s := newSite(t, "c1", "c2")
	s.start()
	s.must("PUT", "/api/v1/applications/shop", application("shop", "a=1"))
	s.place("shop", "c1")
	s.place("shop", "c2")
	if got := s.status("shop"); got != "Synced Healthy 2" {
		t.Fatal(got)
	}
	code, text := s.call("POST", "/api/v1/applications/shop/rollback", "")
	if code != http.StatusConflict ||
		!strings.Contains(text,
			"the revisions before 2 differ from it only in their clusters, which follow the placements: no earlier revision to "+
				"roll back to") {
		t.Errorf("%d %s", code, text)
	}
	const same = "nothing changes, but the application is held at this revision"
	if text := s.must("POST", "/api/v1/applications/shop/rollback", `{"revision": 1}`); !strings.Contains(text,
		`{"revision":1,"note":"revision 1 differs`) || !strings.Contains(text, same) {
		t.Error(text)
	}
	if got := s.status("shop"); got != "Synced Healthy 2 held at revision 1 until its document changes" {
		t.Error(got)
	}
	s.must("PUT", "/api/v1/applications/shop", application("shop", "a=2"))
	s.status("shop")
	if text := s.must("POST", "/api/v1/applications/shop/rollback", ""); strings.TrimSpace(text) != `{"revision":2}` {
		t.Error(text)
	}
	s.objects("c2", `x/a={"v":"1"}`)
}

// TestRevisionOfCluster checks that a cluster has no revision if its agent has never applied one.
func TestRevisionOfCluster(t *testing.T) {
	s := newSite(t, "c1")
	leave := s.agent("c3")
	s.start()
	s.must("PUT", "/api/v1/applications/shop", application("shop", "a=1", "b=1"))
	s.place("shop", "c1", "c3")
	leave()
	s.must("PUT", "/api/v1/clusters/c2", cluster("c2", "")) // it has no agent
	s.objects("c1", `x/a={"v":"1"}`, `x/b={"v":"1"}`)
	s.logs(`"Deployed an application" application=shop revision=2`)
	s.must("PUT", "/api/v1/applications/shop", application("shop", "a=2")) // b is deleted, but c2 and c3 do not confirm it
	s.logs("Started an update\" application=shop from=2 revision=3")
	text := s.must("GET", "/api/v1/applications/shop/status", "")
	if !strings.Contains(text, `{"application":"shop","name":"c2","sync":"OutOfSync","health":"Missing"`) ||
		!strings.Contains(text, `{"application":"shop","name":"c3","revision":"2","sync":"OutOfSync","health":`) {
		t.Error(text)
	}
}

// revisionIn returns the number of the revision in a response to a rollback.
func revisionIn(answer string) string {
	return strings.Trim(answer, "{\"revison:} \n")
}

// TestLostStore checks that a hub that lost its store deletes nothing.
func TestLostStore(t *testing.T) {
	s := newSite(t, "c1")
	s.start()
	s.must("PUT", "/api/v1/applications/shop", application("shop", "a=1"))
	s.place("shop", "c1")
	s.objects("c1", `x/a={"v":"1"}`)
	s.stop()
	s.options.Store = t.TempDir()
	s.start()
	s.must("PUT", "/api/v1/applications/shop", application("shop", "a=2"))
	s.place("shop", "c1")
	s.objects("c1", `x/a={"v":"2"}`)
	if metrics := s.must("GET", "/metrics", ""); !cleans("0").MatchString(metrics) {
		t.Errorf("what it does not know is deleted: %s", metrics)
	}
	if calls := s.clusters["c1"].Calls(); slices.ContainsFunc(calls,
		func(call string) bool { return strings.HasPrefix(call, "delete") }) {
		t.Error(calls)
	}
	for range 2 { // the next processes do not have the lost state either
		s.stop()
		s.start()
		s.logs("Unknown works on clusters stay because the store may have been lost")
		if got := s.status("shop"); got != "Synced Healthy 1" {
			t.Errorf("status %q", got)
		}
		time.Sleep(100 * time.Millisecond)
		if metrics := s.must("GET", "/metrics", ""); !cleans("0").MatchString(metrics) {
			t.Error("what it does not know is deleted after a restart")
		}
	}
	s.must("POST", "/api/v1/complete", "")
	for end := time.Now().Add(patience); !cleans("1").MatchString(s.must("GET", "/metrics", "")); time.Sleep(
		5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("what it does not know is never deleted")
		}
	}
}

// cleans matches the metric that reports whether the hub deletes unknown works.
func cleans(value string) *regexp.Regexp {
	return regexp.MustCompile(`(?m)^spokewire_\w*inventory_complete(\{[^}]*\})? ` + value + "$")
}

// TestEmptyFolder checks that a folder without documents, for example a volume that is not mounted,
// deletes nothing.
func TestEmptyFolder(t *testing.T) {
	s := newSite(t, "c1")
	s.options.Dir = t.TempDir()
	documents := cluster("c1", "") + "---\n" + application("shop", "a=1") + "---\n" + placement("p", "shop", all)
	s.write("all.yaml", documents)
	s.start()
	s.status("shop")
	s.objects("c1", `x/a={"v":"1"}`)
	s.write("all.yaml", "# nothing\n")
	s.logs("no documents in the folder")
	s.stop()
	said := &lines{url: make(chan string, 1)}
	if err := start(said.log(t.Context()), s.options, s.transport); err == nil ||
		!strings.Contains(err.Error(), "no documents in the folder") {
		t.Errorf("%v", err)
	}
	s.write("all.yaml", documents)
	s.start()
	if got := s.status("shop"); got != "Synced Healthy 1" {
		t.Errorf("status %q", got)
	}
	s.write("all.yaml", cluster("c1", ""))
	s.objects("c1")
}
