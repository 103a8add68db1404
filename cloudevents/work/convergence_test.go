// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
)

var (
	firstSeed = flag.Uint64("work.seed", 1, "the first seed of TestConvergence and TestStrictConvergence")
	seeds     = flag.Uint64("work.seeds", 150, "how many seeds TestConvergence runs; TestStrictConvergence runs a third")
)

// TestConvergence runs random operations on two sources and two clusters over a broker that loses, repeats and
// delays, with processes that restart without a store and whatever else the seed's options say. After a last
// reconnect every agent must have exactly the works of the sources, every source the last status of each, and
// every watch must have told all that.
func TestConvergence(t *testing.T) {
	for seed := *firstSeed; seed < *firstSeed+*seeds; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, seed, codec.ManifestWork)
				for range 100 {
					f.step()
				}
				f.judge()
			})
		})
	}
}

// hostility is what a seed has beside lost and repeated messages, changes and restarts.
type hostility struct {
	Cuts   bool // single processes lose their connections, for a while
	Delays bool // messages come up to fifteen seconds late, and some come twice
	Labels bool // some changes are of labels only
	Slow   bool // work controllers skip works, and hold them when they are deleted
	Named  bool // the agent of the first cluster names its sources
	Forget bool // hubs give up on clusters that come back
	Clocks bool // wall clocks are set, up to an hour off
	Stores bool // some processes have a store
}

// hostilityOf gives even seeds wrong clocks and each seed most of the rest.
func hostilityOf(seed uint64) hostility {
	random := rand.New(rand.NewPCG(seed, 3))
	often := func() bool { return random.IntN(4) > 0 }
	return hostility{
		Cuts: often(), Delays: often(), Labels: often(), Slow: often(), Named: often(), Forget: often(),
		Clocks: seed%2 == 0,
		Stores: true,
	}
}

var (
	sourceIDs = []string{"hub-a", "hub-b"}
	clusters  = []string{"cluster1", "cluster2"}
)

// wish is what a hub's user wants of a work, and what shows of it.
type wish struct{ Value, Label string }

// fleet is two hubs and two spokes with what their users want. Links and clocks are by source ID and cluster.
type fleet struct {
	*scene
	profile   codec.Profile
	hostility hostility
	random    *rand.Rand
	hubs      map[string]*hub
	spokes    map[string]*spoke
	links     map[string]*link
	clocks    map[string]*steppedClock
	followers map[string]*follower
	stores    map[string]*work.MemoryStore
	// wanted is by source, cluster and name.
	wanted map[string]map[string]map[string]wish
	value  int

	mu      sync.Mutex // guards faults and its random numbers, used from the bus
	faults  bool
	lottery *rand.Rand
}

func newFleet(t *testing.T, seed uint64, profile codec.Profile) *fleet {
	f := &fleet{
		profile:   profile,
		scene:     &scene{t: t, bus: memory.New()},
		hostility: hostilityOf(seed),
		random:    rand.New(rand.NewPCG(seed, 1)),
		lottery:   rand.New(rand.NewPCG(seed, 2)),
		hubs:      map[string]*hub{}, spokes: map[string]*spoke{},
		links: map[string]*link{}, clocks: map[string]*steppedClock{}, followers: map[string]*follower{},
		stores: map[string]*work.MemoryStore{},
		wanted: map[string]map[string]map[string]wish{},
	}
	if profile.Traits().Strict { // a clock that steps back is told from nothing without incarnations
		f.hostility.Clocks = false
	}
	t.Logf("%+v", f.hostility)
	f.bus.Intercept(f.intercept)
	for _, who := range append(append([]string{}, sourceIDs...), clusters...) {
		if f.hostility.Stores && f.random.IntN(3) > 0 {
			f.stores[who] = work.NewMemoryStore()
		}
	}
	for _, id := range sourceIDs {
		f.clocks[id] = &steppedClock{}
		f.wanted[id] = map[string]map[string]wish{}
		for _, cluster := range clusters {
			f.wanted[id][cluster] = map[string]wish{}
		}
		f.startHub(id)
	}
	for _, cluster := range clusters {
		f.clocks[cluster] = &steppedClock{}
		f.startSpoke(cluster)
	}
	return f
}

