// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/spokewire/sdk-go/dynamicwatcher"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
)

// watcherLimit is the time limit of events that take milliseconds on an idle machine.
const watcherLimit = time.Minute

func secretID(namespace, name string) dynamicwatcher.ObjectIdentifier {
	return dynamicwatcher.ObjectIdentifier{Version: "v1", Kind: "Secret", Namespace: namespace, Name: name}
}

func configMapID(namespace, name string) dynamicwatcher.ObjectIdentifier {
	return dynamicwatcher.ObjectIdentifier{Version: "v1", Kind: "ConfigMap", Namespace: namespace, Name: name}
}

func policyID(namespace, name string) dynamicwatcher.ObjectIdentifier {
	return dynamicwatcher.ObjectIdentifier{Group: "policy.example.com", Version: "v1", Kind: "Policy",
		Namespace: namespace, Name: name}
}

// watcher is a running dynamic watcher, with its reconciles.
type watcher struct {
	dynamicwatcher.DynamicWatcher
	t     testing.TB
	dials atomic.Int64         // attempts to connect
	open  atomic.Int64         // connections
	stop  func() time.Duration // returns the duration of the stop; further calls do nothing

	mu    sync.Mutex
	calls map[dynamicwatcher.ObjectIdentifier][]dynamicwatcher.Trigger // one for each reconcile
	do    func(context.Context, dynamicwatcher.ObjectIdentifier) (reconcile.Result, error)
}

// counted is a connection that reports its close.
type counted struct {
	net.Conn
	end func()
}

func (c *counted) Close() error {
	c.end()
	return c.Conn.Close()
}

func (w *watcher) Reconcile(ctx context.Context, id dynamicwatcher.ObjectIdentifier) (reconcile.Result, error) {
	w.mu.Lock()
	t := dynamicwatcher.Trigger{}
	if triggers := dynamicwatcher.TriggersFrom(ctx); len(triggers) > 0 {
		t = triggers[len(triggers)-1]
	}
	w.calls[id] = append(w.calls[id], t)
	do := w.do
	w.mu.Unlock()
	if do == nil {
		return reconcile.Result{}, nil
	}
	return do(ctx, id)
}

// startWatcher runs a watcher until the test ends.
func startWatcher(
	t testing.TB, config *rest.Config, options dynamicwatcher.Options,
	do func(context.Context, dynamicwatcher.ObjectIdentifier) (reconcile.Result, error),
) *watcher {
	t.Helper()
	w := &watcher{t: t, do: do, calls: map[dynamicwatcher.ObjectIdentifier][]dynamicwatcher.Trigger{}}
	config = rest.CopyConfig(config)
	dialer := net.Dialer{}
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		w.dials.Add(1)
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		w.open.Add(1)
		return &counted{Conn: conn, end: sync.OnceFunc(func() { w.open.Add(-1) })}, nil
	}
	var err error
	if w.DynamicWatcher, err = dynamicwatcher.NewForConfig(config, w, &options); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Start(ctx) }()
	<-w.Started()
	w.stop = sync.OnceValue(func() time.Duration {
		begin := time.Now()
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("Start: %v", err)
			}
		case <-time.After(watcherLimit):
			t.Error("Start has not returned")
		}
		return time.Since(begin)
	})
	t.Cleanup(func() { w.stop() })
	return w
}

// watch adds watched objects, and waits until their watches are active.
func (w *watcher) watch(watcher dynamicwatcher.ObjectIdentifier, watched ...dynamicwatcher.ObjectIdentifier) {
	w.t.Helper()
	if err := w.AddOrUpdateWatcher(watcher, watched...); err != nil {
		w.t.Fatal(err)
	}
	w.synced(watcher)
}

func (w *watcher) synced(watcher dynamicwatcher.ObjectIdentifier) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), watcherLimit)
	defer cancel()
	if err := w.WaitForSync(ctx, watcher); err != nil {
		w.t.Fatal(err)
	}
}

func (w *watcher) count(id dynamicwatcher.ObjectIdentifier) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.calls[id])
}

// total returns the number of reconciles of all watchers.
func (w *watcher) total() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, calls := range w.calls {
		n += len(calls)
	}
	return n
}

// last returns the trigger of the last reconcile of a watcher.
func (w *watcher) last(id dynamicwatcher.ObjectIdentifier) dynamicwatcher.TriggerType {
	w.mu.Lock()
	defer w.mu.Unlock()
	if calls := w.calls[id]; len(calls) > 0 {
		return calls[len(calls)-1].Type
	}
	return ""
}

// eventuallyCount waits until a watcher has been reconciled exactly want times.
func (w *watcher) eventuallyCount(id dynamicwatcher.ObjectIdentifier, want int) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("%d reconciles of %s", want, id.Name), func() error {
		if got := w.count(id); got < want {
			return fmt.Errorf("there were %d", got)
		}
		return nil
	})
	if got := w.triggers(id); len(got) > want {
		w.t.Errorf("%d reconciles of %s, want %d: %+v", len(got), id.Name, want, got)
	}
}

