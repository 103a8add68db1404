// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
)

var (
	firstSeed = flag.Uint64("work.seed", 1, "the first seed of TestConvergence")
	seeds     = flag.Uint64("work.seeds", 150, "how many seeds TestConvergence runs")
)

// TestConvergence runs random operations on two sources and two clusters over a broker that loses, repeats and
// delays, with processes that restart without a store. After a last reconnect every agent must have exactly
// the works of the sources, and every source the last status of each.
func TestConvergence(t *testing.T) {
	for seed := *firstSeed; seed < *firstSeed+*seeds; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, seed)
				for range 60 {
					f.step()
				}
				f.judge()
			})
		})
	}
}

var (
	sourceIDs = []string{"hub-a", "hub-b"}
	clusters  = []string{"cluster1", "cluster2"}
)

// fleet is two hubs and two spokes with what their users want.
type fleet struct {
	*scene
	random *rand.Rand
	hubs   map[string]*hub
	spokes map[string]*spoke
	// wanted is the value of each work by source, cluster and name.
	wanted map[string]map[string]map[string]string
	value  int

	mu      sync.Mutex // guards faults and its random numbers, used from the bus
	faults  bool
	lottery *rand.Rand
}

func newFleet(t *testing.T, seed uint64) *fleet {
	f := &fleet{
		scene:   &scene{t: t, bus: memory.New()},
		random:  rand.New(rand.NewPCG(seed, 1)),
		lottery: rand.New(rand.NewPCG(seed, 2)),
		hubs:    map[string]*hub{}, spokes: map[string]*spoke{},
		wanted: map[string]map[string]map[string]string{},
	}
	f.bus.Intercept(f.intercept)
	for _, id := range sourceIDs {
		f.wanted[id] = map[string]map[string]string{}
		for _, cluster := range clusters {
			f.wanted[id][cluster] = map[string]string{}
		}
		f.hubs[id] = f.source(work.SourceOptions{SourceID: id})
	}
	for _, cluster := range clusters {
		f.spokes[cluster] = f.agent(work.AgentOptions{ClusterName: cluster})
	}
	return f
}

// intercept loses one message in ten, repeats one and delays one, while faults are on.
func (f *fleet) intercept(m cloudevents.Message, deliver func(cloudevents.Message)) {
	f.mu.Lock()
	lot := -1
	if f.faults {
		lot = f.lottery.IntN(10)
	}
	f.mu.Unlock()
	switch lot {
	case 0:
	case 1:
		deliver(m)
		deliver(m)
	case 2:
		go func() {
			time.Sleep(150 * time.Millisecond)
			deliver(m)
		}()
	default:
		deliver(m)
	}
}

func (f *fleet) setFaults(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = on
}

func (f *fleet) step() {
	id, cluster := sourceIDs[f.random.IntN(2)], clusters[f.random.IntN(2)]
	switch n := f.random.IntN(100); {
	case n < 45:
		f.change(id, cluster, fmt.Sprintf("%s-w%d", id, f.random.IntN(3)))
	case n < 75:
		f.serve(cluster)
	case n < 80:
		f.setFaults(f.random.IntN(2) == 0)
	case n < 84:
		f.bus.Disconnect()
		f.pause()
		f.bus.Reconnect()
	case n < 88:
		f.spokes[cluster].kill()
		f.pause()
		f.spokes[cluster] = f.agent(work.AgentOptions{ClusterName: cluster})
	case n < 92:
		f.restart(id)
	default:
		f.pause()
	}
}

func (f *fleet) pause() {
	time.Sleep(time.Duration(f.random.IntN(800)) * time.Millisecond)
	synctest.Wait()
}

// change creates, updates or deletes a work.
func (f *fleet) change(id, cluster, name string) {
	works := f.hubs[id].works(cluster)
	current, err := works.Get(f.t.Context(), name, metav1.GetOptions{})
	f.value++
	value := fmt.Sprint(f.value)
	switch {
	case err != nil:
		if _, err := works.Create(f.t.Context(), newWork(name, value), metav1.CreateOptions{}); err != nil {
			f.t.Fatal(err)
		}
		f.wanted[id][cluster][name] = value
	case current.DeletionTimestamp != nil:
	case f.random.IntN(3) == 0:
		f.hubs[id].delete(cluster, name)
		delete(f.wanted[id][cluster], name)
	default:
		f.hubs[id].setValue(cluster, name, value)
		f.wanted[id][cluster][name] = value
	}
}

// serve does what a work controller does on a cluster: hold, apply, report, clean up.
func (f *fleet) serve(cluster string) {
	a := f.spokes[cluster]
	list, err := a.works().List(f.t.Context(), metav1.ListOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	for i := range list.Items {
		w := &list.Items[i]
		if w.DeletionTimestamp != nil {
			a.setFinalizers(w.Name)
			continue
		}
		if len(w.Finalizers) == 0 {
			a.setFinalizers(w.Name, workv1.ManifestWorkFinalizer)
		}
		if want := valueOf(f.t, w); applied(w) != want {
			a.report(w.Name, want)
		}
	}
}

// restart replaces a source process by one that has nothing, whose owner creates its works anew.
func (f *fleet) restart(id string) {
	f.hubs[id].kill()
	f.pause()
	f.hubs[id] = f.source(work.SourceOptions{SourceID: id})
	for cluster, works := range f.wanted[id] {
		for name, value := range works {
			f.hubs[id].create(cluster, newWork(name, value))
		}
	}
	if f.random.IntN(4) > 0 {
		f.complete(id)
	}
}

func (f *fleet) complete(id string) {
	if err := f.hubs[id].InventoryComplete(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

// judge ends the trouble, lets everybody do their work, and compares.
func (f *fleet) judge() {
	f.setFaults(false)
	for _, id := range sourceIDs {
		f.complete(id)
	}
	f.bus.Disconnect()
	f.settle()
	f.bus.Reconnect()
	for range 8 {
		f.settle()
		for _, cluster := range clusters {
			f.serve(cluster)
		}
	}
	f.settle()
	for _, cluster := range clusters {
		want, got := map[string]string{}, map[string]string{}
		for _, id := range sourceIDs {
			for name, value := range f.wanted[id][cluster] {
				want[name] = value
			}
		}
		list, err := f.spokes[cluster].works().List(f.t.Context(), metav1.ListOptions{})
		if err != nil {
			f.t.Fatal(err)
		}
		for i := range list.Items {
			got[list.Items[i].Name] = valueOf(f.t, &list.Items[i])
		}
		if diff := cmp.Diff(want, got); diff != "" {
			f.t.Errorf("%s has other works than its sources (-want +got):\n%s", cluster, diff)
		}
		for _, id := range sourceIDs {
			f.judgeStatuses(id, cluster)
		}
	}
}

// judgeStatuses: the hub shows what the spoke reported last, for exactly the works that exist.
func (f *fleet) judgeStatuses(id, cluster string) {
	list, err := f.hubs[id].works(cluster).List(f.t.Context(), metav1.ListOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	got := map[string]string{}
	for i := range list.Items {
		got[list.Items[i].Name] = applied(&list.Items[i])
	}
	if diff := cmp.Diff(f.wanted[id][cluster], got); diff != "" {
		f.t.Errorf("%s sees other statuses of %s than the values applied (-want +got):\n%s", id, cluster, diff)
	}
}
