// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work"
)

// flaky is a clientset with watches that the test can break, like connections to an API server.
type flaky struct {
	workclientset.Interface
	down atomic.Bool
	mu   sync.Mutex
	open []watch.Interface
}

func (f *flaky) WorkV1() worktyped.WorkV1Interface { return &flakyV1{f.Interface.WorkV1(), f} }

type flakyV1 struct {
	worktyped.WorkV1Interface
	f *flaky
}

func (v *flakyV1) ManifestWorks(namespace string) worktyped.ManifestWorkInterface {
	return &flakyWorks{v.WorkV1Interface.ManifestWorks(namespace), v.f}
}

type flakyWorks struct {
	worktyped.ManifestWorkInterface
	f *flaky
}

func (w *flakyWorks) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if w.f.down.Load() {
		return nil, errors.New("connection refused")
	}
	out, err := w.ManifestWorkInterface.Watch(ctx, o)
	if err == nil {
		w.f.mu.Lock()
		w.f.open = append(w.f.open, out)
		w.f.mu.Unlock()
	}
	return out, err
}

func (f *flaky) cut() {
	f.down.Store(true)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.open {
		w.Stop()
	}
	f.open = nil
}

// history records the events that an informer sends to a handler, and checks each of them.
type history struct {
	mu     sync.Mutex
	t      *testing.T
	exists map[string]uint64 // resourceVersion
	events int
}

func (h *history) handler() cache.ResourceEventHandlerFuncs {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { h.saw("add", obj, false, true) },
		UpdateFunc: func(_, obj any) { h.saw("update", obj, true, true) },
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			h.saw("delete", obj, true, false)
		},
	}
}

// saw checks that an event fits the earlier state, and that no object returns to an older version.
func (h *history) saw(event string, obj any, before, after bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events++
	w := obj.(*workv1.ManifestWork)
	version, err := strconv.ParseUint(w.ResourceVersion, 10, 64)
	if err != nil {
		h.t.Error(err)
	}
	last, existed := h.exists[w.Name]
	if existed != before {
		h.t.Errorf("%s of %s, which existed: %t", event, w.Name, existed)
	}
	if event != "delete" && version < last {
		h.t.Errorf("%s of %s went back from version %d to %d", event, w.Name, last, version)
	}
	if after {
		h.exists[w.Name] = version
	} else {
		delete(h.exists, w.Name)
	}
}

// TestInformerStaysConsistent: the handler of an informer ends with the state of the clientset, and
// receives no inconsistent event. This holds over hours of writes, watch timeouts, cut watches, and
// gaps too long to resume from.
func TestInformerStaysConsistent(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			inScene(t, func(s *scene) {
				random := rand.New(rand.NewPCG(seed, 3))
				h := s.source(work.SourceOptions{})
				h.complete()
				a := s.agent(work.AgentOptions{Sources: []string{"hub"}})
				s.settle()
				clients := []*flaky{{Interface: h.Clientset()}, {Interface: a.Clientset()}}
				var histories []*history
				var informers []cache.SharedIndexInformer
				for _, c := range clients {
					informer := s.informer(workinformers.NewSharedInformerFactory(c, 0))
					hist := &history{t: s.t, exists: map[string]uint64{}}
					if _, err := informer.AddEventHandler(hist.handler()); err != nil {
						s.t.Fatal(err)
					}
					histories, informers = append(histories, hist), append(informers, informer)
				}
				for range 30 {
					writes := 10
					switch random.IntN(4) {
					case 0:
						clients[random.IntN(2)].cut()
					case 1:
						clients[random.IntN(2)].cut()
						writes = 1500 // more than a watch can resume from
					case 2:
						s.bus.Disconnect()
					}
					for range writes {
						randomWrite(s, h, random)
					}
					time.Sleep(time.Duration(random.IntN(300)) * time.Second)
					s.bus.Reconnect()
					for _, c := range clients {
						c.down.Store(false)
					}
				}
				time.Sleep(5 * time.Minute) // longer than any backoff
				s.settle()
				for i, c := range clients {
					compareInformer(s.t, c, informers[i], histories[i])
				}
			})
		})
	}
}

func randomWrite(s *scene, h *hub, random *rand.Rand) {
	name := fmt.Sprint("w", random.IntN(12))
	works := h.works("cluster1")
	_, err := works.Get(s.t.Context(), name, metav1.GetOptions{})
	switch {
	case err != nil:
		_, err = works.Create(s.t.Context(), newWork(name, "0"), metav1.CreateOptions{})
	case random.IntN(8) == 0:
		err = works.Delete(s.t.Context(), name, metav1.DeleteOptions{})
	default:
		patch := fmt.Sprintf(`{"metadata":{"labels":{"n":"%d"}}}`, random.Int())
		_, err = works.Patch(s.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	}
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) {
		s.t.Fatal(err)
	}
}

func compareInformer(t *testing.T, c *flaky, informer cache.SharedIndexInformer, hist *history) {
	t.Helper()
	list, err := c.WorkV1().ManifestWorks("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want, got, last := map[string]string{}, map[string]string{}, map[string]string{}
	for i := range list.Items {
		want[list.Items[i].Name] = list.Items[i].ResourceVersion
	}
	for _, obj := range informer.GetStore().List() {
		w := obj.(*workv1.ManifestWork)
		got[w.Name] = w.ResourceVersion
	}
	for name, version := range hist.exists {
		last[name] = fmt.Sprint(version)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the informer's store (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, last); diff != "" {
		t.Errorf("last versions of the handler (-want +got):\n%s", diff)
	}
	if hist.events < 100 {
		t.Errorf("only %d events", hist.events)
	}
}
