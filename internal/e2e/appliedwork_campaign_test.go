// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// The campaigns run works next to rival writers. The processes of the works die, or lose a response,
// at any request of apply, prune and teardown. The audit log of the API server must show that no
// object is leaked, and that no foreign object is deleted.
//
//	go test ./internal/e2e -run AppliedWork/Campaign -appliedwork.seeds 1000
//	go test ./internal/e2e -run AppliedWork/Campaign -appliedwork.seed 17     repeats one run
var (
	appliedWorkSeed = flag.Uint64("appliedwork.seed", 0,
		"the first seed of the campaigns: the only one, unless -appliedwork.seeds is set")
	appliedWorkFor = flag.Duration("appliedwork.for", 0,
		"how long a campaign begins new runs, until all seeds have run by default")
	appliedWorkSeeds = flag.Uint64("appliedwork.seeds", 0, "how many seeds a campaign runs, 25 by default")
)

// campaignWorkers is the number of concurrent runs.
const campaignWorkers = 8

// eachSeed calls run with the seeds of the flags, and returns their number.
func eachSeed(t *testing.T, run func(seed uint64, worker int)) uint64 {
	first, n := max(*appliedWorkSeed, 1), *appliedWorkSeeds
	switch {
	case n == 0 && *appliedWorkSeed != 0:
		n = 1
	case n == 0:
		n = 25
	}
	began := time.Now()
	var next, done atomic.Uint64
	next.Store(first)
	var workers sync.WaitGroup
	for worker := range campaignWorkers {
		workers.Go(func() {
			for !t.Failed() && (*appliedWorkFor == 0 || time.Since(began) < *appliedWorkFor) {
				seed := next.Add(1) - 1
				if seed >= first+n {
					break
				}
				run(seed, worker)
				if done := done.Add(1); done%100 == 0 {
					t.Logf("%d seeds in %.0f s", done, time.Since(began).Seconds())
				}
			}
		})
	}
	workers.Wait()
	t.Logf("%d seeds from %d in %.0f s", done.Load(), first, time.Since(began).Seconds())
	return done.Load()
}

// wantDeletions fails a campaign that judged no deletion, unless it ran only a few seeds.
func wantDeletions(t *testing.T, judged int, seeds uint64) {
	t.Helper()
	if judged == 0 && seeds >= campaignWorkers {
		t.Error("no deletion was judged")
	}
}

// ledger records the facts about all runs that the judge needs.
type ledger struct {
	mu    sync.Mutex
	works map[types.UID]string    // AppliedWorks by UID, with the agent's name
	ended map[types.UID]time.Time // the time from which an AppliedWork has no claim on its objects

	// counts of frozen processes, of processes that resumed after the end, and of version changes
	frozen, late, flips atomic.Int64
}

func (l *ledger) add(uid types.UID, agent string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.works[uid] = agent
}

// end records that an AppliedWork is about to end.
func (l *ledger) end(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended[uid].IsZero() {
		l.ended[uid] = time.Now()
	}
}

func newLedger() *ledger {
	return &ledger{works: map[types.UID]string{}, ended: map[types.UID]time.Time{}}
}

func (l *ledger) mine(agent string, uid types.UID) bool { return l.works[uid] == agent }

// alive reports whether an owner exists at a time. An owner that is not one of our AppliedWorks is
// an anchor of a rival, which exists until the end.
func (l *ledger) alive(uid types.UID, at time.Time) bool {
	end, ended := l.ended[uid]
	return !ended || at.Before(end)
}

// checkCampaign runs works under all kinds of faults and rivals.
func checkCampaign(t *testing.T, g *ground) {
	g.create(namespaceOf("campaign"))
	l := newLedger()
	seeds := eachSeed(t, func(seed uint64, worker int) { newCampaign(t, g, l, seed, flipCRD(worker)).run() })
	g.nothingIsOwned(t, l)
	events := readAudit(t, g.audit)
	judged := foreignDeletions(t, events, "s", l)
	t.Logf("%d writes in the audit log; %d deletions of ours judged; %d AppliedWorks; %d processes froze, %d until "+
		"after the end; versions changed %d times",
		len(events), judged, len(l.works), l.frozen.Load(), l.late.Load(), l.flips.Load())
	wantDeletions(t, judged, seeds)
}

