// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// checkHandover moves an object from one work to another, in any order: one work prunes the object
// while the other adopts or creates it. In each interleaving an adopted object survives with its
// UID and belongs to the second work alone.
func checkHandover(t *testing.T, g *ground) {
	g.create(namespaceOf("handover"))
	var mu sync.Mutex
	outcomes := map[appliedwork.Action]int{}
	works := map[types.UID]string{}
	eachSeed(t, func(seed uint64, _ int) {
		h := handover{t: t, g: g, seed: seed, random: rand.New(rand.NewPCG(seed, 3))}
		action := h.run()
		mu.Lock()
		defer mu.Unlock()
		outcomes[action]++
		for uid, agent := range h.works {
			works[uid] = agent
		}
	})
	t.Logf("how the second work got the object: %v", outcomes)
	l := newLedger()
	l.works = works
	// The first work may delete an object that the second only intended to have, but never an
	// object that the second had.
	judged := foreignDeletions(t, readAudit(t, g.audit), "h", l)
	t.Logf("%d deletions judged", judged)
}

type handover struct {
	t      *testing.T
	g      *ground
	seed   uint64
	random *rand.Rand
	works  map[types.UID]string
}

// client returns the tools of a work. The seed chooses the duration of its requests.
func (h *handover) client(n uint64) tools {
	f := newFaults(h.seed, n, 0.6, 0, nil)
	f.only = []fault{delay}
	config := h.g.Config()
	config.UserAgent = fmt.Sprintf("%sh%d-%d", agentPrefix, h.seed, n)
	config.Wrap(f.wrap)
	return h.g.tools(config, func(o *appliedwork.Options) { o.IntentGrace = time.Millisecond })
}

func (h *handover) run() appliedwork.Action {
	ctx := context.Background()
	name := fmt.Sprintf("h%d", h.seed)
	h.works = map[types.UID]string{}
	obj := configMapOf("handover", name, "1")
	if h.seed%3 == 0 {
		obj = clusterRoleOf(name)
	}
	var sides [2]tools
	var works [2]*v1alpha1.AppliedWork
	defer func() { h.end(works[:]) }()
	for i := range sides {
		sides[i] = h.client(uint64(i))
		work, err := sides[i].tracker.Ensure(ctx, fmt.Sprintf("%s-%d", name, i),
			v1alpha1.AppliedWorkSpec{WorkName: name, WorkNamespace: fmt.Sprint(i)})
		if err != nil {
			h.t.Errorf("seed %d: %v", h.seed, err)
			return ""
		}
		works[i], h.works[work.UID] = work, fmt.Sprintf("%sh%d-%d", agentPrefix, h.seed, i)
	}
	if _, err := sides[0].applier.Apply(ctx, works[0], []*unstructured.Unstructured{obj},
		appliedwork.ApplyOptions{}); err != nil {
		h.t.Errorf("seed %d: %v", h.seed, err)
		return ""
	}
	pauses := [2]time.Duration{time.Duration(h.random.IntN(40)) * time.Millisecond,
		time.Duration(h.random.IntN(40)) * time.Millisecond}
	var both sync.WaitGroup
	both.Go(func() {
		time.Sleep(pauses[0])
		if _, err := sides[0].pruner.Prune(ctx, works[0], nil, appliedwork.PruneOptions{AllowEmpty: true}); err != nil {
			h.t.Errorf("seed %d: prune: %v", h.seed, err)
		}
	})
	var adopted appliedwork.Change
	both.Go(func() {
		time.Sleep(pauses[1])
		changes, err := sides[1].applier.Apply(ctx, works[1], []*unstructured.Unstructured{obj},
			appliedwork.ApplyOptions{Adoption: appliedwork.AdoptionAlways})
		if err != nil || len(changes.Entries) != 1 {
			h.t.Errorf("seed %d: apply: %v, %v", h.seed, changes, err)
			return
		}
		adopted = changes.Entries[0]
	})
	both.Wait()
	if h.t.Failed() {
		return adopted.Action
	}
	live, err := h.g.at(obj).Get(ctx, obj.GetName(), metav1.GetOptions{})
	switch {
	case err != nil:
		h.t.Errorf("seed %d: the object was %s and is not there: %v", h.seed, adopted.Action, err)
	case live.GetUID() != adopted.UID:
		h.t.Errorf("seed %d: the object was %s with UID %s and has %s", h.seed, adopted.Action, adopted.UID, live.GetUID())
	case len(live.GetOwnerReferences()) != 1 || !appliedwork.IsOwnedBy(live, works[1].UID):
		h.t.Errorf("seed %d: the owners are %v", h.seed, live.GetOwnerReferences())
	}
	return adopted.Action
}

func (h *handover) end(works []*v1alpha1.AppliedWork) {
	for _, work := range works {
		if work == nil {
			continue
		}
		if err := h.g.admin.Resource(v1alpha1.GroupVersionResource).Delete(context.Background(), work.Name,
			metav1.DeleteOptions{}); err != nil {
			h.t.Errorf("seed %d: %v", h.seed, err)
		}
	}
}
