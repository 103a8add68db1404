// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/testing/worktest"
)

var (
	newWork   = worktest.New
	valueOf   = worktest.Value
	applied   = worktest.Applied
	messageOf = worktest.Message
)

// scene has an in-process broker for a script of operations, on which it starts sources and agents.
// It runs inside a synctest bubble, so time is virtual.
type scene struct {
	t   *testing.T
	bus *memory.Bus
}

func inScene(t *testing.T, script func(*scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		script(&scene{t: t, bus: memory.New()})
	})
}

// settle waits until all events of the next two seconds have been handled.
func (s *scene) settle() {
	s.t.Helper()
	time.Sleep(2 * time.Second) // virtual time
	synctest.Wait()
}

// settleProcesses waits until connected sources have checked twice that no other process has their
// ID. Only then do they delete unknown works.
func (s *scene) settleProcesses() {
	s.t.Helper()
	time.Sleep(40 * time.Second)
	synctest.Wait()
}

// reconnect disconnects all clients from the broker, and connects them again.
func (s *scene) reconnect() {
	s.t.Helper()
	s.bus.Disconnect()
	s.settle()
	s.bus.Reconnect()
	s.settle()
}

// spoilSpecs replaces the data of each later spec event of a source.
func (s *scene) spoilSpecs(source, data string) {
	s.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
		if strings.HasPrefix(m.Topic, "/sources/"+source+"/clusters/") && strings.HasSuffix(m.Topic, "/manifests") {
			spoilt := m.Event.Clone()
			spoilt.DataEncoded = []byte(data)
			m.Event = &spoilt
		}
		deliver(m)
	})
}

// link is a transport with a connection that can be cut. The bus can only cut all connections
// together.
type link struct {
	cloudevents.Transport
	mu   sync.Mutex
	cut  bool
	conn cloudevents.Conn
}

func (l *link) Connect(ctx context.Context, o cloudevents.ConnectOptions) (cloudevents.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		return nil, errors.New("the link is cut")
	}
	conn, err := l.Transport.Connect(ctx, o)
	if err == nil {
		l.conn = conn
	}
	return conn, err
}

// setCut cuts the link, or restores it. A cut link ends its connection and refuses new connections.
func (l *link) setCut(on bool) {
	l.mu.Lock()
	l.cut = on
	conn := l.conn
	l.mu.Unlock()
	if on && conn != nil {
		_ = conn.Close() // the connection ends even with an error
	}
}

// steppedClock is the wall clock of a process, which a test can set. Its timers run normally.
type steppedClock struct {
	clock.RealClock
	offset atomic.Int64
}

func (c *steppedClock) set(offset time.Duration) *steppedClock {
	c.offset.Store(int64(offset))
	return c
}

