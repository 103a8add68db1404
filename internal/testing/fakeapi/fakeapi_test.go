// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package fakeapi_test

import (
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"

	"github.com/spokewire/sdk-go/internal/testing/fakeapi"
)

// TestWatchWithClientGo checks the fake with client-go, which expects the behaviour of a real
// server.
func TestWatchWithClientGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fakeapi.New()
		defer s.Close()
		s.Put(fakeapi.Object(fakeapi.Secret, "ns", "a", "app", "x"))
		client := metadata.NewForConfigOrDie(s.Config()).Resource(
			fakeapi.Secret.GroupVersion().WithResource("secrets")).Namespace("ns")
		list, err := client.List(t.Context(), metav1.ListOptions{LabelSelector: "app=x"})
		if err != nil || len(list.Items) != 1 || list.Items[0].Name != "a" || list.ResourceVersion != s.Version() {
			t.Fatalf("the list is %v, %v", list, err)
		}
		w, err := client.Watch(t.Context(), metav1.ListOptions{LabelSelector: "app=x", ResourceVersion: list.ResourceVersion})
		if err != nil {
			t.Fatal(err)
		}
		s.Put(fakeapi.Object(fakeapi.Secret, "ns", "a", "app", "x", "n", "1"))
		s.Put(fakeapi.Object(fakeapi.Secret, "ns", "a", "app", "y"))
		s.Put(fakeapi.Object(fakeapi.Secret, "other", "a", "app", "x"))
		s.Put(fakeapi.Object(fakeapi.Secret, "ns", "b", "app", "x"))
		s.Delete(fakeapi.Secret, "ns", "b")
		for _, want := range []watch.EventType{watch.Modified, watch.Deleted, watch.Added, watch.Deleted} {
			if e := <-w.ResultChan(); e.Type != want {
				t.Fatalf("an event is %v, not %v", e, want)
			}
		}
		w.Stop()
		s.Disconnect()
		synctest.Wait()
		if c := s.Counts(); c.Watches != 1 || c.Streams != 0 || c.Lists != 1 {
			t.Fatalf("the counts are %+v", c)
		}
	})
}
