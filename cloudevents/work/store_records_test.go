// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/randfill"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/boltstore"
	"github.com/spokewire/sdk-go/codec"
)

// deepWork returns a work with a manifest of this nesting depth.
func deepWork(name string, depth int) *workv1.ManifestWork {
	w := newWork(name, "")
	w.Spec.Workload.Manifests[0].Raw = deepManifest(depth)
	return w
}

func deepManifest(depth int) []byte {
	return []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":` +
		strings.Repeat("[", depth-1) + strings.Repeat("]", depth-1) + `}`)
}

// reloads replaces a source and an agent by new ones on the same stores, and checks that they have
// the same works.
func reloads(t *testing.T, s *scene, h *hub, a *spoke, atSource, atAgent work.Store) {
	t.Helper()
	specs, statuses := h.list("cluster1"), a.list()
	h.kill()
	a.kill()
	source, err := work.NewSource(s.bus.Transport(), work.SourceOptions{SourceID: "hub", Store: atSource})
	if err != nil {
		t.Fatalf("the source does not start again: %v", err)
	}
	agent, err := work.NewAgent(s.bus.Transport(), work.AgentOptions{ClusterName: "cluster1", Store: atAgent})
	if err != nil {
		t.Fatalf("the agent does not start again: %v", err)
	}
	got := (&hub{Source: source, t: t}).list("cluster1")
	if diff := cmp.Diff(specs.Items, got.Items, wholeTexts); diff != "" {
		t.Errorf("works of the source after its restart (-before +after):\n%s", diff)
	}
	got = (&spoke{Agent: agent, t: t, cluster: "cluster1"}).list()
	if diff := cmp.Diff(statuses.Items, got.Items, wholeTexts); diff != "" {
		t.Errorf("works of the agent after its restart (-before +after):\n%s", diff)
	}
}

// wholeTexts compares manifests as a whole. The comparison by byte, the default of cmp, would take
// most of the test's time for manifests of a hundred thousand bytes.
var wholeTexts = cmp.Options{
	cmpopts.EquateEmpty(),
	cmp.FilterValues(func(a, b []byte) bool { return len(a)+len(b) > 0 }, cmp.Comparer(bytes.Equal)),
}

func (a *spoke) list() *workv1.ManifestWorkList {
	a.t.Helper()
	list, err := a.works().List(a.t.Context(), metav1.ListOptions{})
	if err != nil {
		a.t.Fatal(err)
	}
	return list
}

