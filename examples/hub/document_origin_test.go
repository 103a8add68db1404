// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"
)

// startRefuses starts the hub, which must end with an error that contains the texts.
func (s *site) startRefuses(texts ...string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Second) // the end of a hub that does start
	defer cancel()
	err := start((&lines{url: make(chan string, 1)}).log(ctx), s.options, s.transport)
	for _, text := range texts {
		if err == nil || !strings.Contains(err.Error(), text) {
			s.t.Errorf("%v, want %q", err, text)
		}
	}
}

// TestStartWithoutPreviousFolder checks that a hub does not start without its folder if that would delete works,
// unless --leave-dir is set.
func TestStartWithoutPreviousFolder(t *testing.T) {
	s := newSite(t, "c1")
	dir := t.TempDir()
	s.options.Dir = dir
	documents := cluster("c1", "") + "---\n" + placement("p", "shop, other", all) + "---\n" + application("shop", "a=1") +
		"---\n"
	s.write("all.yaml", documents+application("other", "b=1"))
	s.start()
	s.status("shop")
	s.status("other")
	want := []string{`x/a={"v":"1"}`, `x/b={"v":"1"}`}
	s.objects("c1", want...)
	s.stop()
	s.options.Dir = ""
	s.startRefuses("other on c1, shop on c1", "until now documents came from a folder", "--dir again", "--leave-dir")
	s.objects("c1", want...)

	// With the folder the hub continues as before.
	s.options.Dir = dir
	s.start()
	if got := s.status("shop"); got != "Synced Healthy 1" {
		t.Errorf("status %q", got)
	}
	s.stop()

	s.options.Dir, s.options.LeaveDir = "", true
	s.start()
	s.logs(`until they have documents and placements" applications="other, shop"`)
	if code, text := s.call("POST", "/api/v1/complete", ""); code != http.StatusConflict ||
		!strings.Contains(text, "no documents") {
		t.Errorf("%d %s", code, text)
	}
	s.must("PUT", "/api/v1/clusters/c1", cluster("c1", ""))
	s.stop()
	s.options.LeaveDir = false
	s.start() // --leave-dir is needed only once
	s.logs(`until they have documents and placements" applications="other, shop"`)
	s.must("PUT", "/api/v1/applications/shop", application("shop", "a=2"))
	s.place("shop", "c1")
	s.objects("c1", `x/a={"v":"2"}`, `x/b={"v":"1"}`)
	s.must("PUT", "/api/v1/applications/more", application("more", "d=2"))
	if code, text := s.call("PUT", "/api/v1/applications/more", application("more", "b=2")); code != http.StatusOK {
		t.Errorf("%d %s", code, text)
	}
	if code, text := s.call("PUT", "/api/v1/placements/q",
		placement("q", "more", all)); code != http.StatusUnprocessableEntity ||
		!strings.Contains(text, "ConfigMap x/b is in the application other") {
		t.Errorf("%d %s", code, text)
	}
	s.deletes("c1")
	s.must("POST", "/api/v1/complete", "")
	s.objects("c1", `x/a={"v":"2"}`)
	s.stop()
	s.start()
	if said := s.said.String(); s.status("shop") != "Synced Healthy 2" || strings.Contains(said, "complete") {
		t.Errorf("%s", said)
	}
}

// TestStartWithNewFolder checks that a hub with documents of the API does not start with a folder if that would
// delete works.
func TestStartWithNewFolder(t *testing.T) {
	s := newSite(t, "c1", "c2")
	s.start()
	s.must("PUT", "/api/v1/applications/shop", application("shop", "a=1"))
	s.must("PUT", "/api/v1/applications/other", application("other", "b=1"))
	s.place("shop, other", "c1", "c2")
	s.stop()
	s.options.Dir = t.TempDir()
	s.write("all.yaml", cluster("c3", ""))
	s.startRefuses("would remove other on c1, c2, shop on c1, c2: until now documents came through the HTTP API",
		"Start without --dir", s.options.Dir)
	documents := cluster("c1", "") + "---\n" + cluster("c2", "") + "---\n" + application("shop", "a=1") + "---\n" +
		application("other", "b=2") + "---\n"
	s.write("all.yaml", documents+placement("p", "shop, other", "names: [c1]"))
	s.startRefuses("would remove other on c2, shop on c2: ")
	s.write("all.yaml", documents+placement("p", "shop, other", all))
	s.start()
	for _, name := range []string{"c1", "c2"} {
		s.objects(name, `x/a={"v":"1"}`, `x/b={"v":"2"}`)
		s.deletes(name)
	}
	s.status("other")
	s.stop()
	s.write("all.yaml", documents+placement("p", "shop", all)) // a change of the same folder is allowed
	s.start()
	s.objects("c1", `x/a={"v":"1"}`)
	s.stop()
	s.options.Dir = ""
	s.startRefuses("shop on c1, c2") // the documents of the API are not restored
}
