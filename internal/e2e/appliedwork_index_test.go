// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// TestAppliedWorkIndex compares the answers of a tracker's index with the content of all
// AppliedWorks, on two API servers of one etcd. No controller runs: deleted AppliedWorks leave
// their shards, or stay with a finalizer.
func TestAppliedWorkIndex(t *testing.T) {
	t.Parallel()
	g := newGround(t, groundOptions{noController: true})
	servers := []*rest.Config{g.Config(), g.StartReplica()}
	on := func(run func(*testing.T, *ground, []*rest.Config)) func(*testing.T, *ground) {
		return func(t *testing.T, g *ground) { run(t, g, servers) }
	}
	g.run(t, check{"SameAsList", on(checkSameAsList)}, check{"Moved", on(checkMoved)}, check{"Fresh", on(checkFresh)})
}

// checkSameAsList: after any change of AppliedWorks, a long-lived index has the same claims as a
// list of all AppliedWorks, and a prune would do the same.
func checkSameAsList(t *testing.T, g *ground, servers []*rest.Config) {
	eachSeed(t, func(seed uint64, _ int) { newIndexed(t, g, servers, seed).run() })
}

// indexed holds some AppliedWorks that share the objects of a subject.
type indexed struct {
	t       *testing.T
	g       *ground
	seed    uint64
	random  *rand.Rand
	name    string
	ids     []v1alpha1.ResourceIdentifier
	live    []*unstructured.Unstructured
	writers []tools // one for each server
	reader  tools
	lists   tools // without an index
	subject *v1alpha1.AppliedWork
	works   []*v1alpha1.AppliedWork
}

func newIndexed(t *testing.T, g *ground, servers []*rest.Config, seed uint64) *indexed {
	x := &indexed{t: t, g: g, seed: seed, random: rand.New(rand.NewPCG(seed, 11)), name: fmt.Sprintf("index%d", seed)}
	for _, server := range servers {
		x.writers = append(x.writers,
			g.tools(rest.CopyConfig(server), func(o *appliedwork.Options) { o.MaxShardBytes = 1 << 10 }))
	}
	x.reader = g.tools(rest.CopyConfig(servers[seed%2]), nil)
	x.lists = g.tools(rest.CopyConfig(servers[0]), func(o *appliedwork.Options) { o.Metadata = nil })
	x.live = []*unstructured.Unstructured{
		namespaceOf(x.name), configMapOf(x.name, "a", "1"), configMapOf(x.name, "b", "1"), clusterRoleOf(x.name),
	}
	x.works = make([]*v1alpha1.AppliedWork, 3)
	return x
}

func (x *indexed) run() {
	ctx := context.Background()
	var err error
	x.subject, err = x.writers[0].tracker.Ensure(ctx, x.name, v1alpha1.AppliedWorkSpec{WorkName: x.name})
	if err == nil {
		_, err = x.writers[0].applier.Apply(ctx, x.subject, x.live, appliedwork.ApplyOptions{})
	}
	var entries []v1alpha1.AppliedResourceMeta
	if err == nil {
		entries, err = x.lists.tracker.Entries(ctx, x.subject)
	}
	if err != nil {
		x.t.Errorf("seed %d: %v", x.seed, err)
		return
	}
	for i, e := range entries {
		x.ids = append(x.ids, e.ResourceIdentifier)
		x.live[i] = x.g.get(x.live[i])
	}
	for step := 0; step < 15 && !x.t.Failed(); step++ {
		did, err := x.step(ctx)
		if err != nil && !errors.Is(err, appliedwork.ErrTerminating) {
			x.t.Errorf("seed %d, step %d: %s: %v", x.seed, step, did, err)
		}
		x.compare(ctx, fmt.Sprintf("seed %d, step %d: %s", x.seed, step, did))
	}
}