// TestDeepManifestsAreRefused: a manifest is refused if it is nested so deep that its record could
// not be read.
func TestDeepManifestsAreRefused(t *testing.T) {
	inScene(t, func(s *scene) {
		atSource, atAgent := work.NewMemoryStore(), work.NewMemoryStore()
		h, a := s.source(work.SourceOptions{Store: atSource}), s.agent(work.AgentOptions{Store: atAgent})
		refused := func(err error) {
			t.Helper()
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.workload.manifests[0]: Invalid value") ||
				!strings.Contains(err.Error(), fmt.Sprint(codec.MaxManifestDepth)) {
				t.Errorf("%.200v, want Invalid, with the manifest and the limit", err)
			}
		}
		deepest := h.create("cluster1", deepWork("deepest", codec.MaxManifestDepth))
		for _, depth := range []int{codec.MaxManifestDepth + 1, 9_990, 9_999, 10_000, 20_000} {
			_, err := h.works("cluster1").Create(s.t.Context(), deepWork("deeper", depth), metav1.CreateOptions{})
			refused(err)
			next := deepest.DeepCopy()
			next.Spec = deepWork("", depth).Spec
			_, err = h.works("cluster1").Update(s.t.Context(), next, metav1.UpdateOptions{})
			refused(err)
		}
		quoted := newWork("quoted", strings.Repeat(`[{"\`, 20_000))
		h.create("cluster1", quoted) // brackets in strings do not nest
		s.settle()
		if got := a.get("deepest").Spec.Workload.Manifests[0].Raw; len(got) != len(deepManifest(codec.MaxManifestDepth)) {
			t.Errorf("the agent has %d bytes", len(got))
		}
		for _, depth := range []int{codec.MaxManifestDepth + 2, 9_990, 9_995, 9_999} {
			name := fmt.Sprint("wire", depth)
			spec := &codec.Spec{
				Header:  codec.Header{ID: "1", Source: "hub", Cluster: "cluster1"},
				WorkRef: codec.WorkRef{ResourceID: name, Version: 1, Name: name},
				Work:    newWork(name, ""),
			}
			topic, e, err := codec.ManifestWork.Encode(spec)
			if err != nil {
				t.Fatal(err)
			}
			e.DataEncoded = append(append([]byte(`{"manifests":[`), deepManifest(depth)...), "]}"...)
			publish(s, cloudevents.Message{Topic: topic, Event: e})
		}
		s.settle()
		reloads(t, s, h, a, atSource, atAgent)
	})
}

// TestTimesOutsideJSONAreRefused: a time that JSON cannot express is refused.
func TestTimesOutsideJSONAreRefused(t *testing.T) {
	inScene(t, func(s *scene) {
		atSource, atAgent := work.NewMemoryStore(), work.NewMemoryStore()
		h, a := s.source(work.SourceOptions{Store: atSource}), s.agent(work.AgentOptions{Store: atAgent})
		h.create("cluster1", newWork("app", "1"))
		s.settle()
		west := time.FixedZone("", -2*60*60)
		for _, tc := range []struct {
			name, reason string
			time         time.Time
			allowed      bool
		}{
			{"before the first", "RFC 3339 has no sign", time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC), false},
			{"the first", "four digits", time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), true},
			{"the last", "four digits", time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), true},
			{"after the last", "five digits", time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC), false},
			{"after the last in UTC", "times are written in UTC", time.Date(9999, 12, 31, 23, 0, 0, 0, west), false},
		} {
			obj := a.get("app")
			obj.Status.Conditions = []metav1.Condition{{
				Type: workv1.WorkApplied, Status: metav1.ConditionTrue, Reason: "Tested",
				LastTransitionTime: metav1.NewTime(tc.time),
			}}
			_, err := a.works().UpdateStatus(s.t.Context(), obj, metav1.UpdateOptions{})
			if tc.allowed && err != nil || !tc.allowed && !apierrors.IsInvalid(err) {
				t.Errorf("%s (%s): %v", tc.name, tc.reason, err)
			}
			obj = a.get("app")
			when, fields := metav1.NewTime(tc.time), metav1.NewFieldsV1(`{}`)
			obj.Labels = map[string]string{"year": fmt.Sprint(tc.time.Year())}
			obj.CreationTimestamp, obj.ManagedFields = when, []metav1.ManagedFieldsEntry{{
				Manager: "me", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "work.open-cluster-management.io/v1",
				Time: &when, FieldsType: "FieldsV1", FieldsV1: fields,
			}}
			_, _ = a.works().Update(s.t.Context(), obj, metav1.UpdateOptions{}) // whether refused or ignored
		}
		s.settle()
		reloads(t, s, h, a, atSource, atAgent)
	})
}

// TestAcceptedDataLoads: sources and agents can restart with all data that they have accepted,
// from their clientsets and from the wire.
func TestAcceptedDataLoads(t *testing.T) {
	for seed := range int64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inScene(t, func(s *scene) {
				atSource, atAgent := work.NewMemoryStore(), work.NewMemoryStore()
				h, a := s.source(work.SourceOptions{Store: atSource}), s.agent(work.AgentOptions{Store: atAgent})
				s.settle()
				w := &anyWrites{scene: s, h: h, a: a, random: rand.New(rand.NewSource(seed))}
				w.fill = w.filler()
				for i := range 40 {
					w.create(fmt.Sprint("w", i%20))
					w.spec(fmt.Sprint("x", i%20))
					s.settle()
					w.report()
					w.status(fmt.Sprint("x", i%20))
				}
				s.settle()
				if w.accepted < 15 || w.reported < 5 || len(a.list().Items) < 10 {
					t.Errorf("%d works and %d statuses accepted, %d works on the agent: too few to show anything",
						w.accepted, w.reported, len(a.list().Items))
				}
				reloads(t, s, h, a, atSource, atAgent)
			})
		})
	}
}

// anyWrites makes random writes. Many of them must be refused.
type anyWrites struct {
	*scene
	h                  *hub
	a                  *spoke
	random             *rand.Rand
	fill               *randfill.Filler
	accepted, reported int
}

func one[T any](random *rand.Rand, list ...T) T { return list[random.Intn(len(list))] }

func (w *anyWrites) filler() *randfill.Filler {
	return randfill.New().RandSource(w.random).NilChance(.3).NumElements(0, 3).Funcs(
		func(t *metav1.Time, _ randfill.Continue) {
			*t = one(w.random, metav1.Unix(w.random.Int63n(1<<33), 0), metav1.Time{},
				metav1.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC),
				metav1.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", w.random.Intn(7200)-3600)))
		},
		func(m *workv1.Manifest, c randfill.Continue) {
			m.Raw = one(w.random, deepManifest(codec.MaxManifestDepth+w.random.Intn(3)-1), deepManifest(9_990+w.random.Intn(12)),
				newWork("a", c.String(10)).Spec.Workload.Manifests[0].Raw,
				fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Kind","metadata":{},"%s":1e999,"a":"\ud800"}`, "\u2028<>&"))
		},
		func(s *metav1.ConditionStatus, _ randfill.Continue) { *s = metav1.ConditionTrue },
		func(v *workv1.FieldValue, c randfill.Continue) {
			text := c.String(10)
			*v = workv1.FieldValue{Type: workv1.JsonRaw, JsonRaw: &text}
		},
	)
}

// create creates or updates a work through the source's clientset.
func (w *anyWrites) create(name string) {
	obj := newWork(name, "")
	w.fill.Fill(&obj.Spec.Workload)
	w.fill.Fill(&obj.OwnerReferences)
	w.fill.Fill(&obj.ManagedFields)
	w.fill.Fill(&obj.CreationTimestamp)
	w.fill.Fill(&obj.DeletionTimestamp)
	obj.Annotations = map[string]string{"a": string([]rune{0, '<', 0x2028, rune(w.random.Intn(256))})}
	if w.random.Intn(2) == 0 {
		obj.OwnerReferences = nil // few are valid
	}
	_, err := w.h.works("cluster1").Create(w.t.Context(), obj, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		obj.DeletionTimestamp = nil // otherwise no update would be accepted
		_, err = w.h.works("cluster1").Update(w.t.Context(), obj, metav1.UpdateOptions{})
	}
	if err == nil {
		w.accepted++
	}
}

// spec sends a spec of another source to the agent.
func (w *anyWrites) spec(name string) {
	spec := &codec.Spec{
		Header:  codec.Header{ID: "1", Source: "wild", Cluster: "cluster1", Time: time.Now()},
		WorkRef: codec.WorkRef{ResourceID: name, Version: 1 + w.random.Int63n(9), Name: name},
		Work:    &workv1.ManifestWork{},
	}
	w.fill.Fill(&spec.Work.Spec)
	w.fill.Fill(&spec.Work.ObjectMeta)
	w.send(spec)
}

// status sends a status to the source. It is about an existing work if the source has works.
func (w *anyWrites) status(name string) {
	status := &codec.Status{
		Header:     codec.Header{ID: "1", Source: "hub", Cluster: "cluster1", Agent: "wild", Time: time.Now()},
		WorkRef:    codec.WorkRef{ResourceID: name, Version: 1 + w.random.Int63n(9), Name: name},
		SequenceID: w.random.Int63n(9),
	}
	if list := w.h.list("cluster1").Items; len(list) > 0 {
		about := list[w.random.Intn(len(list))]
		status.ResourceID, status.Name = codec.ResourceID("hub", "cluster1", about.Name), about.Name
		status.UID, status.Version = about.UID, soon()
	}
	w.fill.Fill(&status.Status)
	w.send(status)
}

func (w *anyWrites) send(m codec.Message) {
	topic, e, err := codec.ManifestWork.Encode(m)
	if err == nil { // messages that cannot be encoded are not tested here
		publish(w.scene, cloudevents.Message{Topic: topic, Event: e})
	}
}

// report writes a status through the agent's clientset.
func (w *anyWrites) report() {
	list := w.a.list().Items
	if len(list) == 0 {
		return
	}
	obj := &list[w.random.Intn(len(list))]
	w.fill.Fill(&obj.Status)
	for i := range obj.Status.Conditions {
		c := &obj.Status.Conditions[i]
		c.Type, c.Reason, c.ObservedGeneration = fmt.Sprint("T", i), "R", int64(i)
	}
	obj.Status.ResourceStatus.Manifests = nil
	if _, err := w.a.works().UpdateStatus(w.t.Context(), obj, metav1.UpdateOptions{}); err == nil {
		w.reported++
	}
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{"l":"%d"},"finalizers":["example.com/%d"]}}`, w.random.Intn(3),
		w.random.Intn(3))
	// the work may be gone
	_, _ = w.a.works().Patch(w.t.Context(), obj.Name, types.MergePatchType, patch, metav1.PatchOptions{})
}

// keyStore is a store that records the longest key.
type keyStore struct {
	work.Store
	mu      sync.Mutex
	longest string
}

func newKeyStore(t *testing.T) *keyStore {
	t.Helper()
	file, err := boltstore.Open(filepath.Join(t.TempDir(), "works.db"), boltstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	})
	return &keyStore{Store: file}
}

func (s *keyStore) Apply(ctx context.Context, changes []work.Change) error {
	s.mu.Lock()
	for _, c := range changes {
		if len(c.Key) > len(s.longest) {
			s.longest = c.Key
		}
	}
	s.mu.Unlock()
	return s.Store.Apply(ctx, changes)
}

func (s *keyStore) check(t *testing.T, want string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.longest) > work.MaxKeyLength || !strings.HasSuffix(s.longest, want) {
		t.Errorf("the longest key has %d bytes: %.100s…", len(s.longest), s.longest)
	}
}

// TestLongIDs: the longest identifiers that the wire format allows fit into a store. An event with
// a longer identifier is refused, and does not block other writes.
func TestLongIDs(t *testing.T) {
	inScene(t, func(s *scene) {
		longest := strings.Repeat("i", codec.MaxIDLength)
		cluster, other := strings.Repeat("c", codec.MaxNameLength), strings.Repeat("s", codec.MaxNameLength)
		atSource, atAgent := newKeyStore(t), newKeyStore(t)
		h, a := s.source(work.SourceOptions{Store: atSource}), s.agent(work.AgentOptions{Store: atAgent})
		s.settleProcesses()
		if err := h.InventoryComplete(s.t.Context()); err != nil {
			t.Fatal(err)
		}
		h.create("cluster1", newWork("before", "1"))
		withoutUID := codec.WorkRef{ResourceID: longest, Version: 7, Name: longest}
		for _, m := range []codec.Message{
			&codec.Status{Header: codec.Header{ID: "1", Source: "hub", Cluster: cluster, Agent: "a"}, WorkRef: withoutUID},
			&codec.Spec{Header: codec.Header{ID: "1", Source: other, Cluster: "cluster1"}, WorkRef: withoutUID,
				Work: newWork("", "")},
		} {
			topic, e, err := codec.ManifestWork.Encode(m)
			if err != nil {
				t.Fatal(err)
			}
			publish(s, cloudevents.Message{Topic: topic, Event: e})
			s.settleProcesses()
			publish(s, cloudevents.Message{Topic: topic, Event: e})
			for _, n := range []int{codec.MaxIDLength + 1, 40_000} {
				long := e.Clone()
				for name := range e.Extensions() {
					if strings.HasSuffix(name, "resourceid") {
						long.SetExtension(name, strings.Repeat("x", n))
					}
				}
				publish(s, cloudevents.Message{Topic: topic, Event: &long})
			}
		}
		s.settle()
		atSource.check(t, "/"+longest)
		atAgent.check(t, "/"+longest)
		h.create("cluster1", newWork("after", "1"))
		s.settle()
		a.report("after", "done")
		s.settle()
		if got := applied(h.get("cluster1", "after")); got != "done" {
			t.Errorf("the source shows %q", got)
		}
		for name, healthy := range map[string]func() error{"source": h.Healthy, "agent": a.Healthy} {
			if err := healthy(); err != nil {
				t.Errorf("the %s: %v", name, err)
			}
		}
	})
}
