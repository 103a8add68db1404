// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/testing/postgres"
	"github.com/spokewire/sdk-go/internal/testing/tcpproxy"
	"github.com/spokewire/sdk-go/internal/testing/worktest"
)

// replicas are two servers with one database.
type replicas struct {
	*scene
	servers [2]*scene
	store   string
}

// TestReplicas runs two servers with one database behind one Service. A proxy connects the Service to
// the two in turn.
func TestReplicas(t *testing.T) {
	t.Parallel()
	store := database(t)
	r := &replicas{scene: unregistered(t, true, nil, "--store", store), store: store}
	second := *r.scene
	second.port = 0
	second.start("--store", store, "--inventory-complete", "--forget", "cluster9")
	r.servers = [2]*scene{r.scene, &second}
	proxy := tcpproxy.Start(t, r.servers[0].address(), r.servers[1].address())
	front := *r.scene
	front.port = int(netip.MustParseAddrPort(proxy.Addr()).Port())
	r.kubectl("apply", "-f", front.registration())
	r.available()
	r.agent("cluster1")
	for _, server := range r.servers {
		e2etest.Eventually(t, "the replica accepts the users of the cluster", func() error {
			_, err := server.own().List(t.Context(), metav1.ListOptions{})
			return err
		})
	}
	t.Run("alternating writes", func(t *testing.T) { r.in(t).testAlternatingWrites() })
	t.Run("continued watch", func(t *testing.T) { r.in(t).testContinuedWatch() })
	t.Run("stopped replica", func(t *testing.T) { r.in(t).testStopped() })
	t.Run("killed replica", func(t *testing.T) { r.in(t).testKilled() })
}

