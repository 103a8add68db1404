// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const header = "apiVersion: hub.spokewire.io/v1alpha1\n"

func cluster(name, labels string) string {
	return fmt.Sprintf(header+"kind: Cluster\nmetadata: {name: %s, labels: {%s}}\n", name, labels)
}

// application returns an application with one part that has a ConfigMap for each "name=value".
func application(name string, content ...string) string {
	out := header + "kind: Application\nmetadata: {name: " + name + "}\nspec:\n  parts:\n  - name: main\n    manifests:\n"
	for _, c := range content {
		object, value, _ := strings.Cut(c, "=")
		out += fmt.Sprintf("    - template: |\n        {apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: "+
			"x}, data: {v: %q}}\n", object, value)
	}
	return out
}

func placement(name, applications, clusters string) string {
	return fmt.Sprintf(header+"kind: Placement\nmetadata: {name: %s}\nspec: {applications: [%s], clusters: {%s}}\n", name,
		applications, clusters)
}

const all = "selector: {}"

// TestApplicationLifecycle checks the life of an application through the API, with restarts of the hub between the
// steps.
func TestApplicationLifecycle(t *testing.T) {
	s := newSite(t, "c1", "c2")
	restart := func() {
		t.Helper()
		s.stop()
		s.start()
	}
	s.start()
	s.must("PUT", "/api/v1/clusters/c1", cluster("c1", "a: b"))
	s.must("PUT", "/api/v1/applications/shop", application("shop", "a=one", "b=one"))
	s.must("PUT", "/api/v1/placements/p", placement("p", "shop", all))
	if got := s.status("shop"); got != "Synced Healthy 1" {
		t.Errorf("status %q", got)
	}
	s.objects("c1", `x/a={"v":"one"}`, `x/b={"v":"one"}`)
	restart()
	s.must("PUT", "/api/v1/applications/shop", application("shop", "a=two", "c=two"))
	s.status("shop")
	s.objects("c1", `x/a={"v":"two"}`, `x/c={"v":"two"}`)
	restart()
	s.must("POST", "/api/v1/applications/shop/rollback", "")
	if got := s.status("shop"); !strings.HasPrefix(got, "Synced Healthy") {
		t.Errorf("status %q", got)
	}
	s.objects("c1", `x/a={"v":"one"}`, `x/b={"v":"one"}`)
	restart()
	// A rollback stays in effect, also on new clusters.
	s.must("PUT", "/api/v1/clusters/c2", cluster("c2", "a: b"))
	s.status("shop")
	s.objects("c1", `x/a={"v":"one"}`, `x/b={"v":"one"}`)
	s.objects("c2", `x/a={"v":"one"}`, `x/b={"v":"one"}`)
	s.must("DELETE", "/api/v1/applications/shop/rollback", "")
	s.status("shop")
	s.objects("c2", `x/a={"v":"two"}`, `x/c={"v":"two"}`)
	s.must("DELETE", "/api/v1/clusters/c1", "")
	if got := s.status("shop"); !strings.HasPrefix(got, "Synced Healthy") {
		t.Errorf("status %q", got)
	}
	s.objects("c1")
	restart()
	s.must("DELETE", "/api/v1/placements/p", "")
	s.must("DELETE", "/api/v1/applications/shop", "")
	s.objects("c2")
	s.gone("shop")
	restart()
	if code, _ := s.call("GET", "/api/v1/applications/shop", ""); code != http.StatusNotFound {
		t.Errorf("the application is there again: %d", code)
	}
	for name, c := range s.clusters {
		if problems := c.Problems(); len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
		}
	}
}

// gone waits until the hub no longer has an application.
func (s *site) gone(application string) {
	s.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		code, text := s.call("GET", "/api/v1/applications/"+application+"/status", "")
		if code == http.StatusNotFound {
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("%s is still there: %s", application, text)
		}
	}
}

// TestFolderChanges checks that changes in the folder are applied, and that invalid documents there change
// nothing.
func TestFolderChanges(t *testing.T) {
	s := newSite(t, "c1", "c2")
	s.options.Dir = t.TempDir()
	s.write("clusters.yaml", cluster("c1", "a: b")+"---\n"+cluster("c2", "a: c"))
	s.write("apps.yaml", application("shop", "a=one")+"---\n"+
		placement("p", "shop", "selector: {matchLabels: {a: b}}, names: [c2]"))
	s.write("notes.txt", "this is no document")
	s.start()
	s.status("shop")
	s.objects("c2", `x/a={"v":"one"}`)

	s.write("apps.yaml", application("shop", "a=two")+"---\n"+
		placement("p", "shop", "selector: {matchLabels: {a: b}}, names: [c3]"))
	s.logs(`document 2: spec.clusters.names[0]: there is no Cluster "c3"`)
	s.objects("c1", `x/a={"v":"one"}`)
	if page := s.must("GET", "/", ""); !strings.Contains(page, "there is no Cluster") {
		t.Errorf("the page does not say that the folder does not count: %s", page)
	}
	if code, text := s.call("PUT", "/api/v1/clusters/c1", cluster("c1", "a: b")); code != http.StatusMethodNotAllowed {
		t.Errorf("%d %s", code, text)
	}
	s.write("apps.yaml", application("shop", "a=two")+"---\n"+placement("p", "shop", "selector: {matchLabels: {a: b}}"))
	s.objects("c1", `x/a={"v":"two"}`)
	s.objects("c2")
	if err := os.Remove(filepath.Join(s.options.Dir, "apps.yaml")); err != nil {
		t.Fatal(err)
	}
	s.objects("c1")
}

// logs waits until the hub has printed a text.
func (s *site) logs(text string) {
	s.t.Helper()
	for end := time.Now().Add(patience); !strings.Contains(s.said.String(), text); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("the hub does not say %q", text)
		}
	}
}

