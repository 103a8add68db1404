// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// cleaned waits until the hub deletes unknown works.
func (s *site) cleaned() {
	s.t.Helper()
	for end := time.Now().Add(patience); !cleans("1").MatchString(s.must("GET", "/metrics", "")); time.Sleep(
		5 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatal("what the hub does not know is never deleted")
		}
	}
}

// deletes checks the objects that were deleted on a cluster.
func (s *site) deletes(cluster string, want ...string) {
	s.t.Helper()
	var got []string
	for _, call := range s.clusters[cluster].Calls() {
		if object, ok := strings.CutPrefix(call, "delete "); ok {
			got = append(got, object)
		}
	}
	if !slices.Equal(got, want) {
		s.t.Errorf("deleted on %s: %q, want %q", cluster, got, want)
	}
}

// TestLostWorks checks that a hub that lost its file of works writes them again. It deletes nothing
// before they are applied.
func TestLostWorks(t *testing.T) {
	s := newSite(t, "c1")
	leave := s.agent("c2")
	s.start()
	s.must("PUT", "/api/v1/applications/shop", application("shop", "a=1", "b=1"))
	s.must("PUT", "/api/v1/applications/other", application("other", "o=1"))
	s.place("shop, other", "c1", "c2")
	s.must("POST", "/api/v1/complete", "")
	leave()
	s.stop()
	if err := os.Remove(filepath.Join(s.options.Store, "works.db")); err != nil {
		t.Fatal(err)
	}
	s.start()
	s.logs(`missing objects, writing them again" application=shop revision=1`)
	s.becomes("shop", "OutOfSync Missing 1 1 of 2 clusters is Missing: c2: no agent of the cluster has ever connected; "+
		"waits for the agent of c2 to apply it")
	if !cleans("0").MatchString(s.must("GET", "/metrics", "")) {
		t.Error("what the hub does not know is deleted before all is applied")
	}
	s.agent("c2")
	for _, name := range []string{"shop", "other"} {
		if got := s.status(name); got != "Synced Healthy 1" {
			t.Errorf("%s: status %q", name, got)
		}
	}
	s.cleaned()
	s.must("PUT", "/api/v1/applications/shop", application("shop", "a=2"))
	if got := s.status("shop"); got != "Synced Healthy 2" {
		t.Errorf("status %q", got)
	}
	for _, name := range []string{"c1", "c2"} {
		s.objects(name, `x/a={"v":"2"}`, `x/o={"v":"1"}`)
		s.deletes(name, "ConfigMap x/b")
	}
}

// TestLostState checks that a hub that has works but lost their state reports and keeps them. A new
// document with their objects adopts them.
func TestLostState(t *testing.T) {
	s := newSite(t, "c1")
	s.start()
	s.lost = true
	s.must("PUT", "/api/v1/applications/shop", application("shop", "a=1", "b=1"))
	s.place("shop", "c1")
	if got := s.must("GET", "/api/v1/status", ""); !strings.Contains(got, `"unclaimed":[]`) {
		t.Error(got)
	}
	s.stop()
	if err := os.Remove(filepath.Join(s.options.Store, "state.db")); err != nil {
		t.Fatal(err)
	}
	s.start()
	s.logs("No application has the objects of 1 work: c1/main-")
	s.logs("(shop: ConfigMap x/a, ConfigMap x/b): state.db was lost or is outdated; the objects stay unchanged. Restore " +
		"state.db, or ")
	for path, want := range map[string]string{
		"/api/v1/status": `"application":"shop","objects":["ConfigMap x/a","ConfigMap x/b"]}]`,
		"/":              "No application has the objects of 1 work: c1/main-",
		"/metrics":       "\nspokewire_hub_works_unclaimed 1\n",
	} {
		if got := s.must("GET", path, ""); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	if got, want := s.must("GET", "/api/v1/status", ""),
		`{"name":"c1","sync":"Synced","health":"Unknown","reason":"the cluster has no document, `+
			`and no application has the objects of 1 work"`; !strings.Contains(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := s.now("shop", "1ms"), "OutOfSync Unknown  the application has no document, but works"; got != want {
		t.Errorf("status %q, want %q", got, want)
	}
	s.must("PUT", "/api/v1/applications/shop", application("shop", "a=2"))
	s.place("shop", "c1")
	s.objects("c1", `x/a={"v":"2"}`, `x/b={"v":"1"}`)
	if got, want := s.must("GET", "/api/v1/status", ""), `"objects":["ConfigMap x/b"]}]`; !strings.Contains(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
	for _, content := range [][]string{{"a=2", "b=2"}, {"a=2"}} {
		s.must("PUT", "/api/v1/applications/shop", application("shop", content...))
		s.status("shop")
		if got := s.must("GET", "/api/v1/status", ""); !strings.Contains(got, `"unclaimed":[]`) {
			t.Error(got)
		}
	}
	s.objects("c1", `x/a={"v":"2"}`)
	s.deletes("c1", "ConfigMap x/b")
}

// TestEmptyFiles checks that an empty file is an error: a full disk may have truncated it.
func TestEmptyFiles(t *testing.T) {
	for _, name := range []string{"state.db", "works.db"} {
		s := newSite(t)
		file := filepath.Join(s.options.Store, name)
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // the end of a hub that accepts the file
		err := start(ctx, s.options, s.transport)
		cancel()
		if err == nil || !strings.Contains(err.Error(), file) ||
			!strings.Contains(err.Error(), " by a full disk, or never written; restore it, or remove it") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOldWorks checks that a hub with an old file of works writes the missing works again.
func TestOldWorks(t *testing.T) {
	s := newSite(t, "c1")
	s.start()
	s.must("PUT", "/api/v1/applications/shop", application("shop", "a=1"))
	s.place("shop", "c1")
	s.stop()
	file := filepath.Join(s.options.Store, "works.db")
	old, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s.start()
	s.must("PUT", "/api/v1/applications/shop", application("shop", "a=2", "b=2"))
	if got := s.status("shop"); got != "Synced Healthy 2" {
		t.Errorf("status %q", got)
	}
	s.stop()
	if err := os.WriteFile(file, old, 0o600); err != nil {
		t.Fatal(err)
	}
	s.start()
	s.logs(`missing objects, writing them again" application=shop revision=2`)
	if got := s.status("shop"); got != "Synced Healthy 2" {
		t.Errorf("status %q", got)
	}
	s.objects("c1", `x/a={"v":"2"}`, `x/b={"v":"2"}`)
	s.stop()
	s.start() // nothing is missing
	if got := s.status("shop"); got != "Synced Healthy 2" {
		t.Errorf("status %q", got)
	}
	if said := s.said.String(); strings.Contains(said, "missing") || strings.Contains(said, "Started a rollout") {
		t.Error(said)
	}
}