// nothingIsOwned waits until no object has a reference to one of the AppliedWorks. All AppliedWorks
// are deleted, so a remaining reference is a leak.
func (g *ground) nothingIsOwned(t *testing.T, l *ledger) {
	t.Helper()
	eventually(t, "all that was applied goes", func() error {
		resources := []schema.GroupVersionResource{configMaps, clusterRoles, gadgets, namespaces,
			v1alpha1.GroupVersionResource}
		for worker := range campaignWorkers {
			resources = append(resources, schema.GroupVersionResource{Group: flipGroup(worker), Version: "v1",
				Resource: "gizmos"})
		}
		for _, resource := range resources {
			list, err := g.admin.Resource(resource).List(context.Background(), metav1.ListOptions{})
			if err != nil {
				return err
			}
			for i := range list.Items {
				for _, o := range list.Items[i].GetOwnerReferences() {
					if agent, ok := l.works[o.UID]; ok {
						return fmt.Errorf("%s left %s %s/%s", agent, resource.Resource, list.Items[i].GetNamespace(),
							list.Items[i].GetName())
					}
				}
			}
		}
		return nil
	})
}

// campaign is one run.
type campaign struct {
	t      *testing.T
	g      *ground
	l      *ledger
	seed   uint64
	random *rand.Rand
	agent  string
	name   string

	flips    *unstructured.Unstructured // a CRD with versions that change during the run, or nil
	universe []*unstructured.Unstructured
	anchor   *unstructured.Unstructured // the owner of objects that rivals own
	opts     appliedwork.ApplyOptions
	bare     bool // whether only the Kubernetes garbage collector ends the work
	prompt   bool // whether no request arrives late: nothing may be left that only an audit finds
	lateThaw bool
	inUse    bool // whether a desired object is in the namespace of the run, which must then stay
	faults   []*faults
	thaw     chan struct{}
	asleep   []*nap      // frozen processes
	awake    []*nap      // processes that were frozen
	over     atomic.Bool // whether the work has ended
}

func newCampaign(t *testing.T, g *ground, l *ledger, seed uint64, flips *unstructured.Unstructured) *campaign {
	c := &campaign{
		t: t, g: g, l: l, seed: seed, random: rand.New(rand.NewPCG(seed, 0)), name: fmt.Sprintf("s%d", seed),
		agent: fmt.Sprintf("%ss%d", agentPrefix, seed), thaw: make(chan struct{}),
	}
	for _, x := range []string{"a", "b", "c", "d", "e"} {
		c.universe = append(c.universe, configMapOf("campaign", c.name+"-"+x, "0"))
	}
	c.universe = append(c.universe, clusterRoleOf(c.name), gadgetOf("campaign", c.name))
	if c.random.IntN(8) == 0 {
		c.universe = append(c.universe, namespaceOf("campaign-"+c.name), configMapOf("campaign-"+c.name, "inside", "0"))
	}
	if c.random.IntN(3) == 0 {
		c.flips = flips
		for _, version := range []string{"v1", "v2"} {
			c.universe = append(c.universe, customOf(groupOf(flips)+"/"+version, "Gizmo", "campaign", c.name+"-"+version))
		}
	}
	c.anchor = g.create(clusterRoleOf(c.name + "-anchor"))
	c.opts = appliedwork.ApplyOptions{
		Adoption: []appliedwork.Adoption{appliedwork.AdoptionNever, appliedwork.AdoptionIfUnowned,
			appliedwork.AdoptionAlways}[c.random.IntN(3)],
		Force: c.random.IntN(2) == 0, Concurrency: 1 + c.random.IntN(4),
	}
	c.bare, c.lateThaw, c.prompt = c.random.IntN(3) == 0, c.random.IntN(2) == 0, c.random.IntN(3) == 0
	return c
}

// desired draws the desired objects of the work. Each object of the universe is left out, or
// included with a random value or version.
func (c *campaign) desired() []*unstructured.Unstructured {
	var objects []*unstructured.Unstructured
	for _, obj := range c.universe {
		if c.random.IntN(2) == 0 {
			continue
		}
		obj = obj.DeepCopy()
		if obj.GetKind() == "ConfigMap" {
			obj.Object["data"] = map[string]any{"value": fmt.Sprint(c.random.IntN(3))}
		}
		if gv := obj.GroupVersionKind().GroupVersion(); obj.GetKind() == "Gizmo" {
			obj.SetAPIVersion(gv.Group + "/" + []string{"v1", "v2"}[c.random.IntN(2)])
		}
		objects = append(objects, obj)
	}
	c.random.Shuffle(len(objects), func(i, j int) { objects[i], objects[j] = objects[j], objects[i] })
	return objects
}

