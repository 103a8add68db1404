// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/spokewire/sdk-go/dynamicwatcher"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
)

// wire counts the bytes of the responses to watches, and records their content types.
type wire struct {
	bytes    atomic.Int64
	requests atomic.Int64

	mu    sync.Mutex
	types map[string]int
	asked []string
}

// measured returns a configuration with counted responses.
func measured(config *rest.Config) (*rest.Config, *wire) {
	w := &wire{types: map[string]int{}}
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &meter{w, next} })
	return config, w
}

type meter struct {
	*wire
	next http.RoundTripper
}

func (m *meter) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := m.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	m.requests.Add(1)
	m.mu.Lock()
	m.types[strings.Split(response.Header.Get("Content-Type"), ";")[0]]++
	m.asked = append(m.asked, r.URL.RequestURI())
	m.mu.Unlock()
	response.Body = &countedBody{response.Body, &m.bytes}
	return response, nil
}

type countedBody struct {
	io.ReadCloser
	bytes *atomic.Int64
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.bytes.Add(int64(n))
	return n, err
}

// widgetResource is the resource of the kind that is created and deleted.
var widgetResource = schema.GroupVersionResource{Group: "kinds.example.com", Version: "v1", Resource: "widgets"}

func widgetID(namespace, name string) dynamicwatcher.ObjectIdentifier {
	return dynamicwatcher.ObjectIdentifier{Group: widgetResource.Group, Version: "v1", Kind: "Widget",
		Namespace: namespace, Name: name}
}

// TestWatcherKinds: a kind is created, deleted and created again, and its objects are always read
// as metadata in protobuf.
func TestWatcherKinds(t *testing.T) {
	cluster := kube.Shared(t)
	dyn, ns := newDynamic(t, cluster), newWriter(t, cluster).namespace("kinds")
	widgets := dyn.Resource(widgetResource).Namespace(ns)
	create := func(name string) {
		t.Helper()
		o := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "kinds.example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": name},
			"spec": map[string]any{"text": strings.Repeat("x", 10_000)},
		}}
		if _, err := widgets.Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	config, wire := measured(cluster.Config())
	strict := startWatcher(t, config, dynamicwatcher.Options{}, nil)
	p, q := configMapID(ns, "p"), configMapID(ns, "q")
	if err := strict.AddWatcher(p, widgetID(ns, "a")); !errors.Is(err, dynamicwatcher.ErrNoVersionedResource) {
		t.Fatalf("a kind that does not exist: %v", err)
	}
	w := startWatcher(t, config, dynamicwatcher.Options{MissingKind: dynamicwatcher.Wait}, nil)
	w.watch(p, widgetID(ns, "a"))
	w.watch(q, widgetID(ns, "b"))
	crd := crdOf("kinds.example.com", "Widget", "widgets")
	establish(t, dyn, crd)
	begin := time.Now()
	w.active()
	began := time.Since(begin)
	create("a") // the API server itself delays it by two seconds
	begin = time.Now()
	w.eventuallyTold(p, dynamicwatcher.TriggerAdded)
	t.Logf("%v from established to watched, %v from created to reconciled", began, time.Since(begin))
	if took := began + time.Since(begin); took > 3*time.Second {
		t.Errorf("%v", took)
	}

	crds := dyn.Resource(crdResource)
	if err := crds.Delete(t.Context(), crd.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventuallyTold(p, dynamicwatcher.TriggerAdded, dynamicwatcher.TriggerDeleted)
	w.eventually("the kind is missed", func() error {
		for _, s := range w.Status() {
			if s.State != dynamicwatcher.StatePendingKind {
				return fmt.Errorf("%s is %s", s.Object, s.State)
			}
		}
		return nil
	})
	time.Sleep(time.Second)
	if got := w.count(q); got != 0 {
		t.Errorf("%d reconciles for an object that never was", got)
	}

	establish(t, dyn, crd)
	begin = time.Now()
	w.active()
	began = time.Since(begin)
	create("a") // the API server itself delays it by two seconds
	begin = time.Now()
	w.eventuallyTold(p, dynamicwatcher.TriggerAdded, dynamicwatcher.TriggerDeleted, dynamicwatcher.TriggerAdded)
	t.Logf("%v from established again to watched, %v from created to reconciled", began, time.Since(begin))
	if took := began + time.Since(begin); took > 3*time.Second {
		t.Errorf("%v", took)
	}
	before := wire.bytes.Load()
	create("b")
	w.eventuallyCount(q, 1)
	if n := wire.bytes.Load() - before; n > 1000 {
		t.Errorf("an event of an object of 10 KB had %d bytes", n)
	}
	wire.mu.Lock()
	defer wire.mu.Unlock()
	t.Log(wire.types)
	if wire.types["application/vnd.kubernetes.protobuf"] == 0 {
		t.Errorf("the answers are %v", wire.types)
	}
}