func (f *fleet) startHub(id string) {
	f.links[id] = &link{Transport: f.bus.Transport()}
	options := work.SourceOptions{SourceID: id, Profile: f.profile, Clock: f.clocks[id]}
	if s := f.stores[id]; s != nil {
		options.Store = s
	}
	f.hubs[id] = f.sourceOn(f.links[id], options)
	f.followers[id] = f.follow(id, f.hubs[id].works("").Watch)
}

func (f *fleet) startSpoke(cluster string) {
	f.links[cluster] = &link{Transport: f.bus.Transport()}
	options := work.AgentOptions{ClusterName: cluster, Profile: f.profile, Clock: f.clocks[cluster]}
	if f.hostility.Named && cluster == clusters[0] {
		options.Sources = sourceIDs
	}
	if s := f.stores[cluster]; s != nil {
		options.Store = s
	}
	f.spokes[cluster] = f.agentOn(f.links[cluster], options)
	f.followers[cluster] = f.follow(cluster, f.spokes[cluster].works().Watch)
}

// follower is a watch's client that checks the order of events and builds up what there is.
type follower struct {
	mu      sync.Mutex
	have    map[string]string // resourceVersion by namespace and name
	highest uint64
}

func (f *fleet) follow(who string, start func(context.Context, metav1.ListOptions) (watch.Interface, error)) *follower {
	return followWatch(f.t.Context(), f.t, who, start)
}

func followWatch(ctx context.Context, t *testing.T, who string, start func(context.Context, metav1.ListOptions) (watch.Interface, error)) *follower {
	w, err := start(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c := &follower{have: map[string]string{}}
	go func() {
		for e := range w.ResultChan() {
			obj, ok := e.Object.(*workv1.ManifestWork)
			if !ok {
				t.Errorf("the watch of %s got %v", who, e)
				continue
			}
			if err := c.take(e.Type, obj); err != nil {
				t.Errorf("the watch of %s: %v", who, err)
			}
		}
	}()
	return c
}

func (c *follower) take(kind watch.EventType, obj *workv1.ManifestWork) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	version, err := strconv.ParseUint(obj.ResourceVersion, 10, 64)
	if err != nil {
		return err
	}
	key := obj.Namespace + "/" + obj.Name
	_, had := c.have[key]
	switch {
	case kind != watch.Added && version <= c.highest:
		return fmt.Errorf("%s of %s has version %d after %d", kind, key, version, c.highest)
	case (kind == watch.Added) == had:
		return fmt.Errorf("%s of %s, there before: %t", kind, key, had)
	}
	c.highest = max(c.highest, version)
	c.have[key] = obj.ResourceVersion
	if kind == watch.Deleted {
		delete(c.have, key)
	}
	return nil
}

