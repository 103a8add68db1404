// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// checkOwners runs works of two owners that want the same objects. Works are renamed, policies
// change, objects and a namespace with users' content are adopted, creates are refused, and
// processes die. No object leaks, no object of a user is deleted, and objects that the policies
// keep stay.
func checkOwners(t *testing.T, g *ground) {
	g.create(namespaceOf("owners"))
	l := newLedger()
	seeds := eachSeed(t, func(seed uint64, _ int) { newOwners(t, g, l, seed).run() })
	// Policies leave objects without an owner reference, so only deletions are judged.
	judged := foreignDeletionsOf(t, readAudit(t, g.audit), "two-", l, true)
	t.Logf("%d deletions judged; %d AppliedWorks", judged, len(l.works))
	wantDeletions(t, judged, seeds)
}

// owners is one run.
type owners struct {
	t      *testing.T
	g      *ground
	l      *ledger
	seed   uint64
	random *rand.Rand
	name   string

	universe []*unstructured.Unstructured
	home     *unstructured.Unstructured   // a namespace that users created before
	users    []*unstructured.Unstructured // objects of users
	sides    [2]*coOwner

	uids map[*unstructured.Unstructured]types.UID // of objects that must not be deleted from now on

	unattended bool // an AppliedWork was deleted, and no agent could remove its leftovers in objects that stay
}

// coOwner is one of the owners.
type coOwner struct {
	*owners
	random   *rand.Rand
	agent    string
	n        uint64 // number of processes so far
	names    int    // number of names of the work so far
	adoption appliedwork.Adoption
	desired  []*unstructured.Unstructured
	policies appliedwork.Policies
	work     types.UID       // UID of the AppliedWork after calm
	mayStay  map[string]bool // objects that a policy kept at some time
}

func newOwners(t *testing.T, g *ground, l *ledger, seed uint64) *owners {
	o := &owners{t: t, g: g, l: l, seed: seed, random: rand.New(rand.NewPCG(seed, 7)), name: fmt.Sprintf("o%d", seed),
		uids: map[*unstructured.Unstructured]types.UID{}}
	for _, x := range []string{"a", "b", "c", "d", "found"} {
		o.universe = append(o.universe, configMapOf("owners", o.name+"-"+x, "1"))
	}
	if o.random.IntN(4) == 0 {
		o.home = namespaceOf("owners-" + o.name)
		content := configMapOf(o.home.GetName(), "content", "users")
		o.uids[o.home], o.uids[content] = g.create(o.home).GetUID(), g.create(content).GetUID()
		o.universe = append(o.universe, o.home, configMapOf(o.home.GetName(), "inside", "1"))
		o.users = append(o.users, o.home, content)
	}
	found := configMapOf("owners", o.name+"-found", "users")
	o.uids[found] = g.create(found).GetUID()
	o.users = append(o.users, found)
	for i := range o.sides {
		o.sides[i] = &coOwner{
			owners: o, random: rand.New(rand.NewPCG(seed, uint64(8+i))), agent: fmt.Sprintf("%stwo-%d-%d", agentPrefix, seed, i),
			adoption: []appliedwork.Adoption{appliedwork.AdoptionNever, appliedwork.AdoptionIfUnowned,
				appliedwork.AdoptionAlways}[o.random.IntN(3)],
			mayStay: map[string]bool{},
		}
	}
	return o
}

func (o *owners) run() {
	var both sync.WaitGroup
	for _, s := range o.sides {
		both.Go(s.live)
	}
	both.Wait()
	for range 2 { // one side may take an object that the other releases
		for _, s := range o.sides {
			s.finish()
		}
		o.hold(func(*coOwner, *unstructured.Unstructured) bool { return true })
	}
	o.check("in the calm")
	o.release()
	o.hold((*coOwner).keeps)
	for _, s := range o.sides {
		s.end()
	}
	for _, s := range o.sides {
		s.desired = nil
	}
	o.check("in the end")
}

// hold makes check look for the deletion of objects that a work has, if is returns true for them.
func (o *owners) hold(is func(*coOwner, *unstructured.Unstructured) bool) {
	for _, s := range o.sides {
		for _, obj := range s.desired {
			live := o.g.get(obj)
			if _, held := o.uids[obj]; held || live == nil ||
				!strings.Contains(fmt.Sprint(live.Object["metadata"]), string(s.work)) || !is(s, obj) {
				continue
			}
			o.uids[obj] = live.GetUID()
		}
	}
}