// TestWatcherSelector: of 5,000 objects only the matching ones are reported, and the cost of an
// event is that of one object.
func TestWatcherSelector(t *testing.T) {
	cluster := kube.Shared(t)
	client := newWriter(t, cluster)
	config, wire := measured(cluster.Config())
	cost := map[string]int64{}
	for _, size := range []struct {
		ns string
		n  int
	}{{"few", 50}, {"lots", 5000}} {
		ns := client.namespace(size.ns)
		var writers sync.WaitGroup
		for part := range 8 {
			writers.Go(func() {
				for i := part; i < size.n; i += 8 {
					s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("s", i),
						Labels: map[string]string{"app": fmt.Sprint("a", i%2)}}}
					if _, err := client.CoreV1().Secrets(ns).Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		writers.Wait()
		w := startWatcher(t, config, dynamicwatcher.Options{}, nil)
		watched := secretID(ns, "")
		watched.Selector = "app=a1"
		p := policyID(ns, "p")
		w.watch(p, watched)
		w.eventuallyCount(p, 1)
		before := wire.bytes.Load()
		relabel := func(name, app string) {
			t.Helper()
			s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": app}}}
			if _, err := client.CoreV1().Secrets(ns).Update(t.Context(), s, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		relabel("s0", "a1")
		w.eventuallyCount(p, 2)
		cost[size.ns] = wire.bytes.Load() - before
		if got := w.last(p); got != dynamicwatcher.TriggerAdded {
			t.Errorf("told of %q", got)
		}
		relabel("s0", "a0")
		w.eventuallyCount(p, 3)
		if got := w.last(p); got != dynamicwatcher.TriggerDeleted {
			t.Errorf("told of %q", got)
		}
		relabel("s2", "a2")
		w.quiet(200 * time.Millisecond)
		if got := w.GetWatchCount(); got != 1 {
			t.Errorf("%d watches", got)
		}
	}
	t.Logf("bytes of an event: %v", cost)
	if cost["lots"] > cost["few"]+16 || cost["lots"] == 0 {
		t.Errorf("bytes of an event: %v", cost)
	}
}

// TestWatcherLargeObject: an event of a secret of 500 KB contains only metadata.
func TestWatcherLargeObject(t *testing.T) {
	cluster := kube.Shared(t)
	client := newWriter(t, cluster)
	ns := client.namespace("large")
	client.setSecret(ns, "s", strings.Repeat("x", 500_000))
	config, wire := measured(cluster.Config())
	w := startWatcher(t, config, dynamicwatcher.Options{}, nil)
	p := policyID(ns, "p")
	w.watch(p, secretID(ns, "s"))
	w.eventuallyCount(p, 1)
	before := wire.bytes.Load()
	client.setSecret(ns, "s", strings.Repeat("y", 500_000))
	w.eventuallyCount(p, 2)
	n := wire.bytes.Load() - before
	t.Logf("%d bytes for an event", n)
	if n > 400 {
		t.Errorf("%d bytes for an event", n)
	}
}

// TestWatcherWithoutWatchList: a server without streaming lists receives a LIST and a WATCH.
func TestWatcherWithoutWatchList(t *testing.T) {
	t.Parallel()
	cluster := kube.Start(t, kube.Options{APIServerFlags: map[string][]string{"feature-gates": {"WatchList=false"}}})
	client := newWriter(t, cluster)
	createSecrets(client, "default", 100)
	allow(t, client, "default", "narrow", "s0")
	config, wire := measured(cluster.Config())
	w := startWatcher(t, config, dynamicwatcher.Options{}, nil)
	watchMany(w, "default", 100)
	w.settled(100)
	client.setSecret("default", "s1", "2")
	w.settled(101)
	before := w.dials.Load()
	cluster.KillAPIServer()
	cluster.StartAPIServer()
	w.restarts()
	w.active()
	w.settled(101)
	client.deleteSecret("default", "s2")
	w.eventuallyCount(policyID("default", "p2"), 2)
	if got := w.last(policyID("default", "p2")); got != dynamicwatcher.TriggerDeleted {
		t.Errorf("told of %q", got)
	}
	client.setSecret("default", "s2", "1")
	w.eventuallyCount(policyID("default", "p2"), 3)
	t.Logf("%d requests, %d attempts to connect again", wire.requests.Load(), w.dials.Load()-before)

	narrow := startWatcher(t, cluster.User("narrow"), dynamicwatcher.Options{}, nil)
	narrow.watch(policyID("default", "p"), secretID("default", "s0"))
	narrow.eventuallyCount(policyID("default", "p"), 1)
}