// process returns the tools of a new process, which dies at the n-th request.
func (c *campaign) process(rate float64, dieAt int) (tools, *faults) {
	f := newFaults(c.seed, uint64(len(c.faults)+1), rate, dieAt, c.thaw)
	f.prompt = c.prompt
	c.faults = append(c.faults, f)
	config := c.g.Config()
	config.UserAgent = c.agent
	config.Wrap(f.wrap)
	return c.g.tools(config, func(o *appliedwork.Options) {
		o.IntentGrace, o.UnservedGrace, o.MaxShardBytes = time.Millisecond, time.Millisecond, 1<<10
	}), f
}

func (f *faults) isDead() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.dead }

// run runs some processes next to rivals. Then it calms down, compares, and ends the work.
func (c *campaign) run() {
	ctx, cancel := context.WithCancel(context.Background())
	var rivals sync.WaitGroup
	rivals.Go(func() { (&rival{campaign: c, random: rand.New(rand.NewPCG(c.seed, 1<<32))}).run(ctx) })
	settled := c.flip(1 << 33)
	for range 2 + c.random.IntN(4) {
		c.takeOver()
	}
	settled()
	cancel()
	rivals.Wait()
	c.calm()
}

// takeOver starts a process, and returns when the process is done or frozen. Earlier frozen
// processes resume during its life, at its end, or later.
func (c *campaign) takeOver() {
	x, f := c.process(0.1, 1+c.random.IntN(80))
	n := newNap(0)
	if !c.prompt && c.random.IntN(2) == 0 {
		n.at = 1 + c.random.IntN(60)
	}
	f.nap = n
	states := make([][]*unstructured.Unstructured, 1+c.random.IntN(3))
	for i := range states {
		states[i] = c.desired()
	}
	var during, after, later []*nap
	for _, other := range c.asleep {
		switch c.random.IntN(3) {
		case 0:
			during = append(during, other)
		case 1:
			after = append(after, other)
		default:
			later = append(later, other)
		}
	}
	pause := time.Duration(c.random.IntN(200)) * time.Millisecond
	go func() {
		defer close(n.done)
		for _, desired := range states {
			c.live(x, f, desired)
		}
	}()
	c.asleep = later
	if len(during) > 0 {
		time.Sleep(pause)
		c.wake(during)
	}
	select {
	case <-n.done:
	case <-n.asleep:
		c.asleep = append(c.asleep, n)
		c.l.frozen.Add(1)
	}
	c.wake(after)
}

func (c *campaign) wake(naps []*nap) {
	for _, n := range naps {
		close(n.awake)
	}
	c.awake = append(c.awake, naps...)
}

// wakeAll wakes the frozen processes, and waits until all processes that were frozen are done.
func (c *campaign) wakeAll() {
	c.wake(c.asleep)
	c.asleep = nil
	for _, n := range c.awake {
		<-n.done
	}
}

// live processes one state of the work, until the process dies or is done.
func (c *campaign) live(x tools, f *faults, desired []*unstructured.Unstructured) {
	work := c.ensure(x, f)
	if work == nil || f.isDead() || c.over.Load() {
		return
	}
	ctx := context.Background()
	_, _ = x.applier.Apply(ctx, work, desired, c.opts)
	_, _ = x.pruner.Prune(ctx, work, desired, appliedwork.PruneOptions{AllowEmpty: true, Concurrency: c.opts.Concurrency})
}

func (c *campaign) ensure(x tools, f *faults) *v1alpha1.AppliedWork {
	for range 20 {
		work, err := x.tracker.Ensure(context.Background(), c.name,
			v1alpha1.AppliedWorkSpec{WorkName: c.name, WorkNamespace: "cluster1"})
		if err == nil {
			c.l.add(work.UID, c.agent)
			return work
		}
		if f.isDead() {
			return nil
		}
	}
	return nil
}

// calm finishes the work with a process without faults, and compares. Then the work ends.
func (c *campaign) calm() {
	ctx := context.Background()
	late := c.asleep
	if c.lateThaw {
		c.asleep = nil
	}
	c.wakeAll()
	if !c.lateThaw {
		close(c.thaw)
		c.settle()
		late = nil
	}
	for _, f := range c.faults {
		f.late.Wait()
	}
	x, f := c.process(0, 0)
	work := c.ensure(x, f)
	if work == nil {
		c.t.Errorf("seed %d: there is no AppliedWork in the calm", c.seed)
		return
	}
	desired := c.desired()
	if err := c.finish(x, work, desired); err != nil {
		c.t.Errorf("seed %d: %v", c.seed, err)
		return
	}
	c.leaks(work, desired)
	c.end(ctx, work)
	c.over.Store(true)
	c.asleep = late
	c.l.late.Add(int64(len(late)))
	c.wakeAll()
	if c.lateThaw {
		close(c.thaw)
		c.settle()
	}
	c.l.end(work.UID)
}

