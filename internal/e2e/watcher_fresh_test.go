// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/spokewire/sdk-go/dynamicwatcher"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
	"github.com/spokewire/sdk-go/internal/testing/tcpproxy"
)

// TestWatcherFreshQueries: the first read of an object includes all earlier writes, even writes
// through another API server. This is also true behind a load balancer that picks a server for each
// connection.
func TestWatcherFreshQueries(t *testing.T) {
	t.Parallel()
	cluster := kube.Start(t, kube.Options{})
	replica := cluster.StartReplica()
	balancer := cluster.Config()
	balancer.Host = tcpproxy.Start(t, strings.Trim(strings.TrimPrefix(balancer.Host, "https:"), "/"), replica.Host).Addr()
	for name, through := range map[string]struct{ writes, reads *rest.Config }{
		"one API server":     {cluster.Config(), cluster.Config()},
		"another API server": {cluster.Config(), replica},
		"a balancer":         {balancer, balancer},
	} {
		t.Run(name, func(t *testing.T) {
			const rounds, workers, readers = 1000, 10, 4 // each reader and each writer has its own connection
			var watchers [readers]*watcher
			for i := range watchers {
				watchers[i] = startWatcher(t, through.reads, dynamicwatcher.Options{EnableCache: true}, nil)
			}
			var next, absent, older atomic.Int64
			var group sync.WaitGroup
			for worker := range workers {
				w, config := watchers[worker%readers], rest.CopyConfig(through.writes)
				config.QPS, config.Dial = -1, (&net.Dialer{}).DialContext
				writer := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default")
				group.Go(func() {
					policy := policyID("default", fmt.Sprint(name, worker))
					for i := next.Add(1); i <= rounds; i = next.Add(1) {
						object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "fresh-"},
							Data: map[string]string{"v": "1"}}
						object, err := writer.Create(t.Context(), object, metav1.CreateOptions{})
						if err == nil && i%2 == 0 {
							object.Data["v"] = "2"
							object, err = writer.Update(t.Context(), object, metav1.UpdateOptions{})
						}
						if err != nil {
							t.Error(err)
							return
						}
						err = w.QueryBatch(t.Context(), policy, func(q dynamicwatcher.Querier) error {
							got, err := q.Get(policy, configMapKind, "default", object.Name)
							switch {
							case err != nil:
								return err
							case got == nil:
								absent.Add(1)
							case got.GetResourceVersion() != object.ResourceVersion:
								older.Add(1)
							}
							return nil
						})
						if err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			group.Wait()
			t.Logf("%d stale reads of %d", absent.Load()+older.Load(), rounds)
			if n := absent.Load() + older.Load(); n > 0 {
				t.Errorf("of %d reads, %d did not find the object and %d found an older one", rounds, absent.Load(), older.Load())
			}
		})
	}
}

// TestWatcherSeenVersions: a watcher that has just written an object, and starts to watch at its
// version, is not reconciled, even through another API server. A version that no server has
// reached, for example after a restore, has no effect.
func TestWatcherSeenVersions(t *testing.T) {
	t.Parallel()
	cluster := kube.Start(t, kube.Options{})
	client, ns := newWriter(t, cluster), "default"
	for name, config := range map[string]*rest.Config{"same": cluster.Config(), "another": cluster.StartReplica()} {
		t.Run(name+" API server", func(t *testing.T) {
			w := startWatcher(t, config, dynamicwatcher.Options{}, nil)
			const rounds = 300
			of := func(i int) dynamicwatcher.ObjectIdentifier { return policyID(ns, fmt.Sprint(name, i)) }
			for i := range rounds {
				id := fmt.Sprint("seen-", name, i)
				version := client.setSecret(ns, id, "1")
				if i%2 == 0 {
					version = client.setSecret(ns, id, "2")
				}
				if err := w.AddWatcherAt(of(i), secretID(ns, id), version); err != nil {
					t.Fatal(err)
				}
			}
			for i := range rounds {
				w.synced(of(i))
			}
			future := policyID(ns, name+"-future")
			if err := w.AddWatcherAt(future, secretID(ns, "future-"+name), client.setSecret(ns, "future-"+name, "1")+
				"000000"); err != nil {
				t.Fatal(err)
			}
			w.synced(future)
			w.eventually("reconciled", func() error {
				if got := w.last(future); got != dynamicwatcher.TriggerInitial {
					return fmt.Errorf("the trigger is %q", got)
				}
				return nil
			})
			for i := range rounds {
				if got := w.triggers(of(i)); len(got) > 0 {
					t.Errorf("%d: %v", i, got)
				}
			}
		})
	}
}

// TestWatcherOfOldServer: the objects of a server that ignores sendInitialEvents, as aggregated
// servers do, are listed within a minute. The next watch of the same kind takes no longer.
func TestWatcherOfOldServer(t *testing.T) {
	t.Parallel()
	cluster := kube.Shared(t)
	client := kubernetes.NewForConfigOrDie(cluster.Config())
	namespace := "old-server"
	cluster.CreateNamespaces(namespace)
	config := ignoring(t, cluster.Config(), "sendInitialEvents", "resourceVersionMatch", "allowWatchBookmarks")
	w := startWatcher(t, config, dynamicwatcher.Options{}, nil)
	write := func(value string) {
		t.Helper()
		c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "there"}, Data: map[string]string{"v": value}}
		var err error
		if value == "1" {
			_, err = client.CoreV1().ConfigMaps(namespace).Create(t.Context(), c, metav1.CreateOptions{})
		} else {
			_, err = client.CoreV1().ConfigMaps(namespace).Update(t.Context(), c, metav1.UpdateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write("1")
	began := time.Now()
	w.watch(policyID(namespace, "p"), configMapID(namespace, "there"), configMapID(namespace, "absent"))
	first := time.Since(began)
	began = time.Now()
	w.watch(policyID(namespace, "q"), configMapID(namespace, "other"))
	if took := time.Since(began); took > max(first, 5*time.Second) {
		t.Errorf("the first watch of the kind took %s, and the next one %s", first, took)
	}
	before := w.count(policyID(namespace, "p"))
	write("2")
	eventually(t, "a change is told", func() error {
		if n := w.count(policyID(namespace, "p")); n <= before {
			return fmt.Errorf("%d reconciles", n)
		}
		return nil
	})
}

// ignoring returns a configuration for a proxy that removes parameters of requests.
func ignoring(t *testing.T, config *rest.Config, parameters ...string) *rest.Config {
	t.Helper()
	return behind(t, config, func(r *http.Request) {
		query := r.URL.Query()
		for _, name := range parameters {
			query.Del(name)
		}
		r.URL.RawQuery = query.Encode()
	}, nil)
}

// behind returns a configuration for a proxy that changes requests and responses.
func behind(
	t *testing.T, config *rest.Config, request func(*http.Request), response func(*http.Response) error,
) *rest.Config {
	t.Helper()
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	target, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, ModifyResponse: response,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			request(r.Out)
		}}
	server := &http.Server{Handler: proxy, ReadHeaderTimeout: time.Minute}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	front := &url.URL{Scheme: "http", Host: listener.Addr().String()}
	return &rest.Config{Host: front.String()}
}