// step makes a random change to one of the AppliedWorks, through one of the servers.
func (x *indexed) step(ctx context.Context) (did string, err error) {
	i, at := x.random.IntN(len(x.works)), x.random.IntN(len(x.ids))
	w, id, live := x.writers[x.random.IntN(len(x.writers))], x.ids[at], x.live[at]
	name, works := fmt.Sprintf("%s-%d", x.name, i), x.g.admin.Resource(v1alpha1.GroupVersionResource)
	if x.works[i] == nil {
		x.works[i], err = w.tracker.Ensure(ctx, name, v1alpha1.AppliedWorkSpec{WorkName: name})
		if errors.Is(err, appliedwork.ErrTerminating) {
			_, err = works.Patch(ctx, name, types.MergePatchType, noFinalizers, metav1.PatchOptions{})
		}
		return "create " + name, err
	}
	work := x.works[i]
	switch x.random.IntN(9) {
	case 0, 1:
		if x.random.IntN(3) == 0 {
			id.Kind = "" // as work-api records it
		}
		return fmt.Sprintf("intend %s for %s", id.Name, name), w.tracker.RecordIntent(ctx, work, id)
	case 2:
		e := v1alpha1.AppliedResourceMeta{ResourceIdentifier: id, UID: live.GetUID()}
		if x.random.IntN(3) == 0 {
			e.UID = "of-an-earlier-object"
		}
		return fmt.Sprintf("record %s for %s", id.Name, name), w.tracker.RecordApplied(ctx, work, e)
	case 3:
		ids := make([]v1alpha1.ResourceIdentifier, 6) // more than fit into a shard
		for n := range ids {
			ids[n] = v1alpha1.ResourceIdentifier{Version: "v1", Kind: "ConfigMap", Resource: "configmaps", Namespace: x.name,
				Name: fmt.Sprintf("other-%d", n)}
		}
		return "more shards of " + name,
			w.tracker.RecordIntent(ctx, work, slices.Concat(ids, []v1alpha1.ResourceIdentifier{id})...)
	case 4, 5:
		entries, err := w.tracker.Entries(ctx, work)
		if err == nil {
			err = w.tracker.Forget(ctx, work, entries...)
		}
		return "forget all of " + name, err
	case 6:
		how := []string{`"Teardown"`, `"Release"`, "null"}[x.random.IntN(3)]
		patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, v1alpha1.AnnotationTerminating, how)
		_, err := works.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return fmt.Sprintf("end %s by %s", name, how), err
	case 7:
		x.works[i] = nil
		how := []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationOrphan,
			metav1.DeletePropagationForeground}[x.random.IntN(3)]
		return fmt.Sprintf("delete %s: %s", name, how), works.Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &how})
	default:
		shards, err := works.List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.LabelShardOf + "=" + string(work.UID)})
		if err == nil && len(shards.Items) > 0 {
			err = works.Delete(ctx, shards.Items[0].GetName(), metav1.DeleteOptions{})
		}
		return "delete a shard of " + name, err
	}
}

var noFinalizers = []byte(`{"metadata":{"finalizers":null}}`)

func (x *indexed) compare(ctx context.Context, when string) {
	id := x.ids[x.random.IntN(len(x.ids))]
	owners, err := x.reader.tracker.Owners(ctx, appliedwork.KeyOf(id))
	if err != nil {
		x.t.Errorf("%s: %v", when, err)
	}
	recorded, err := x.lists.tracker.Owners(ctx, appliedwork.KeyOf(id))
	if err != nil {
		x.t.Errorf("%s: %v", when, err)
	}
	if d := cmp.Diff(recorded, owners); d != "" {
		x.t.Errorf("%s: %s is owned by others than the list has:\n%s", when, id.Name, d)
	}
	if d := cmp.Diff(x.plan(ctx, x.lists), x.plan(ctx, x.reader)); d != "" {
		x.t.Errorf("%s: a prune would do something else:\n%s", when, d)
	}
}