// database starts PostgreSQL and returns a URL without the password.
func database(t *testing.T) string {
	t.Helper()
	server := postgres.Start(t, postgres.Options{})
	u, err := url.Parse(server.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	passwords := filepath.Join(t.TempDir(), "passwords")
	if err := os.WriteFile(passwords, []byte("*:*:*:*:"+server.Password()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set("passfile", passwords)
	u.User, u.RawQuery = url.User(u.User.Username()), query.Encode()
	return u.String()
}

func (r *replicas) in(t *testing.T) *replicas {
	own := *r
	own.scene = r.scene.in(t)
	for i, s := range r.servers {
		own.servers[i] = s.in(t)
	}
	return &own
}

// address returns the address of the server.
func (s *scene) address() string { return fmt.Sprint("127.0.0.1:", s.port) }

// own returns the works of cluster1, without the API server of the cluster.
func (s *scene) own() worktyped.ManifestWorkInterface {
	config := s.cluster.Config()
	config.Host, config.CAData, config.CAFile, config.QPS = "https://"+s.address(), []byte(s.ca.PEM), "", -1
	return workclientset.NewForConfigOrDie(config).WorkV1().ManifestWorks("cluster1")
}

// label returns a patch that sets a label.
func label(value int) []byte { return fmt.Appendf(nil, `{"metadata":{"labels":{"n":"%d"}}}`, value) }

// testAlternatingWrites writes to the two replicas in turn. Each write can be read at the other one
// at once, and each replica has the same versions.
func (r *replicas) testAlternatingWrites() {
	t, works := r.t, [2]worktyped.ManifestWorkInterface{r.servers[0].own(), r.servers[1].own()}
	if err := r.createAt(works[0], "alternating"); err != nil {
		t.Fatal(err)
	}
	rate := func(replicas int) float64 {
		const count = 60
		var took time.Duration
		for i := range count {
			at, other := works[i%replicas], works[1-i%replicas]
			began := time.Now()
			w, err := at.Patch(t.Context(), "alternating", types.MergePatchType, label(replicas*1000+i), metav1.PatchOptions{})
			if err != nil {
				t.Fatalf("write %d: %v", i, err)
			}
			took += time.Since(began)
			r.checkRead(other, w)
		}
		return count / took.Seconds()
	}
	t.Logf("writes per second: %.0f at the two replicas in turn, %.0f at one", rate(2), rate(1))
}

// checkRead reads a work and a list at a replica from the version of a write.
func (r *replicas) checkRead(at worktyped.ManifestWorkInterface, written *workv1.ManifestWork) {
	r.t.Helper()
	got, err := at.Get(r.t.Context(), written.Name, metav1.GetOptions{ResourceVersion: written.ResourceVersion})
	if err != nil || number(r.t, got) < number(r.t, written) || got.Labels["n"] != written.Labels["n"] {
		r.t.Fatalf("read at the other replica: %v, %v; want version %s, n=%s", got, err, written.ResourceVersion,
			written.Labels["n"])
	}
	list, err := at.List(r.t.Context(), metav1.ListOptions{ResourceVersion: written.ResourceVersion,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, FieldSelector: "metadata.name=" + written.Name})
	if err != nil || len(list.Items) != 1 || list.Items[0].Labels["n"] != written.Labels["n"] {
		r.t.Fatalf("list at the other replica: %v, %v; want n=%s", list, err, written.Labels["n"])
	}
}

// number returns the version of an object.
func number(t testing.TB, obj metav1.Object) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// createAt creates a work with an object.
func (r *replicas) createAt(at worktyped.ManifestWorkInterface, name string) error {
	_, err := at.Create(r.t.Context(), worktest.New(name, ""), metav1.CreateOptions{})
	return err
}

// testContinuedWatch continues a watch at the other replica after a few events, again and again, while
// works are created, changed and deleted at both. A client with only these events has the objects of
// a list at the end.
func (r *replicas) testContinuedWatch() {
	t, works := r.t, [2]worktyped.ManifestWorkInterface{r.servers[0].own(), r.servers[1].own()}
	list, err := works[0].List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := &mirror{t: t, objects: map[types.UID]*workv1.ManifestWork{}, version: list.ResourceVersion}
	for i := range list.Items {
		seen.objects[list.Items[i].UID] = &list.Items[i]
	}
	var watching sync.WaitGroup
	watching.Go(func() { seen.run(ctx, works) })
	for i := range 40 {
		name, at := fmt.Sprint("watched", i), works[i/4%2]
		if err := r.createAt(at, name); err != nil {
			t.Fatal(err)
		}
		if _, err := at.Patch(t.Context(), name, types.MergePatchType, label(i), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		if i%3 == 0 {
			if err := at.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	e2etest.Eventually(t, "the events lead to the objects of a list at each replica", func() error {
		for _, at := range works {
			list, err := at.List(t.Context(), metav1.ListOptions{})
			if err != nil {
				return err
			}
			if err := seen.compare(list); err != nil {
				return err
			}
		}
		return nil
	})
	cancel()
	watching.Wait()
	t.Logf("%d events in %d watches, %d of them too old", seen.events, seen.watches, seen.expired)
	if seen.watches < 10 || seen.expired > seen.watches/2 {
		t.Errorf("%d watches, %d of them too old; want 10 or more that mostly continue", seen.watches, seen.expired)
	}
}

// mirror has the objects that the events of its watches lead to.
type mirror struct {
	t                        testing.TB
	mu                       sync.Mutex
	objects                  map[types.UID]*workv1.ManifestWork
	version                  string
	events, watches, expired int
}

// run watches both replicas in turn, four events at each.
func (m *mirror) run(ctx context.Context, works [2]worktyped.ManifestWorkInterface) {
	for i := 0; ctx.Err() == nil; i++ {
		at := works[i%2]
		w, err := at.Watch(ctx, metav1.ListOptions{ResourceVersion: m.version})
		if err != nil {
			if ctx.Err() == nil && !apierrors.IsTimeout(err) {
				m.t.Errorf("watch: %v", err)
			}
			continue
		}
		m.watches++
		for range 4 {
			e, ok := <-w.ResultChan()
			if !ok || ctx.Err() != nil {
				break
			}
			if m.take(e) {
				continue
			}
			if list, err := at.List(ctx, metav1.ListOptions{ResourceVersion: m.version}); err == nil {
				m.restart(list)
			}
			break
		}
		w.Stop()
	}
}

// take handles an event. It returns false after the error that needs a new list.
func (m *mirror) take(e watch.Event) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.Type == watch.Error {
		if err := apierrors.FromObject(e.Object); !apierrors.IsResourceExpired(err) && !apierrors.IsTimeout(err) {
			m.t.Errorf("watch: %v", err)
		}
		m.expired++
		return false
	}
	obj, ok := e.Object.(*workv1.ManifestWork)
	if !ok {
		m.t.Errorf("unexpected event %v", e)
		return false
	}
	m.events++
	last, err := strconv.ParseUint(m.version, 10, 64)
	if n := number(m.t, obj); err != nil || n < last {
		m.t.Errorf("%s %s has version %d after %s", e.Type, obj.Name, n, m.version)
	}
	m.version = obj.ResourceVersion
	m.objects[obj.UID] = obj
	if e.Type == watch.Deleted {
		delete(m.objects, obj.UID)
	}
	return true
}

func (m *mirror) restart(list *workv1.ManifestWorkList) {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.objects)
	for i := range list.Items {
		m.objects[list.Items[i].UID] = &list.Items[i]
	}
	m.version = list.ResourceVersion
}

// compare returns an error if a list has other objects or versions.
func (m *mirror) compare(list *workv1.ManifestWorkList) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(list.Items) != len(m.objects) {
		return fmt.Errorf("the list has %d works, the events lead to %d", len(list.Items), len(m.objects))
	}
	for i := range list.Items {
		w := &list.Items[i]
		if seen := m.objects[w.UID]; seen == nil || seen.ResourceVersion != w.ResourceVersion {
			return fmt.Errorf("%s has version %s in the list, %v in the events", w.Name, w.ResourceVersion, seen)
		}
	}
	return nil
}

// testStopped stops the leader, and writes at the other replica. The stopped one then serves no older
// state, and a write that it received meanwhile is either refused or stored.
func (r *replicas) testStopped() {
	t := r.t
	leader, other := r.servers[0], r.servers[1]
	for round := range 3 {
		name := fmt.Sprint("stopped", round)
		if err := r.createAt(leader.own(), name); err != nil {
			t.Fatal(err)
		}
		leader.server.Freeze()
		stored := make(chan error, 1)
		go func() { stored <- r.createAt(leader.own(), name+"-late") }()
		w, err := other.own().Patch(t.Context(), name, types.MergePatchType, label(round), metav1.PatchOptions{})
		if err != nil {
			t.Fatalf("write at the other replica: %v", err)
		}
		leader.server.Thaw()
		r.checkRead(leader.own(), w)
		if err := <-stored; err == nil {
			list, err := other.own().List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name + "-late",
				ResourceVersion: w.ResourceVersion})
			if err != nil || len(list.Items) != 1 {
				e2etest.Eventually(t, "the late write is at the other replica", func() error {
					_, err := other.own().Get(t.Context(), name+"-late", metav1.GetOptions{})
					return err
				})
			}
		} else if !apierrors.IsServiceUnavailable(err) {
			t.Errorf("late write: %v", err)
		}
		leader, other = other, leader
	}
}

// testKilled kills a replica under load of clients of the cluster that retry. No write that succeeded
// is lost.
func (r *replicas) testKilled() {
	t, ctx := r.t, r.t.Context()
	config := r.cluster.Config()
	config.QPS = -1
	works := workclientset.NewForConfigOrDie(config).WorkV1().ManifestWorks("cluster1")
	const enough = 30 // writes of each writer, before and after the end of the replica
	var writers errgroup.Group
	var counts [4]atomic.Int32
	var killed atomic.Bool
	for writer := range counts {
		name := fmt.Sprint("killed", writer)
		if err := r.createAt(works, name); err != nil {
			t.Fatal(err)
		}
		writers.Go(func() error {
			count := &counts[writer]
			for left := enough; left > 0; count.Add(1) {
				if killed.Load() {
					left--
				}
				if err := patched(ctx, works, name, int(count.Load())+1); err != nil {
					return fmt.Errorf("write %d of %s: %w", count.Load()+1, name, err)
				}
			}
			return nil
		})
	}
	e2etest.Eventually(t, "all writers write", func() error {
		for writer := range counts {
			if n := counts[writer].Load(); n < enough {
				return fmt.Errorf("writer %d has written %d times", writer, n)
			}
		}
		return nil
	})
	r.servers[0].server.Kill()
	killed.Store(true)
	if err := writers.Wait(); err != nil {
		t.Error(err)
	}
	restarted := *r.servers[0]
	restarted.start("--store", r.store)
	for _, at := range []*scene{r.servers[1], &restarted} {
		for writer := range counts {
			count := int(counts[writer].Load())
			w, err := at.own().Get(ctx, fmt.Sprint("killed", writer), metav1.GetOptions{})
			if err != nil || w.Labels["n"] != strconv.Itoa(count) {
				t.Errorf("after %d writes of killed%d: n=%v, %v", count, writer, w.GetLabels(), err)
			}
		}
	}
}

// patched sets the label of a work. It tries again after an error that may be temporary.
func patched(ctx context.Context, works worktyped.ManifestWorkInterface, name string, value int) error {
	ctx, cancel := context.WithTimeout(ctx, e2etest.Patience)
	defer cancel()
	for {
		w, err := works.Patch(ctx, name, types.MergePatchType, label(value), metav1.PatchOptions{})
		switch {
		case err == nil && w.Labels["n"] != strconv.Itoa(value):
			text, _ := json.Marshal(w)
			return fmt.Errorf("the patch returns %s", text)
		case err == nil || ctx.Err() != nil || apierrors.IsNotFound(err) || apierrors.IsInvalid(err) ||
			apierrors.IsForbidden(err) || apierrors.IsConflict(err):
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}
