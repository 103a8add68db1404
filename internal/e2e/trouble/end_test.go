// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package trouble_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

// TestTrouble12End: in every state of the link when its context ends, a source and an agent leave
// no connection and no goroutine. It runs alone, because it counts goroutines.
func TestTrouble12End(t *testing.T) {
	tests := []struct {
		name string
		link func(s *scene, c *client)
		bye  bool // the broker receives a DISCONNECT
	}{
		{name: "connected", link: func(*scene, *client) {}, bye: true},
		{name: "broker away", link: func(s *scene, _ *client) { s.broker.Kill() }},
		{name: "link blocked", link: func(_ *scene, c *client) { c.leave() }},
		{name: "link silent", link: func(_ *scene, c *client) { c.proxy.Stall() }},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene(t, mosquitto.Options{})
			before := goleak.IgnoreCurrent()
			h := s.source(work.SourceOptions{})
			a := s.agent(work.AgentOptions{})
			factory := workinformers.NewSharedInformerFactory(a.Clientset(), 0)
			informer := factory.Work().V1().ManifestWorks().Informer()
			stop := make(chan struct{})
			factory.Start(stop)
			unread, err := h.works("").Watch(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			h.create("cluster1", "app", "1")
			eventually(t, "the work in the informer", func() string {
				return unless(len(informer.GetStore().ListKeys()) == 1, "not there")
			})
			tc.link(s, h.client)
			h.set("cluster1", "app", "2") // a message is queued
			h.stop()
			a.stop()
			close(stop)
			factory.Shutdown()
			readToEnd(t, unread) // it ends, although it was not stopped
			for _, c := range []*client{h.client, a.client} {
				c.proxy.Resume()
				eventually(t, "the end of the connection", func() string {
					return unless(c.proxy.Links() == 0, fmt.Sprint(c.proxy.Links()))
				})
			}
			eventually(t, "the end at the broker", func() string {
				log := s.broker.Log()
				return unless(!tc.bye || strings.Count(log, "disconnected.") == 2, log)
			})
			if h.Healthy() == nil || a.Healthy() == nil {
				t.Error("who has stopped is healthy")
			}
			if _, err := h.works("cluster1").Create(t.Context(), newWork("late", "1"),
				metav1.CreateOptions{}); !apierrors.IsServiceUnavailable(err) {
				t.Errorf("a write after the end: %v", err)
			}
			const accept = "github.com/spokewire/sdk-go/internal/testing/tcpproxy.(*Proxy).accept"
			goleak.VerifyNone(t, before, goleak.IgnoreTopFunction(accept), goleak.IgnoreAnyFunction(accept))
		})
	}
}

// TestTrouble12SlowWatcher: a watch that is not read gets an error and is closed. Meanwhile other
// watchers, writers and agents are not affected.
func TestTrouble12SlowWatcher(t *testing.T) {
	t.Parallel()
	const most = 16_384
	s := newScene(t, mosquitto.Options{})
	h := s.source(work.SourceOptions{WatchCacheBytes: 3 << 20}) // the limit of one watcher's queued events
	a := s.agent(work.AgentOptions{})
	a.apply()
	slow, err := h.works("").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Stop()
	quick := spyOn(t, h.works(""))
	obj := h.create("cluster1", "app", "0")
	for i := range most + 2000 { // some events are in transit
		if i%1000 == 999 {
			eventually(t, "the other watcher keeps up", func() string {
				got := len(quick.of("app"))
				return unless(got >= i-10, fmt.Sprint(got))
			})
		}
		// A change of finalizers notifies only watchers: no message is published.
		obj.Finalizers = []string{fmt.Sprintf("example.com/%d", i)}
		if obj, err = h.works("cluster1").Update(t.Context(), obj, metav1.UpdateOptions{}); apierrors.IsConflict(err) {
			obj, err = h.get("cluster1", "app"), nil // the agent has reported
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	h.set("cluster1", "app", "1")
	shows(t, "the source", h.works("cluster1"), "app=1/1")
	eventually(t, "everything at the other watcher", func() string {
		got := quick.of("app")
		return unless(len(got) >= most && got[len(got)-1].status == "1", fmt.Sprint(len(got)))
	})

	last, count := readToEnd(t, slow)
	status, ok := last.Object.(*metav1.Status)
	if !ok || last.Type != watch.Error || status.Code != http.StatusGone || count > 2000 {
		t.Errorf("after %d events the slow watch ended with %s %+v", count, last.Type, last.Object)
	}
	again := spyOn(t, h.works("")) // like an informer after an error
	eventually(t, "a new watch", func() string { return unless(len(again.of("app")) == 1, "nothing") })
	if got := again.of("app")[0]; got.kind != watch.Added || got.value != "1" {
		t.Errorf("a new watch begins with %v", got)
	}
}

// readToEnd returns the last event of a watch and the number of events.
func readToEnd(t *testing.T, w watch.Interface) (last watch.Event, count int) {
	t.Helper()
	late := time.After(patience)
	for {
		select {
		case e, ok := <-w.ResultChan():
			if !ok {
				return last, count
			}
			last = e
			count++
		case <-late:
			t.Fatalf("the watch has not ended in %v; %d events, the last %s", patience, count, last.Type)
		}
	}
}