func (x *indexed) plan(ctx context.Context, by tools) (lines []string) {
	changes, err := by.pruner.Plan(ctx, x.subject, nil, appliedwork.PruneOptions{AllowEmpty: true})
	for _, c := range changes.Entries {
		lines = append(lines, fmt.Sprintln(c.Key, c.Action, c.Err))
	}
	return append(lines, fmt.Sprint(err))
}

// checkMoved: at each moment an AppliedWork intends the object, so each answer must contain an
// AppliedWork.
func checkMoved(t *testing.T, g *ground, servers []*rest.Config) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var movers, readers sync.WaitGroup
	var answers atomic.Int64
	for n, server := range servers {
		id := v1alpha1.ResourceIdentifier{Version: "v1", Kind: "ConfigMap", Resource: "configmaps", Namespace: "moved",
			Name: fmt.Sprint("moved-", n)}
		entry := v1alpha1.AppliedResourceMeta{ResourceIdentifier: id}
		var works []*v1alpha1.AppliedWork
		for i := range 3 {
			works = append(works, g.plain(nil).ensure(t, fmt.Sprintf("moved-%d-%d", n, i)))
		}
		mover := g.tools(rest.CopyConfig(server), nil)
		if err := mover.tracker.RecordIntent(ctx, works[0], id); err != nil {
			t.Fatal(err)
		}
		movers.Go(func() {
			for i := range 150 {
				err := mover.tracker.RecordIntent(ctx, works[(i+1)%3], id)
				if err == nil {
					err = mover.tracker.Forget(ctx, works[i%3], entry)
				}
				if err != nil {
					t.Errorf("move %d: %v", i, err)
					return
				}
			}
		})
		for _, server := range servers {
			reader := g.tools(slowToRead(server), nil)
			readers.Go(func() {
				for ctx.Err() == nil {
					owners, err := reader.tracker.Owners(ctx, appliedwork.KeyOf(id))
					switch {
					case ctx.Err() != nil:
						return
					case err != nil || len(owners) == 0:
						t.Errorf("%s is owned by %v: %v", id.Name, owners, err)
						return
					}
					answers.Add(1)
				}
			})
		}
	}
	movers.Wait()
	stop()
	readers.Wait()
	t.Logf("%d answers", answers.Load())
}

// slowToRead returns a client that reads whole AppliedWorks some time after their list.
func slowToRead(server *rest.Config) *rest.Config {
	config := rest.CopyConfig(server)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "/appliedworks") && r.URL.Query().Has("fieldSelector") {
				time.Sleep(rand.N(30 * time.Millisecond))
			}
			return next.RoundTrip(r)
		})
	})
	return config
}

// checkFresh: a write through one API server is in the next answer through the other.
func checkFresh(t *testing.T, g *ground, servers []*rest.Config) {
	sides := []tools{g.tools(rest.CopyConfig(servers[0]), nil), g.tools(rest.CopyConfig(servers[1]), nil)}
	work := sides[0].ensure(t, "fresh")
	const rounds = 250
	stale := 0
	for i := range rounds {
		writer, reader := sides[i%2].tracker, sides[(i+1)%2].tracker
		id := v1alpha1.ResourceIdentifier{Version: "v1", Kind: "ConfigMap", Resource: "configmaps", Namespace: "fresh",
			Name: fmt.Sprint(i)}
		answer := func() int {
			owners, err := reader.Owners(t.Context(), appliedwork.KeyOf(id))
			if err != nil {
				t.Fatal(err)
			}
			return len(owners)
		}
		if err := writer.RecordIntent(t.Context(), work, id); err != nil {
			t.Fatal(err)
		}
		if answer() != 1 {
			stale++
		}
		if err := writer.Forget(t.Context(), work, v1alpha1.AppliedResourceMeta{ResourceIdentifier: id}); err != nil {
			t.Fatal(err)
		}
		if answer() != 0 {
			stale++
		}
	}
	t.Logf("%d of %d answers were stale", stale, 2*rounds)
	if stale > 0 {
		t.Error("an answer lacks a write that was acknowledged before")
	}
}