// release ends hold, except for the objects of users.
func (o *owners) release() {
	maps.DeleteFunc(o.uids,
		func(obj *unstructured.Unstructured, _ types.UID) bool { return !slices.Contains(o.users, obj) })
}

// keeps reports whether the policies of a work keep an object.
func (s *coOwner) keeps(obj *unstructured.Unstructured) bool {
	key, err := appliedwork.Identify(obj)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.policies.Default == appliedwork.PolicyOrphan || s.policies.ByKey[key] == appliedwork.PolicyOrphan
}

// draw draws the desired objects of the work and the policies that keep objects. In every other run
// the policies keep nothing, so a remaining object is a leak.
func (s *coOwner) draw() {
	s.desired, s.policies = nil, appliedwork.Policies{ByKey: map[appliedwork.Key]appliedwork.Policy{}}
	if s.seed%2 == 0 && s.random.IntN(6) == 0 {
		s.policies.Default = appliedwork.PolicyOrphan
	}
	for _, obj := range s.universe {
		key, err := appliedwork.Identify(obj)
		if err != nil {
			s.t.Fatal(err)
		}
		if s.seed%2 == 0 && s.random.IntN(6) == 0 && obj.GetKind() != "Namespace" {
			s.policies.ByKey[key] = appliedwork.PolicyOrphan
		}
		if s.keeps(obj) {
			s.mayStay[obj.GetName()] = true
		}
		if s.random.IntN(2) == 0 {
			s.desired = append(s.desired, obj)
		}
	}
}

func (s *coOwner) workName() string {
	return fmt.Sprintf("%s-%s-%d", s.name, s.agent[len(s.agent)-1:], s.names)
}

// process returns the tools of a new process.
func (s *coOwner) process(rate float64, dieAt int) (tools, *faults) {
	s.n++
	f := newFaults(s.seed, s.n<<8|uint64(s.agent[len(s.agent)-1]), rate, dieAt, nil)
	f.prompt = true
	denied := rand.New(rand.NewPCG(s.seed, s.n<<16))
	var mu sync.Mutex
	config := s.g.Config()
	config.UserAgent = s.agent
	config.Wrap(f.wrap)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			deny := rate > 0 && r.Method == http.MethodPost && strings.Contains(r.URL.Path, "/configmaps") && denied.IntN(4) == 0
			mu.Unlock()
			if deny {
				return forbidden(), nil
			}
			return next.RoundTrip(r)
		})
	})
	return s.g.tools(config, func(o *appliedwork.Options) {
		o.IntentGrace, o.MaxShardBytes = time.Millisecond, 1<<10
	}), f
}

func (s *coOwner) ensure(x tools, f *faults) *v1alpha1.AppliedWork {
	for range 20 {
		work, err := x.tracker.Ensure(context.Background(), s.workName(),
			v1alpha1.AppliedWorkSpec{WorkName: s.workName(), WorkNamespace: "cluster1"})
		if err == nil {
			s.l.add(work.UID, s.agent)
			return work
		}
		if f.isDead() {
			return nil
		}
	}
	return nil
}

// live runs some processes, one after the other.
func (s *coOwner) live() {
	for range 2 + s.random.IntN(4) {
		x, f := s.process(0.1, s.random.IntN(60))
		for range 1 + s.random.IntN(3) {
			s.draw()
			work := s.ensure(x, f)
			if work == nil {
				break
			}
			_, _ = x.applier.Apply(context.Background(), work, s.desired, s.applyOptions())
			_, _ = x.pruner.Prune(context.Background(), work, s.desired,
				appliedwork.PruneOptions{AllowEmpty: true, Policies: s.policies})
		}
		if s.random.IntN(4) == 0 {
			s.rename()
		}
	}
	s.draw()
}

// rename ends the work, which continues under another name. Either the new work is applied first,
// or the old one is torn down first.
func (s *coOwner) rename() {
	x, f := s.process(0, 0)
	old := s.ensure(x, f)
	s.names++
	if work := s.ensure(x, f); work != nil && s.random.IntN(2) == 0 {
		_, _ = x.applier.Apply(context.Background(), work, s.desired, s.applyOptions())
	}
	s.teardown(x, old)
}

