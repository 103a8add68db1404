// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package load_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/mqtt"
)

const cluster = "cluster1"

// process is a source or an agent.
type process interface {
	Start(ctx context.Context) error
	Ready() <-chan struct{}
	Clientset() workclientset.Interface
}

// start runs a process, without a log, until the end of the test. It returns when the process is
// connected.
func start(t testing.TB, p process) {
	t.Helper()
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	done := make(chan error, 1)
	go func() { done <- p.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Start: %v", err)
		}
	})
	select {
	case <-p.Ready():
	case <-time.After(time.Minute):
		t.Fatal("not connected within a minute")
	}
}

// wire is an MQTT transport that counts sent messages.
type wire struct {
	cloudevents.Transport
	connects, specs, statuses, others, bytes atomic.Int64 // sent
	unread                                   atomic.Bool  // messages about the cluster "rogue" are dropped
}

func newWire(t testing.TB, options mqtt.Options) *wire {
	t.Helper()
	transport, err := mqtt.New(options)
	if err != nil {
		t.Fatal(err)
	}
	return &wire{Transport: transport}
}

func (w *wire) Connect(ctx context.Context, o cloudevents.ConnectOptions) (cloudevents.Conn, error) {
	w.connects.Add(1)
	receive := o.Receive
	o.Receive = func(m cloudevents.Message) {
		if !w.unread.Load() || !strings.Contains(m.Topic, "/rogue/") {
			receive(m)
		}
	}
	conn, err := w.Transport.Connect(ctx, o)
	if err != nil {
		return nil, err
	}
	return &wireConn{conn, w}, nil
}

type wireConn struct {
	cloudevents.Conn
	wire *wire
}

func (c *wireConn) Publish(ctx context.Context, m cloudevents.Message, done func(error)) error {
	switch kind := m.Event.Type(); {
	case strings.Contains(kind, "spec.created"):
		c.wire.specs.Add(1)
	case strings.Contains(kind, "status.created"):
		c.wire.statuses.Add(1)
	default:
		c.wire.others.Add(1)
	}
	c.wire.bytes.Add(int64(len(m.Topic) + len(m.Event.DataEncoded)))
	return c.Conn.Publish(ctx, m, done)
}

// newWork returns a work with one ConfigMap that holds value.
func newWork(name, value string) *workv1.ManifestWork {
	raw := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":"default"},"data":{"value":%q}}`, name, value)
	return &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{
			Manifests: []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(raw)}}},
		}},
	}
}

func create(c workclientset.Interface, cluster, name, value string) error {
	_, err := c.WorkV1().ManifestWorks(cluster).Create(context.Background(), newWork(name, value), metav1.CreateOptions{})
	return err
}

// report patches the status of a work.
func report(c workclientset.Interface, cluster, name string) error {
	const patch = `{"status":{"conditions":[{"type":"Applied","status":"True","reason":"Tested","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`
	_, err := c.WorkV1().ManifestWorks(cluster).Patch(context.Background(), name, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{}, "status")
	return err
}

// applied reports whether a work has the condition that report sets.
func applied(w *workv1.ManifestWork) bool {
	for i := range w.Status.Conditions {
		if w.Status.Conditions[i].Type == workv1.WorkApplied {
			return true
		}
	}
	return false
}

// informer runs a shared informer until the end of the test. It returns when the informer has synced.
func informer(t testing.TB, c workclientset.Interface, handler cache.ResourceEventHandlerFuncs) {
	t.Helper()
	factory := workinformers.NewSharedInformerFactory(c, 0)
	shared := factory.Work().V1().ManifestWorks().Informer()
	if _, err := shared.AddEventHandler(handler); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	factory.Start(stop)
	t.Cleanup(func() {
		close(stop)
		factory.Shutdown()
	})
	factory.WaitForCacheSync(stop)
}

// parallel runs do(i) for each i below n in the given number of goroutines.
func parallel(t testing.TB, goroutines, n int, do func(i int) error) {
	t.Helper()
	var next atomic.Int64
	var group sync.WaitGroup
	for range goroutines {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}