// intercept loses some messages, repeats some and delays some, while faults are on.
func (f *fleet) intercept(m cloudevents.Message, deliver func(cloudevents.Message)) {
	f.mu.Lock()
	lot, delay := -1, 150*time.Millisecond
	if f.faults {
		lot = f.lottery.IntN(10)
		if f.hostility.Delays {
			delay = time.Duration(f.lottery.IntN(1500)) * time.Millisecond
			if f.lottery.IntN(20) == 0 {
				delay *= 10
			}
		}
	}
	f.mu.Unlock()
	late := func() {
		time.Sleep(delay)
		deliver(m)
	}
	switch {
	case lot == 0:
	case lot == 1:
		deliver(m)
		deliver(m)
	case lot == 2, lot == 3 && f.hostility.Delays:
		go late()
	case lot == 4 && f.hostility.Delays:
		deliver(m)
		go late()
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
	who := []string{id, cluster}[f.random.IntN(2)]
	switch n := f.random.IntN(100); {
	case n < 45:
		f.change(id, cluster, fmt.Sprintf("%s-w%d", id, f.random.IntN(4)))
	case n < 62:
		f.serve(cluster, f.hostility.Slow)
	case n < 67:
		f.setFaults(f.random.IntN(3) > 0)
	case n < 70:
		f.bus.Disconnect()
		f.pause()
		f.bus.Reconnect()
	case n < 80 && f.hostility.Cuts:
		f.links[who].setCut(f.random.IntN(2) == 0)
	case n < 85:
		f.spokes[cluster].kill()
		f.pause()
		f.setClock(cluster) // as machines that start do
		f.startSpoke(cluster)
	case n < 89:
		f.restart(id)
	case n < 92 && f.hostility.Clocks:
		f.setClock(who)
	case n < 93 && f.hostility.Forget:
		if err := f.hubs[id].Forget(f.t.Context(), cluster); err != nil {
			f.t.Error(err)
		}
	default:
		f.pause()
	}
}

func (f *fleet) setClock(who string) {
	if f.hostility.Clocks {
		f.clocks[who].set(time.Duration(f.random.IntN(7200)-3600) * time.Second)
	}
}

func (f *fleet) pause() {
	time.Sleep(time.Duration(f.random.IntN(800)) * time.Millisecond)
	synctest.Wait()
}

// change creates, updates or deletes a work.
func (f *fleet) change(id, cluster, name string) {
	h, wanted := f.hubs[id], f.wanted[id][cluster]
	current, err := h.works(cluster).Get(f.t.Context(), name, metav1.GetOptions{})
	f.value++
	value := fmt.Sprint(f.value)
	switch {
	case err != nil:
		wanted[name] = wish{value, value}
		h.create(cluster, wanted[name].work(name))
	case current.DeletionTimestamp != nil:
	case f.random.IntN(3) == 0:
		h.delete(cluster, name)
		delete(wanted, name)
	case f.hostility.Labels && f.random.IntN(3) == 0:
		patch := fmt.Sprintf(`{"metadata":{"labels":{"label":%q}}}`, value)
		if _, err := h.works(cluster).Patch(f.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			f.t.Fatal(err)
		}
		wanted[name] = wish{wanted[name].Value, value}
	default:
		h.setValue(cluster, name, value)
		wanted[name] = wish{value, wanted[name].Label}
	}
}

func (w wish) work(name string) *workv1.ManifestWork {
	obj := newWork(name, w.Value)
	obj.Labels = map[string]string{"label": w.Label}
	return obj
}

// serve does what a work controller does on a cluster: hold, apply, report, clean up. One that is slow does a
// part of that.
func (f *fleet) serve(cluster string, slow bool) {
	a := f.spokes[cluster]
	ctx, cancel := context.WithTimeout(f.t.Context(), 3*time.Second)
	defer cancel()
	list, err := a.works().List(ctx, metav1.ListOptions{})
	if err != nil {
		return // its initial sync has not ended
	}
	lazy := func() bool { return slow && f.random.IntN(2) == 0 }
	for i := range list.Items {
		w := &list.Items[i]
		if w.DeletionTimestamp != nil {
			if !lazy() {
				a.setFinalizers(w.Name)
			}
			continue
		}
		if len(w.Finalizers) == 0 && !lazy() {
			a.setFinalizers(w.Name, workv1.ManifestWorkFinalizer)
		}
		if want := valueOf(f.t, w); applied(w) != want && !lazy() {
			a.report(w.Name, want)
		}
	}
}

// restart replaces a source process by one that has nothing, whose owner creates its works anew.
func (f *fleet) restart(id string) {
	f.hubs[id].kill()
	if f.profile.Traits().Strict {
		time.Sleep(time.Second) // works of the next process have another time of creation, which is all that tells
	}
	f.pause()
	f.startHub(id)
	if f.stores[id] != nil {
		f.judgeStore(id)
		return
	}
	for _, cluster := range slices.Sorted(maps.Keys(f.wanted[id])) {
		works := f.wanted[id][cluster]
		for _, name := range slices.Sorted(maps.Keys(works)) {
			f.hubs[id].create(cluster, works[name].work(name))
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

// calm ends the trouble and waits for what is still under way and for connections.
func (f *fleet) calm() {
	f.setFaults(false)
	time.Sleep(20 * time.Second)
	for _, l := range f.links {
		l.setCut(false)
	}
	for _, id := range sourceIDs {
		f.complete(id)
	}
	time.Sleep(15 * time.Second)
}

// judge ends the trouble, lets everybody do their work, and compares.
func (f *fleet) judge() {
	f.calm()
	f.reconnect()
	time.Sleep(15 * time.Second)
	for range 8 {
		f.settle()
		for _, cluster := range clusters {
			f.serve(cluster, false)
		}
	}
	f.settle()
	for who := range f.stores {
		f.judgeStore(who)
	}
	for _, cluster := range clusters {
		want, got := map[string]wish{}, map[string]wish{}
		for _, id := range sourceIDs {
			maps.Copy(want, f.wanted[id][cluster])
		}
		for _, w := range f.judgeWatch(cluster, f.spokes[cluster].works().List) {
			got[w.Name] = wish{valueOf(f.t, w), w.Labels["label"]}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			f.t.Errorf("%s has other works than its sources (-want +got):\n%s", cluster, diff)
		}
	}
	for _, id := range sourceIDs {
		got := map[string]map[string]wish{}
		for _, cluster := range slices.Sorted(maps.Keys(f.wanted[id])) {
			got[cluster] = map[string]wish{}
		}
		for _, w := range f.judgeWatch(id, f.hubs[id].works("").List) {
			got[w.Namespace][w.Name] = wish{applied(w), w.Labels["label"]}
		}
		if diff := cmp.Diff(f.wanted[id], got); diff != "" {
			f.t.Errorf("%s sees other statuses than the values applied (-want +got):\n%s", id, diff)
		}
	}
}

// judgeWatch compares what a process lists with what its watch has told, and returns the list.
func (f *fleet) judgeWatch(who string, list func(context.Context, metav1.ListOptions) (*workv1.ManifestWorkList, error)) []*workv1.ManifestWork {
	works, err := list(f.t.Context(), metav1.ListOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	var out []*workv1.ManifestWork
	versions := map[string]string{}
	for i := range works.Items {
		w := &works.Items[i]
		out = append(out, w)
		versions[w.Namespace+"/"+w.Name] = w.ResourceVersion
	}
	c := f.followers[who]
	c.mu.Lock()
	defer c.mu.Unlock()
	if diff := cmp.Diff(versions, c.have); diff != "" {
		f.t.Errorf("the watch of %s told other versions than there are (-listed +told):\n%s", who, diff)
	}
	return out
}

// judgeStore compares a store's content with what its owner knows.
func (f *fleet) judgeStore(who string) {
	f.t.Helper()
	synctest.Wait()
	var want map[string]string
	if h := f.hubs[who]; h != nil {
		want = h.KeptRecords()
	} else {
		want = f.spokes[who].KeptRecords()
	}
	got := map[string]string{}
	if err := f.stores[who].Load(f.t.Context(), func(key string, value []byte) error {
		got[key] = string(value)
		return nil
	}); err != nil {
		f.t.Fatal(err)
	}
	comparable := func(records map[string]string) map[string]map[string]any {
		out := map[string]map[string]any{}
		for key, value := range records {
			fields := map[string]any{}
			if err := json.Unmarshal([]byte(value), &fields); err != nil {
				f.t.Fatal(err)
			}
			delete(fields, "statusHash") // may be made when it is needed
			if key == "meta" {
				delete(fields, "resourceVersion") // begins with the time
			}
			out[key] = fields
		}
		return out
	}
	if diff := cmp.Diff(comparable(want), comparable(got)); diff != "" {
		f.t.Errorf("the store of %s (-known +stored):\n%s", who, diff)
	}
}
