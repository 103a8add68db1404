// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/spokewire/sdk-go/dynamicwatcher"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
)

// gate can delay, refuse or break requests.
type gate struct {
	mu     sync.Mutex
	hang   func(*http.Request) bool
	status int
	passed int // requests that were answered with the status
	open   map[*breakable]struct{}
}

// through is a transport with a gate for its requests.
type through struct {
	*gate
	next http.RoundTripper
}

// breakable is the body of a response.
type breakable struct {
	io.ReadCloser
	gate *gate
}

func (b *breakable) Close() error {
	b.gate.mu.Lock()
	delete(b.gate.open, b)
	b.gate.mu.Unlock()
	return b.ReadCloser.Close()
}

func (g *through) RoundTrip(r *http.Request) (*http.Response, error) {
	g.mu.Lock()
	hang, status := g.hang != nil && g.hang(r), g.status
	if status != 0 {
		g.passed++
	}
	g.mu.Unlock()
	switch {
	case hang:
		<-r.Context().Done()
		return nil, r.Context().Err()
	case status != 0:
		return &http.Response{
			StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/2.0", ProtoMajor: 2, Header: http.Header{},
			Body: io.NopCloser(strings.NewReader("injected")), Request: r,
		}, nil
	}
	response, err := g.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	b := &breakable{response.Body, g.gate}
	response.Body = b
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open[b] = struct{}{}
	return response, nil
}

// cut breaks all open responses. The connections stay.
func (g *gate) cut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for b := range g.open {
		_ = b.ReadCloser.Close()
	}
	clear(g.open)
}

// answer sets the status of all later requests; 0 lets them through.
func (g *gate) answer(status int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.status, g.passed = status, 0
}

func (g *gate) answered() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.passed
}

// gated returns a configuration with a gate.
func gated(config *rest.Config) (*rest.Config, *gate) {
	g := &gate{open: map[*breakable]struct{}{}}
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &through{g, next} })
	return config, g
}

// TestWatcherHangingRequest: a request that never ends delays no other.
// TestWatcherHangingRequestSpeed checks their duration.
func TestWatcherHangingRequest(t *testing.T) { besideHangingRequest(t) }

// besideHangingRequest measures a hundred watches during a hanging request. It returns the time to
// start all but the slowest watch, and the time to end all.
func besideHangingRequest(t *testing.T) (p99, end time.Duration) {
	t.Helper()
	cluster := kube.Shared(t)
	client := newWriter(t, cluster)
	ns := client.namespace("hanging")
	createSecrets(client, ns, 101)
	config, g := gated(cluster.Config())
	g.hang = func(r *http.Request) bool { return strings.Contains(r.URL.RawQuery, "metadata.name%3Ds100&") }
	w := startWatcher(t, config, dynamicwatcher.Options{DisableInitialReconcile: true}, nil)
	if err := w.AddWatcher(policyID(ns, "hanging"), secretID(ns, "s100")); err != nil {
		t.Fatal(err)
	}
	w.watch(policyID(ns, "first"), secretID(ns, "s0")) // opens a connection
	var took []time.Duration
	for i := 1; i < 100; i++ {
		begin := time.Now()
		w.watch(policyID(ns, fmt.Sprint("p", i)), secretID(ns, fmt.Sprint("s", i)))
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	t.Logf("establish beside a hanging request: p50 %v, p99 %v", took[50], took[97])
	if got := w.Status(); len(got) != 101 {
		t.Errorf("%d watched", len(got))
	}
	if err := w.RemoveWatcher(policyID(ns, "hanging")); err != nil {
		t.Fatal(err)
	}
	return took[97], w.stop()
}

// TestWatcherTransientRefusals: changes while requests are refused for a short time are reported
// afterwards.
func TestWatcherTransientRefusals(t *testing.T) {
	cluster := kube.Shared(t)
	client := newWriter(t, cluster)
	ns := client.namespace("transient")
	config, g := gated(cluster.Config())
	const n = 20
	createSecrets(client, ns, n)
	w := startWatcher(t, config, dynamicwatcher.Options{}, nil)
	watchMany(w, ns, n)
	w.settled(n)
	want := n
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusServiceUnavailable} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			w.t, client.t = t, t
			g.answer(status)
			g.cut()
			w.eventually("refused", func() error {
				if got := g.answered(); got < n {
					return fmt.Errorf("%d requests were", got)
				}
				return nil
			})
			client.setSecret(ns, "s1", fmt.Sprint(status))
			client.deleteSecret(ns, "s2")
			g.answer(0)
			w.active()
			want += 2
			w.settled(want)
			client.setSecret(ns, "s2", "1")
			want++
			w.settled(want)
		})
	}
}