// TestOfflineCluster checks that an unreachable cluster does not delay updates of other clusters. It receives
// the updates when it returns.
func TestOfflineCluster(t *testing.T) {
	s := newSite(t, "c1")
	leave := s.agent("c2")
	s.options.Patience = 50 * time.Millisecond
	s.start()
	s.must("PUT", "/api/v1/clusters/c1", cluster("c1", ""))
	s.must("PUT", "/api/v1/clusters/c2", cluster("c2", ""))
	s.must("PUT", "/api/v1/applications/shop", application("shop", "a=1", "b=1"))
	s.must("PUT", "/api/v1/placements/p", placement("p", "shop", all))
	s.status("shop")
	s.objects("c2", `x/a={"v":"1"}`, `x/b={"v":"1"}`)
	leave()
	for n := range 5 { // b is deleted, but c2 does not confirm it
		s.must("PUT", "/api/v1/applications/shop", application("shop", fmt.Sprintf("a=%d", n+2), fmt.Sprintf("c%d=1", n+2)))
		s.objects("c1", fmt.Sprintf(`x/a={"v":"%d"}`, n+2), fmt.Sprintf(`x/c%d={"v":"1"}`, n+2))
	}
	s.agent("c2")
	s.objects("c2", `x/a={"v":"6"}`, `x/c6={"v":"1"}`)
	if got := s.status("shop"); !strings.HasPrefix(got, "Synced Healthy") {
		t.Errorf("status %q", got)
	}
	s.must("DELETE", "/api/v1/placements/p", "")
	s.must("DELETE", "/api/v1/applications/shop", "")
	s.objects("c1")
	s.objects("c2")
	s.gone("shop")
}

// TestForgetCluster checks that an application can be removed although one of its clusters never returns.
func TestForgetCluster(t *testing.T) {
	s := newSite(t, "c1")
	leave := s.agent("c2")
	s.start()
	s.must("PUT", "/api/v1/clusters/c1", cluster("c1", ""))
	s.must("PUT", "/api/v1/clusters/c2", cluster("c2", ""))
	s.must("PUT", "/api/v1/applications/shop", application("shop", "a=1"))
	s.must("PUT", "/api/v1/placements/p", placement("p", "shop", all))
	s.status("shop")
	s.objects("c2", `x/a={"v":"1"}`)
	leave()
	if code, text := s.call("POST", "/api/v1/clusters/c2/forget", ""); code != http.StatusConflict {
		t.Errorf("%d %s", code, text)
	}
	s.must("DELETE", "/api/v1/clusters/c2", "")
	s.logs("Started an update")
	s.must("POST", "/api/v1/clusters/c2/forget", "")
	s.must("POST", "/api/v1/clusters/c2/forget", "") // repeated
	if got := s.status("shop"); !strings.HasPrefix(got, "Synced Healthy") {
		t.Errorf("status %q", got)
	}
	s.objects("c1", `x/a={"v":"1"}`)
}

// TestMoveObjectBetweenApplications checks that an object can move between applications only in two steps. A move in one
// step would delete the object as it is created.
func TestMoveObjectBetweenApplications(t *testing.T) {
	s := newSite(t, "c1")
	s.start()
	s.must("PUT", "/api/v1/clusters/c1", cluster("c1", ""))
	s.must("PUT", "/api/v1/applications/a", application("a", "x=1", "w=1"))
	s.must("PUT", "/api/v1/applications/b", application("b", "z=1"))
	s.must("PUT", "/api/v1/placements/p", placement("p", "a, b", all))
	s.status("a")
	s.status("b")
	s.must("PUT", "/api/v1/applications/a", application("a", "w=1"))
	if code, text := s.call("PUT", "/api/v1/applications/b",
		application("b", "z=1", "w=2")); code != http.StatusUnprocessableEntity ||
		!strings.Contains(text, "also in the application a") {
		t.Errorf("%d %s", code, text)
	}
	s.status("a")
	s.must("PUT", "/api/v1/applications/b", application("b", "z=1", "x=2"))
	s.status("b")
	s.objects("c1", `x/x={"v":"2"}`, `x/w={"v":"1"}`, `x/z={"v":"1"}`)

	// While the previous application waits for its cluster, it still has the object.
	leave := s.agent("c2")
	s.must("PUT", "/api/v1/clusters/c2", cluster("c2", ""))
	s.status("a")
	s.status("b")
	s.objects("c2", `x/x={"v":"2"}`, `x/w={"v":"1"}`, `x/z={"v":"1"}`)
	leave()
	s.must("PUT", "/api/v1/applications/b", application("b", "z=1"))
	if code, text := s.call("PUT", "/api/v1/applications/a",
		application("a", "w=1", "x=3")); code != http.StatusUnprocessableEntity ||
		!strings.Contains(text, "remove it there first") {
		t.Errorf("%d %s", code, text)
	}
	s.stop()
	s.start() // the state survives the restart
	if code, text := s.call("PUT", "/api/v1/applications/a",
		application("a", "w=1", "x=3")); code != http.StatusUnprocessableEntity ||
		!strings.Contains(text, "remove it there first") {
		t.Errorf("%d %s", code, text)
	}
	s.agent("c2")
	s.status("b")
	s.must("PUT", "/api/v1/applications/a", application("a", "w=1", "x=3"))
	s.status("a")
	for _, name := range []string{"c1", "c2"} {
		s.objects(name, `x/x={"v":"3"}`, `x/w={"v":"1"}`, `x/z={"v":"1"}`)
		if problems := s.clusters[name].Problems(); len(problems) > 0 {
			t.Errorf("%v", problems)
		}
	}
}
