// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spokewire/sdk-go/dynamicwatcher"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
)

var configMapKind = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}

// setLabeled creates config maps with the label app=web.
func (c *writer) setLabeled(namespace string, names ...string) {
	c.t.Helper()
	for _, name := range names {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "web"}}}
		if _, err := c.CoreV1().ConfigMaps(namespace).Create(c.t.Context(), m, metav1.CreateOptions{}); err != nil {
			c.t.Fatal(err)
		}
	}
}

// TestWatcherCache: an object is returned only for its name, and listed once if both a name and a
// selector match it.
func TestWatcherCache(t *testing.T) {
	t.Parallel()
	cluster := kube.Shared(t)
	client := newWriter(t, cluster)
	ns := client.namespace("cache")
	client.setLabeled(ns, "a", "b")
	w := startWatcher(t, cluster.Config(), dynamicwatcher.Options{EnableCache: true}, nil)
	p, web := policyID(ns, "p"), labels.SelectorFromSet(labels.Set{"app": "web"})
	err := w.QueryBatch(t.Context(), p, func(q dynamicwatcher.Querier) error {
		all, err := q.List(p, configMapKind, ns, web)
		if err != nil || len(all) != 2 {
			return fmt.Errorf("the list has %d objects: %w", len(all), err)
		}
		_, err = q.Get(p, configMapKind, ns, "a")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := w.GetFromCache(configMapKind, ns, ""); !errors.Is(err, dynamicwatcher.ErrInvalidInput) {
		t.Errorf("GetFromCache without a name returned %v, %v", got, err)
	}
	if all, err := w.ListWatchedFromCache(p); err != nil || len(all) != 2 {
		t.Errorf("%d objects are watched, %v", len(all), err)
	}
}

// withoutUIDs removes the UIDs from a response of JSON lines.
type withoutUIDs struct {
	io.Closer
	lines *bufio.Reader
	rest  []byte
}

var uid = regexp.MustCompile(`"uid":"[^"]*",?`)

func (b *withoutUIDs) Read(p []byte) (int, error) {
	if len(b.rest) == 0 {
		line, err := b.lines.ReadBytes('\n')
		if b.rest = uid.ReplaceAll(line, nil); len(b.rest) == 0 {
			return 0, err
		}
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// TestWatcherObjectsWithoutUID: objects of an aggregated API that have no UID stay separate.
func TestWatcherObjectsWithoutUID(t *testing.T) {
	t.Parallel()
	cluster := kube.Shared(t)
	client := newWriter(t, cluster)
	ns := client.namespace("without-uid")
	client.setLabeled(ns, "a", "b")
	config := behind(t, cluster.Config(), func(r *http.Request) { r.Header.Set("Accept-Encoding", "identity") },
		func(r *http.Response) error {
			if strings.Contains(r.Request.URL.Path, "/configmaps") {
				r.Header.Del("Content-Length")
				r.Body = &withoutUIDs{Closer: r.Body, lines: bufio.NewReader(r.Body)}
			}
			return nil
		})
	w := startWatcher(t, config, dynamicwatcher.Options{EnableCache: true}, nil)
	p, web := policyID(ns, "p"), labels.SelectorFromSet(labels.Set{"app": "web"})
	err := w.QueryBatch(t.Context(), p, func(q dynamicwatcher.Querier) error {
		all, err := q.List(p, configMapKind, ns, web)
		switch {
		case err != nil:
			return err
		case len(all) != 2:
			return fmt.Errorf("the list has %d objects", len(all))
		case all[0].GetUID() != "":
			return errors.New("the objects have UIDs")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	client.deleteConfigMap(ns, "a")
	w.eventually("one is left", func() error {
		all, err := w.ListFromCache(configMapKind, ns, web)
		if err == nil && (len(all) != 1 || all[0].GetName() != "b") {
			err = fmt.Errorf("%d are left", len(all))
		}
		return err
	})
}

// TestWatcherUnknownKindsMemory: a group version that the server does not have leaves no memory in
// use.
func TestWatcherUnknownKindsMemory(t *testing.T) {
	const n, most = 3000, 60
	w := startWatcher(t, kube.Shared(t).Config(), dynamicwatcher.Options{}, nil)
	look := func(round string) {
		var lookups sync.WaitGroup
		for worker := range 10 {
			lookups.Go(func() {
				for i := range n / 10 {
					gvk := schema.GroupVersionKind{Group: fmt.Sprintf("unknown-%s-%d-%d.example.com", round, worker, i), Version: "v1",
						Kind: "Thing"}
					if _, err := w.GVKToGVR(gvk); !errors.Is(err, dynamicwatcher.ErrNoVersionedResource) {
						t.Errorf("%s: %v", gvk, err)
						return
					}
				}
			})
		}
		lookups.Wait()
	}
	heap := func() int64 {
		for range 3 {
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc) //nolint:gosec // far below the limit
	}
	look("first")
	before := heap()
	look("second")
	each := (heap() - before) / n
	for end := time.Now().Add(10 * time.Second); each > most && time.Now().Before(end); time.Sleep(time.Second) {
		each = (heap() - before) / n
	}
	if each > most {
		t.Errorf("%d bytes are left of each group version", each)
	}
}

// TestWatcherRemovedInBatch: RemoveWatcher ends a query batch that the watcher has not ended.
func TestWatcherRemovedInBatch(t *testing.T) {
	t.Parallel()
	cluster := kube.Shared(t)
	ns := newWriter(t, cluster).namespace("removed")
	w := startWatcher(t, cluster.Config(), dynamicwatcher.Options{EnableCache: true}, nil)
	p := policyID(ns, "p")
	if err := w.StartQueryBatch(p); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Get(p, configMapKind, ns, "a"); err != nil {
		t.Fatal(err)
	}
	if err := w.RemoveWatcher(p); err != nil {
		t.Fatal(err)
	}
	if got := w.GetWatchCount(); got != 0 {
		t.Errorf("%d watches are left", got)
	}
	if err := w.EndQueryBatch(p); !errors.Is(err, dynamicwatcher.ErrQueryBatchNotStarted) {
		t.Errorf("EndQueryBatch: %v", err)
	}
	if err := w.AddWatcher(p, configMapID(ns, "b")); err != nil {
		t.Errorf("the watcher cannot watch again: %v", err)
	}
}

// TestWatcherManyUnknownKinds: the kinds of one call are looked up at the same time, within one time limit.
func TestWatcherManyUnknownKinds(t *testing.T) {
	t.Parallel()
	cluster := kube.Shared(t)
	for name, test := range map[string]struct{ each, most time.Duration }{
		"slow":    {time.Second, 6 * time.Second},
		"hanging": {time.Hour, 18 * time.Second}, // the limit is 10 s
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := behind(t, cluster.Config(), func(r *http.Request) {
				if !strings.Contains(r.URL.Path, "example.com") {
					return
				}
				select {
				case <-time.After(test.each):
				case <-r.Context().Done():
				}
			}, nil)
			w := startWatcher(t, config, dynamicwatcher.Options{MissingKind: dynamicwatcher.Error}, nil)
			var watched []dynamicwatcher.ObjectIdentifier
			for i := range 12 {
				watched = append(watched, dynamicwatcher.ObjectIdentifier{Group: fmt.Sprintf("g%d.example.com", i), Version: "v1",
					Kind: "Thing", Namespace: "default", Name: "a"})
			}
			began := time.Now()
			err := w.AddOrUpdateWatcher(policyID("default", "p"), watched...)
			if err == nil {
				t.Error("the kinds are not known, and there is no error")
			}
			if took := time.Since(began); took > test.most {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// TestWatcherBatchWindow: the first change begins a window, which later changes do not extend.
func TestWatcherBatchWindow(t *testing.T) {
	t.Parallel()
	const window = 2 * time.Second
	cluster := kube.Shared(t)
	client := newWriter(t, cluster)
	ns := client.namespace("window")
	client.setSecret(ns, "s", "0")
	w := startWatcher(t, cluster.Config(), dynamicwatcher.Options{BatchWindow: window, DisableInitialReconcile: true}, nil)
	p := policyID(ns, "p")
	w.watch(p, secretID(ns, "s"))
	began := time.Now()
	for i := range 5 {
		client.setSecret(ns, "s", fmt.Sprint(i+1))
	}
	written := time.Since(began)
	w.eventuallyCount(p, 1)
	if took := time.Since(began); took < window {
		t.Errorf("the reconcile came after %v", took)
	}
	if written < window {
		w.quiet(time.Second)
	}
}