// allow gives a user the rights to watch the secrets with these names.
func allow(t *testing.T, client *writer, namespace, user string, names ...string) {
	t.Helper()
	ctx, meta := t.Context(), metav1.ObjectMeta{Name: user}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: names, Verbs: []string{"list", "watch"},
	}}}
	if _, err := client.RbacV1().Roles(namespace).Create(ctx, role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
	}
	if _, err := client.RbacV1().RoleBindings(namespace).Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestWatcherAccess: rights to one object by name are enough. The loss of rights is reported to the
// watchers, and the rights may be granted again.
func TestWatcherAccess(t *testing.T) {
	t.Parallel()
	for name, feature := range map[string]dynamicwatcher.AccessLost{"retry": dynamicwatcher.RetryThenNotify,
		"drop": dynamicwatcher.DropAndNotify} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := kube.Shared(t)
			client := newWriter(t, cluster)
			ns, user := client.namespace("access"), cluster.User("access-"+name)
			client.setSecret(ns, "mine", "1")
			client.setSecret(ns, "others", "1")
			allow(t, client, ns, "access-"+name, "mine")
			config, g := gated(user)
			w := startWatcher(t, config, dynamicwatcher.Options{AccessLost: feature}, nil)
			mine, others := policyID(ns, "mine"), policyID(ns, "others")
			w.watch(mine, secretID(ns, "mine"))
			w.eventuallyCount(mine, 1)
			if err := w.AddWatcher(others, secretID(ns, "others")); err != nil {
				t.Fatal(err)
			}
			if err := w.WaitForSync(t.Context(), others); !apierrors.IsForbidden(err) {
				t.Errorf("an object of others: %v", err)
			}
			w.eventuallyCount(others, 1) // it is notified that the object cannot be watched
			if got := w.last(others); got != dynamicwatcher.TriggerAccessLost {
				t.Errorf("told of %q", got)
			}

			roles := client.RbacV1().RoleBindings(ns)
			binding, err := roles.Get(t.Context(), "access-"+name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if err := roles.Delete(t.Context(), "access-"+name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			refused(t, user, ns)
			g.cut() // the server continues watches that it has authorized
			w.eventuallyCount(mine, 2)
			if got := w.last(mine); got != dynamicwatcher.TriggerAccessLost {
				t.Errorf("told of %q", got)
			}
			client.setSecret(ns, "mine", name)
			binding.ResourceVersion, binding.UID = "", ""
			if _, err := roles.Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			if feature == dynamicwatcher.DropAndNotify {
				if got := w.GetWatchCount(); got != 0 {
					t.Errorf("%d watches are left", got)
				}
				w.watch(mine, secretID(ns, "mine"))
			}
			w.eventuallyCount(mine, 3)
		})
	}
}

// TestWatcherQueriesAfterAccessIsLost: after the rights are lost, a query returns the server's
// refusal, and no earlier result of the watch. After they are granted again, it returns the changes
// that were made meanwhile.
func TestWatcherQueriesAfterAccessIsLost(t *testing.T) {
	t.Parallel()
	cluster := kube.Shared(t)
	client := newWriter(t, cluster)
	ns, name := client.namespace("lost"), "lost"
	user := cluster.User(name)
	client.setSecret(ns, "mine", "1")
	allow(t, client, ns, name, "mine")
	config, g := gated(user)
	w := startWatcher(t, config, dynamicwatcher.Options{EnableCache: true}, nil)
	p, secrets := policyID(ns, "p"), schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	read := func() (version string, err error) {
		err = w.QueryBatch(t.Context(), p, func(q dynamicwatcher.Querier) error {
			got, err := q.Get(p, secrets, ns, "mine")
			if got != nil {
				version = got.GetResourceVersion()
			}
			return err
		})
		return version, err
	}
	if _, err := read(); err != nil {
		t.Fatal(err)
	}
	role, err := client.RbacV1().Roles(ns).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.RbacV1().Roles(ns).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	refused(t, user, ns)
	g.cut() // the server continues watches that it has authorized
	w.eventuallyCount(p, 1)
	want := client.setSecret(ns, "mine", "2")
	if got, err := read(); !apierrors.IsForbidden(err) {
		t.Errorf("the secret has version %s, and the query returned %q, %v", want, got, err)
	}
	if got, err := w.GetFromCache(secrets, ns, "mine"); !apierrors.IsForbidden(err) {
		t.Errorf("GetFromCache returned %v, %v", got, err)
	}
	role.ResourceVersion, role.UID = "", ""
	if _, err := client.RbacV1().Roles(ns).Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.active()
	if got, err := read(); err != nil || got != want {
		t.Errorf("the secret has version %s, and the query returned %q, %v", want, got, err)
	}
}