// triggers returns the trigger of each reconcile of a watcher.
func (w *watcher) triggers(id dynamicwatcher.ObjectIdentifier) []dynamicwatcher.Trigger {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.calls[id])
}

// eventuallyTold waits until the reconciles of a watcher had these triggers, for an object of a
// kind that is created and deleted. If a watcher of an absent object was reconciled while no watch
// was open, it may have read an object that was created and deleted meanwhile. It is then
// reconciled again: Deleted may be repeated, but not forever.
func (w *watcher) eventuallyTold(id dynamicwatcher.ObjectIdentifier, want ...dynamicwatcher.TriggerType) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("%s is reconciled for %v", id.Name, want), func() error {
		got := w.triggers(id)
		different := slices.CompactFunc(slices.Clone(got), func(a, b dynamicwatcher.Trigger) bool {
			return a.Type == dynamicwatcher.TriggerDeleted && b.Type == dynamicwatcher.TriggerDeleted
		})
		same := slices.EqualFunc(different, want,
			func(t dynamicwatcher.Trigger, want dynamicwatcher.TriggerType) bool { return t.Type == want })
		if !same || len(got) > 2*len(want) {
			return fmt.Errorf("it was for %+v", got)
		}
		return nil
	})
}

// eventually is like the package's eventually, with short intervals, because the duration matters.
// It returns the duration.
func (w *watcher) eventually(what string, f func() error) time.Duration {
	w.t.Helper()
	begin := time.Now()
	pause := wait.Backoff{Duration: time.Millisecond, Factor: 1.1, Steps: 50, Cap: 20 * time.Millisecond}
	for {
		err := f()
		if err == nil {
			return time.Since(begin)
		}
		if time.Since(begin) > watcherLimit {
			w.t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(pause.Step())
	}
}

// active waits until all watches are active.
func (w *watcher) active() time.Duration {
	w.t.Helper()
	return w.eventually("all watches are active", func() error {
		for _, s := range w.Status() {
			if s.State != dynamicwatcher.StateActive {
				return fmt.Errorf("%s is %s (%s)", s.Object, s.State, fmt.Sprint(s.Err))
			}
		}
		return nil
	})
}

// quiet fails if a watcher is reconciled during d.
func (w *watcher) quiet(d time.Duration) {
	w.t.Helper()
	before := w.total()
	time.Sleep(d)
	if n := w.total() - before; n != 0 {
		w.t.Errorf("%d reconciles for nothing", n)
	}
}

// writer writes objects with an admin's client, without a rate limit.
type writer struct {
	kubernetes.Interface
	t testing.TB
}

func newWriter(t testing.TB, cluster *kube.Cluster) *writer {
	t.Helper()
	config := cluster.Config()
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &writer{client, t}
}

// namespace creates a namespace for one test. Its name starts with the given name: the cluster may
// have had that namespace before.
func (c *writer) namespace(name string) string {
	c.t.Helper()
	ns, err := c.CoreV1().Namespaces().Create(c.t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: name + "-"}}, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return ns.Name
}

// setSecret creates or updates a secret, and returns its version.
func (c *writer) setSecret(namespace, name, value string) string {
	c.t.Helper()
	secrets := c.CoreV1().Secrets(namespace)
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"value": value}}
	out, err := secrets.Create(c.t.Context(), s, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		out, err = secrets.Update(c.t.Context(), s, metav1.UpdateOptions{})
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return out.ResourceVersion
}

func (c *writer) deleteSecret(namespace, name string) {
	c.t.Helper()
	if err := c.CoreV1().Secrets(namespace).Delete(c.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *writer) setConfigMap(namespace, name, value string) {
	c.t.Helper()
	maps := c.CoreV1().ConfigMaps(namespace)
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"value": value}}
	_, err := maps.Create(c.t.Context(), m, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = maps.Update(c.t.Context(), m, metav1.UpdateOptions{})
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *writer) deleteConfigMap(namespace, name string) {
	c.t.Helper()
	if err := c.CoreV1().ConfigMaps(namespace).Delete(c.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// singleWatches returns the number of watches on single objects of a resource, from the API
// server's metrics.
func (c *writer) singleWatches(resource string) int {
	c.t.Helper()
	text, err := c.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "apiserver_longrunning_requests{") && strings.Contains(line, `resource="`+resource+`"`) &&
			strings.Contains(line, `scope="resource"`) && strings.Contains(line, `verb="WATCH"`) {
			fields := strings.Fields(line)
			value, err := strconv.ParseFloat(fields[len(fields)-1], 64)
			if err != nil {
				c.t.Fatal(err)
			}
			n += int(value)
		}
	}
	return n
}

// eventuallySingleWatches waits until the API server serves the given number of single watches.
func (c *writer) eventuallySingleWatches(resource string, want int) {
	c.t.Helper()
	deadline := time.Now().Add(watcherLimit)
	for got := c.singleWatches(resource); got != want; got = c.singleWatches(resource) {
		if time.Now().After(deadline) {
			c.t.Fatalf("the API server serves %d watches on single %s, want %d", got, resource, want)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
