// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/kube"
)

// watches makes the api send changes in namespaces.
type watches struct {
	open   atomic.Int32
	events chan string // names of changed objects, in any namespace
}

func (s *watches) answer(w http.ResponseWriter, r *http.Request) bool {
	switch {
	case r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/configmaps"):
		return false
	case r.URL.Query().Get("watch") == "":
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"7"},"items":[]}`)
		return true
	}
	s.open.Add(1)
	defer s.open.Add(-1)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	for {
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
			return true
		case name := <-s.events:
			if name == "" {
				return true // servers end watches regularly
			}
			fmt.Fprintf(w, `{"type":"MODIFIED","object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":%q,"namespace":"shop"}}}`+"\n", name)
		}
	}
}

// TestWatchStatus: watches are open only while an object is not ready, and never more than
// MaxWatches. No content of a manifest is logged.
func TestWatchStatus(t *testing.T) {
	a := start(t, true)
	server := &watches{events: make(chan string)}
	a.respond(server.answer)
	config := a.config()
	config.Insecure = true
	c := open(t, kube.Cluster{Config: config}, kube.Options{MaxWatches: 2})
	watcher, ok := c.(connector.StatusWatcher)
	if !ok {
		t.Fatal("it watches nothing")
	}
	var log strings.Builder
	ctx, cancel := context.WithCancel(
		klog.NewContext(t.Context(), funcr.New(func(_, line string) { log.WriteString(line) }, funcr.Options{Verbosity: 10})))
	defer cancel()
	told, ended := make(chan struct{}, 100), make(chan error, 1)
	go func() { ended <- watcher.WatchStatus(ctx, func() { told <- struct{}{} }) }()
	expect := func(open int32) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); server.open.Load() != open; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d watches are open, want %d", server.open.Load(), open)
			}
		}
	}
	in := func(namespace string) connector.Batch {
		b := configMap("a")
		b.Resources[0].Namespace = namespace
		b.Resources[0].Manifest = []byte(strings.ReplaceAll(string(b.Resources[0].Manifest), "shop", namespace))
		return b
	}
	for i, namespace := range []string{"n1", "n2", "n3"} {
		if err := c.Apply(ctx, in(namespace)); err != nil {
			t.Fatal(err)
		}
		expect(int32(min(i+1, 2)))
	}
	next := func() {
		t.Helper()
		select {
		case <-told:
		case <-time.After(10 * time.Second):
			t.Fatal("nobody is told")
		}
	}
	next() // each watch notifies when it begins
	next()
	for len(told) > 0 {
		<-told
	}
	server.events <- "b" // no caller waits for it
	server.events <- "a"
	next()
	if len(told) > 0 {
		t.Error("a change of another object is told")
	}
	server.events <- "" // the watch begins again
	next()
	expect(2)
	for i, namespace := range []string{"n3", "n2", "n1"} {
		if states, err := c.Get(ctx, in(namespace)); err != nil || !states[0].Ready {
			t.Fatalf("%+v, %v", states, err)
		}
		expect(int32(2 - i))
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if strings.Contains(log.String(), "s3cr3t") {
		t.Error("the log has content of a manifest")
	}
}