// refused waits until the user's rights are removed everywhere in the API server.
func refused(t *testing.T, config *rest.Config, namespace string) {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(watcherLimit); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		_, err := client.CoreV1().Secrets(namespace).List(t.Context(),
			metav1.ListOptions{FieldSelector: "metadata.name=mine"})
		if apierrors.IsForbidden(err) {
			return
		}
	}
	t.Fatal("the rights stay")
}

// TestWatcherPanic: a panic in a reconcile is one failed reconcile, which is retried.
func TestWatcherPanic(t *testing.T) {
	t.Parallel()
	cluster := kube.Shared(t)
	client := newWriter(t, cluster)
	ns := client.namespace("panic")
	client.setSecret(ns, "s", "1")
	p := policyID(ns, "p")
	var once sync.Once
	w := startWatcher(t, cluster.Config(), dynamicwatcher.Options{},
		func(context.Context, dynamicwatcher.ObjectIdentifier) (reconcile.Result, error) {
			once.Do(func() { panic("on purpose") })
			return reconcile.Result{}, nil
		})
	w.watch(p, secretID(ns, "s"))
	w.eventuallyCount(p, 2)
	client.setSecret(ns, "s", "2")
	w.eventuallyCount(p, 3)
	w.stop()
	if err := w.AddWatcher(p, secretID(ns, "t")); err == nil {
		t.Error("after the end objects can be added")
	}
}

// TestWatcherMinInterval: an object that changes all the time is reconciled at intervals, and its
// last state is included.
func TestWatcherMinInterval(t *testing.T) {
	cluster := kube.Shared(t)
	client := newWriter(t, cluster)
	ns := client.namespace("interval")
	client.setSecret(ns, "s", "0")
	p := policyID(ns, "p")
	var mu sync.Mutex
	var seen string
	w := startWatcher(t, cluster.Config(), dynamicwatcher.Options{MinInterval: time.Second},
		func(ctx context.Context, _ dynamicwatcher.ObjectIdentifier) (reconcile.Result, error) {
			s, err := client.CoreV1().Secrets(ns).Get(ctx, "s", metav1.GetOptions{})
			if err != nil {
				return reconcile.Result{}, err
			}
			mu.Lock()
			defer mu.Unlock()
			seen = string(s.Data["value"])
			return reconcile.Result{}, nil
		})
	w.watch(p, secretID(ns, "s"))
	w.eventuallyCount(p, 1)
	const lasts = 5 * time.Second
	begin, n := time.Now(), 0
	for tick := time.Tick(10 * time.Millisecond); time.Since(begin) < lasts; <-tick {
		n++
		client.setSecret(ns, "s", fmt.Sprint(n))
	}
	w.eventually("the last state", func() error {
		mu.Lock()
		defer mu.Unlock()
		if want := fmt.Sprint(n); seen != want {
			return fmt.Errorf("seen is %s, want %s", seen, want)
		}
		return nil
	})
	seconds := time.Since(begin).Seconds()
	got := w.count(p) - 1
	t.Logf("%d updates in %.1f s, %d reconciles", n, seconds, got)
	if most := 1.1*seconds + 1; float64(got) > most || got < 4 {
		t.Errorf("%d reconciles in %.1f s", got, seconds)
	}
}