func (c *steppedClock) Now() time.Time                  { return c.RealClock.Now().Add(time.Duration(c.offset.Load())) }
func (c *steppedClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// process is a started source or agent.
type process struct {
	stop context.CancelFunc
	done chan struct{}
}

type starter interface{ Start(context.Context) error }

func (s *scene) run(p starter) *process {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	out := &process{stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(out.done)
		if err := p.Start(ctx); err != nil {
			s.t.Errorf("Start: %v", err)
		}
	}()
	s.t.Cleanup(out.kill)
	return out
}

// kill ends the process and waits for its goroutines.
func (p *process) kill() {
	p.stop()
	<-p.done
}

type hub struct {
	*work.Source
	*process
	t *testing.T
}

func (s *scene) source(options work.SourceOptions) *hub {
	s.t.Helper()
	if options.SourceID == "" {
		options.SourceID = "hub"
	}
	return s.sourceOn(s.bus.Transport(), options)
}

func (s *scene) sourceOn(transport cloudevents.Transport, options work.SourceOptions) *hub {
	s.t.Helper()
	source, err := work.NewSource(transport, options)
	if err != nil {
		s.t.Fatal(err)
	}
	return &hub{Source: source, process: s.run(source), t: s.t}
}

func (h *hub) works(cluster string) worktyped.ManifestWorkInterface {
	return h.Clientset().WorkV1().ManifestWorks(cluster)
}

// complete declares that the source has all its works.
func (h *hub) complete() {
	h.t.Helper()
	if err := h.InventoryComplete(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
}

type spoke struct {
	*work.Agent
	*process
	t       *testing.T
	cluster string
}

func (s *scene) agent(options work.AgentOptions) *spoke {
	s.t.Helper()
	if options.ClusterName == "" {
		options.ClusterName = "cluster1"
	}
	return s.agentOn(s.bus.Transport(), options)
}

func (s *scene) agentOn(transport cloudevents.Transport, options work.AgentOptions) *spoke {
	s.t.Helper()
	agent, err := work.NewAgent(transport, options)
	if err != nil {
		s.t.Fatal(err)
	}
	return &spoke{Agent: agent, process: s.run(agent), t: s.t, cluster: options.ClusterName}
}

func (a *spoke) works() worktyped.ManifestWorkInterface {
	return a.Clientset().WorkV1().ManifestWorks(a.cluster)
}

func (h *hub) create(cluster string, obj *workv1.ManifestWork) *workv1.ManifestWork {
	h.t.Helper()
	out, err := h.works(cluster).Create(h.t.Context(), obj, metav1.CreateOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	return out
}

func (h *hub) setValue(cluster, name, value string) *workv1.ManifestWork {
	h.t.Helper()
	var out *workv1.ManifestWork
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		obj := h.get(cluster, name)
		obj.Spec = newWork(name, value).Spec
		var err error
		out, err = h.works(cluster).Update(h.t.Context(), obj, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return out
}

func (h *hub) delete(cluster, name string) {
	h.t.Helper()
	if err := h.works(cluster).Delete(h.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		h.t.Fatal(err)
	}
}

func (h *hub) get(cluster, name string) *workv1.ManifestWork {
	h.t.Helper()
	obj, err := h.works(cluster).Get(h.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	return obj
}

func (a *spoke) get(name string) *workv1.ManifestWork {
	a.t.Helper()
	obj, err := a.works().Get(a.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		a.t.Fatal(err)
	}
	return obj
}

func (a *spoke) names() []string {
	a.t.Helper()
	list, err := a.works().List(a.t.Context(), metav1.ListOptions{})
	if err != nil {
		a.t.Fatal(err)
	}
	names := []string{}
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}

// report sets the condition Applied of a work, with a message.
func (a *spoke) report(name, message string) {
	a.t.Helper()
	patch := fmt.Sprintf(
		`{"status":{"conditions":[{"type":"Applied","status":"True","reason":"Tested","message":%q,"lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, message)
	a.patch(name, []byte(patch), "status")
}

// patch applies a merge patch. It ignores the error if the work no longer exists.
func (a *spoke) patch(name string, data []byte, subresources ...string) {
	a.t.Helper()
	_, err := a.works().Patch(a.t.Context(), name, types.MergePatchType, data, metav1.PatchOptions{}, subresources...)
	if err != nil && !apierrors.IsNotFound(err) {
		a.t.Fatal(err)
	}
}

func (a *spoke) setFinalizers(name string, finalizers ...string) {
	a.t.Helper()
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": finalizers}})
	if err != nil {
		a.t.Fatal(err)
	}
	a.patch(name, data)
}

// informer starts the shared informer of a factory. It runs until the test ends.
func (s *scene) informer(factory workinformers.SharedInformerFactory) cache.SharedIndexInformer {
	informer := factory.Work().V1().ManifestWorks().Informer()
	// The default handler waits by a clock of the process, which is decades ahead of the bubble's
	// clock.
	if err := informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {}); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	factory.Start(ctx.Done())
	s.t.Cleanup(func() {
		cancel()
		factory.Shutdown()
	})
	return informer
}

// held returns the value and the report of each work of a list, by name.
func held(
	t *testing.T, list func(context.Context, metav1.ListOptions) (*workv1.ManifestWorkList, error),
) map[string]string {
	t.Helper()
	works, err := list(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for i := range works.Items {
		w := &works.Items[i]
		out[w.Name] = valueOf(t, w) + " " + applied(w)
		if w.DeletionTimestamp != nil {
			out[w.Name] += " deleted"
		}
	}
	return out
}