func (s *coOwner) applyOptions() appliedwork.ApplyOptions {
	return appliedwork.ApplyOptions{Adoption: s.adoption, Policies: s.policies, Force: true}
}

func (s *coOwner) teardown(x tools, work *v1alpha1.AppliedWork) {
	if work == nil {
		s.t.Errorf("seed %d: there is no AppliedWork", s.seed)
		return
	}
	s.l.end(work.UID)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		changes, err := x.collector.Teardown(context.Background(), work, appliedwork.TeardownOptions{Policies: s.policies})
		if err == nil && changes.Done() {
			return
		}
		if time.Now().After(deadline) {
			s.t.Errorf("seed %d: teardown: %v, %v", s.seed, err, changes.Entries)
			return
		}
	}
}

// finish applies and prunes, without faults, until only objects that others block are left.
func (s *coOwner) finish() {
	x, f := s.process(0, 0)
	work := s.ensure(x, f)
	if work == nil {
		s.t.Errorf("seed %d: there is no AppliedWork in the calm", s.seed)
		return
	}
	s.work = work.UID
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		applied, _ := x.applier.Apply(context.Background(), work, s.desired, s.applyOptions())
		pruned, err := x.pruner.Prune(context.Background(), work, s.desired,
			appliedwork.PruneOptions{AllowEmpty: true, Policies: s.policies})
		if err == nil && pruned.Done() && applied.Count(appliedwork.ActionPending) == 0 {
			return
		}
		if time.Now().After(deadline) {
			s.t.Errorf("seed %d: not done: %v, %v, %v", s.seed, applied.Entries, pruned.Entries, err)
			return
		}
	}
}

// end runs a teardown, or an admin deletes the AppliedWork.
func (s *coOwner) end() {
	x, f := s.process(0, 0)
	work := s.ensure(x, f)
	if s.random.IntN(2) == 0 {
		s.teardown(x, work)
		return
	}
	s.unattended = true
	s.l.end(work.UID)
	if err := s.g.admin.Resource(v1alpha1.GroupVersionResource).Delete(context.Background(), work.Name,
		metav1.DeleteOptions{}); err != nil {
		s.t.Errorf("seed %d: %v", s.seed, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := x.collector.WaitGone(ctx, work); err != nil {
		s.t.Errorf("seed %d: %v", s.seed, err)
	}
}

// check compares the existing objects with the desired objects of the works and with the policies.
func (o *owners) check(when string) {
	for obj, uid := range o.uids {
		if live := o.g.get(obj); live == nil || live.GetDeletionTimestamp() != nil || live.GetUID() != uid {
			log := history(readAudit(o.t, o.g.audit), "/configmaps/"+obj.GetNamespace()+"/"+obj.GetName())
			o.t.Errorf("seed %d, %s: %s %s of another was deleted\n%s", o.seed, when, obj.GetKind(), obj.GetName(), log)
		}
	}
	for _, obj := range o.universe {
		wanted, kept := false, obj.GetKind() == "Namespace"
		for _, s := range o.sides {
			for _, d := range s.desired {
				wanted = wanted || d == obj
			}
			kept = kept || s.mayStay[obj.GetName()]
		}
		live := o.g.get(obj)
		for _, user := range o.users {
			kept = kept || user.GetName() == obj.GetName()
		}
		switch {
		case wanted && live == nil:
			o.t.Errorf("seed %d, %s: %s is desired and not there", o.seed, when, obj.GetName())
		case !wanted && live != nil && !kept:
			events := readAudit(o.t, o.g.audit)
			log := history(events, "/configmaps/"+obj.GetNamespace()+"/"+obj.GetName())
			o.t.Errorf("seed %d, %s: %s leaked: %v\n%s", o.seed, when, obj.GetName(), live.Object["metadata"], log)
		case !wanted && live != nil && !o.unattended:
			o.l.mu.Lock()
			for uid, agent := range o.l.works {
				if strings.Contains(fmt.Sprint(live.Object["metadata"]), string(uid)) {
					o.t.Errorf("seed %d, %s: %s has traces of a work of %s: %v", o.seed, when, obj.GetName(), agent,
						live.Object["metadata"])
				}
			}
			o.l.mu.Unlock()
		}
	}
}