// settle waits until all frozen requests have arrived.
func (c *campaign) settle() {
	for _, f := range c.faults {
		f.frozen.Wait()
	}
}

// finish audits, applies and prunes until nothing is pending, as a process does after a restart. If
// no request was late, it does not audit, because the inventory is complete.
func (c *campaign) finish(x tools, work *v1alpha1.AppliedWork, desired []*unstructured.Unstructured) error {
	ctx := context.Background()
	var pruned *appliedwork.ChangeSet
	if !c.prompt {
		report, err := x.collector.Audit(ctx, work, appliedwork.AuditOptions{Record: true})
		if err != nil || len(c.unread(report)) > 0 {
			return fmt.Errorf("audit: %+v, %w", report, err)
		}
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		_, _ = x.applier.Apply(ctx, work, desired, c.opts) // the objects of rivals block some
		pruned, _ = x.pruner.Prune(ctx, work, desired, appliedwork.PruneOptions{AllowEmpty: true})
		if pruned.Count(appliedwork.ActionPending, appliedwork.ActionFailed) == 0 && !c.lostNamespace(pruned, desired) {
			return nil
		}
		c.rivalLeaves(work, pruned)
		if time.Now().After(deadline) {
			return fmt.Errorf("not done: %v", pruned.Entries)
		}
	}
}

// lostNamespace reports whether a Namespace is blocked although nothing in it is desired.
func (c *campaign) lostNamespace(pruned *appliedwork.ChangeSet, desired []*unstructured.Unstructured) bool {
	for _, obj := range desired {
		if obj.GetName() == "inside" {
			c.inUse = true
			return false
		}
	}
	return pruned.Count(appliedwork.ActionBlocked) > 0
}

// rivalLeaves deletes the rival's object that blocks the Namespace, as the rival would. An object
// of the work must not block it.
func (c *campaign) rivalLeaves(work *v1alpha1.AppliedWork, changes *appliedwork.ChangeSet) {
	if changes.Count(appliedwork.ActionBlocked) == 0 {
		return
	}
	for _, obj := range c.universe {
		if obj.GetName() != "inside" {
			continue
		}
		live, err := c.g.at(obj).Get(context.Background(), obj.GetName(), metav1.GetOptions{})
		if err == nil && !appliedwork.IsOwnedBy(live, work.UID) {
			_ = c.g.at(obj).Delete(context.Background(), obj.GetName(), metav1.DeleteOptions{})
		}
	}
}

// leaks searches for objects that have our reference and are not desired.
func (c *campaign) leaks(work *v1alpha1.AppliedWork, desired []*unstructured.Unstructured) {
	wanted := map[string]bool{}
	for _, obj := range desired {
		wanted[obj.GetKind()+obj.GetNamespace()+obj.GetName()] = true
	}
	for _, obj := range c.universe {
		if obj.GetKind() == "Namespace" && c.inUse {
			continue
		}
		live, err := c.g.at(obj).Get(context.Background(), obj.GetName(), metav1.GetOptions{})
		if err == nil && appliedwork.IsOwnedBy(live, work.UID) && !wanted[obj.GetKind()+obj.GetNamespace()+obj.GetName()] {
			c.t.Errorf("seed %d: %s %s is ours and not desired", c.seed, obj.GetKind(), obj.GetName())
		}
	}
}

// end runs a teardown with processes that die, or deletes only the AppliedWork.
func (c *campaign) end(ctx context.Context, work *v1alpha1.AppliedWork) {
	if c.bare {
		if err := c.g.admin.Resource(v1alpha1.GroupVersionResource).Delete(ctx, work.Name,
			metav1.DeleteOptions{}); err != nil {
			c.t.Errorf("seed %d: %v", c.seed, err)
		}
		return
	}
	settled := c.flip(1 << 34)
	for range 3 {
		x, _ := c.process(0.1, 1+c.random.IntN(20))
		_, _ = x.collector.Teardown(ctx, work, appliedwork.TeardownOptions{})
	}
	settled()
	x, _ := c.process(0, 0)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		changes, err := x.collector.Teardown(ctx, work, appliedwork.TeardownOptions{})
		if err == nil && changes.Done() {
			return
		}
		c.rivalLeaves(work, changes)
		if time.Now().After(deadline) {
			c.t.Errorf("seed %d: teardown: %v, %v", c.seed, err, changes.Entries)
			return
		}
	}
}
