// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
)

// TestMemoryOfRemovedWorksIsFreed: 10,000 works of 10 KiB are created, reported on and removed. Six
// minutes later only the agent's tombstones remain in memory, although no event occurs meanwhile.
func TestMemoryOfRemovedWorksIsFreed(t *testing.T) {
	inScene(t, func(s *scene) {
		h, a := s.source(work.SourceOptions{}), s.agent(work.AgentOptions{Sources: []string{"hub"}})
		h.complete()
		s.settle()
		h.create("cluster1", newWork("app", "1"))
		s.settle()
		before, _ := liveMemory()
		const works = 10_000
		value := strings.Repeat("v", 10<<10)
		for i := range works {
			h.create("cluster1", newWork(fmt.Sprint("w", i), value))
		}
		s.settle()
		for i := range works {
			a.report(fmt.Sprint("w", i), "done")
		}
		s.settle()
		for i := range works {
			h.delete("cluster1", fmt.Sprint("w", i))
		}
		s.settle()
		if n := len(h.list("cluster1").Items) + len(a.names()); n != 2 {
			t.Fatalf("%d works are left", n)
		}
		time.Sleep(6 * time.Minute)
		after, _ := liveMemory()
		runtime.KeepAlive(h)
		runtime.KeepAlive(a)
		if left := after - before; left > 1500*works && !raceDetector {
			t.Errorf("%d bytes are left of each work, want 1500 at most", left/works)
		}
	})
}

// TestListsByNameDoNotDelayWrites: a client lists by name in a loop, in a namespace with 100,000
// works. It does not delay writes more than a client that lists from another source.
func TestListsByNameDoNotDelayWrites(t *testing.T) {
	works := 100_000
	if raceDetector {
		works = 1000 // it does not measure
	}
	source, elsewhere := sourceWith(t, works), sourceWith(t, 100)
	var calm, busy time.Duration
	for range 3 { // other programs use the machine
		calm, busy = writesWhileListing(t, source, elsewhere), writesWhileListing(t, source, source)
		if busy <= max(5*time.Millisecond, 3*calm) || raceDetector {
			return
		}
	}
	t.Errorf("at p99 writes take %v, want 5 ms at most; without lists %v", busy, calm)
}

// sourceWith returns a source that is not started, with works in one namespace.
func sourceWith(t *testing.T, works int) *work.Source {
	t.Helper()
	source, err := work.NewSource(memory.New().Transport(),
		work.SourceOptions{SourceID: "hub", Outbox: work.Outbox(2 * works)})
	if err != nil {
		t.Fatal(err)
	}
	in := source.Clientset().WorkV1().ManifestWorks("cluster1")
	for i := range works {
		if _, err := in.Create(t.Context(), newWork(fmt.Sprint("w", i), "1"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return source
}

// writesWhileListing returns the p99 duration of writes, one each millisecond, while a client lists
// by name.
func writesWhileListing(t *testing.T, source, listed *work.Source) time.Duration {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	listing := make(chan struct{})
	go func() {
		defer close(listing)
		listByName(ctx, t, listed)
	}()
	pace := time.NewTicker(time.Millisecond)
	defer pace.Stop()
	in := source.Clientset().WorkV1().ManifestWorks("cluster1")
	var took []time.Duration
	for i := range 1000 {
		obj, err := in.Get(ctx, fmt.Sprint("w", i), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		obj.Spec = newWork(obj.Name, fmt.Sprint(time.Now())).Spec
		<-pace.C
		began := time.Now()
		if _, err := in.Update(ctx, obj, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	cancel()
	<-listing
	slices.Sort(took)
	return took[len(took)*99/100]
}

// listByName lists one work in all ways until ctx ends.
func listByName(ctx context.Context, t *testing.T, source *work.Source) {
	for i := 0; ctx.Err() == nil; i++ {
		namespace, o := "cluster1", metav1.ListOptions{FieldSelector: "metadata.name=w77", Limit: int64(i % 2 * 500)}
		if i%3 == 0 {
			namespace, o.FieldSelector = "", o.FieldSelector+",metadata.namespace=cluster1"
		}
		list, err := source.Clientset().WorkV1().ManifestWorks(namespace).List(ctx, o)
		if ctx.Err() == nil && (err != nil || len(list.Items) != 1) {
			t.Errorf("%+v: %v", o, err)
			return
		}
	}
}
