// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
	"github.com/spokewire/sdk-go/internal/testing/agenttest"
	"github.com/spokewire/sdk-go/internal/testing/tcpproxy"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/connectortest"
	"github.com/spokewire/sdk-go/rsync/connector/manifestwork"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

const workPatience = time.Minute

// workHub is an API server with ManifestWorks. The connector reaches it through a proxy, and agents
// reach it directly.
type workHub struct {
	cluster *kube.Cluster
	proxy   *tcpproxy.Proxy
}

func newWorkHub(t *testing.T) *workHub {
	t.Helper()
	h := &workHub{cluster: kube.Start(t, kube.Options{CRDs: []string{kube.ManifestWorkCRDs(t)}})}
	h.proxy = tcpproxy.Start(t, strings.Trim(strings.TrimPrefix(h.cluster.Config().Host, "https://"), "/"))
	return h
}

// namespace creates a namespace.
func (h *workHub) namespace(t *testing.T, name string) {
	t.Helper()
	client, err := kubernetes.NewForConfig(h.cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// clientset returns a clientset that uses the proxy.
func (h *workHub) clientset(t *testing.T, config *rest.Config) workclientset.Interface {
	t.Helper()
	config.Host = "https://" + h.proxy.Addr()
	config.Timeout = 5 * time.Second
	out, err := workclientset.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// runAgent runs a work agent for a namespace, and returns a function that ends it.
func (h *workHub) runAgent(t *testing.T, namespace string, cluster *agenttest.Cluster) (stop func()) {
	t.Helper()
	works, err := workclientset.NewForConfig(h.cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	return background(t, func(ctx context.Context) error { return agenttest.Run(ctx, cluster, works, namespace) })
}

var background = e2etest.Background

func openWork(
	t *testing.T, works workclientset.Interface, namespace string, options manifestwork.Options,
) connector.Connector {
	t.Helper()
	connectors, err := manifestwork.New(works.WorkV1(), options)
	if err != nil {
		t.Fatal(err)
	}
	c, err := connectors.Connector(t.Context(), "work", namespace)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func configMap(name, value string) []byte {
	return fmt.Appendf(nil, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: shop}\ndata: {key: %q}\n",
		name, value)
}

// TestManifestWorkHub runs the connector on a real API server.
func TestManifestWorkHub(t *testing.T) {
	t.Parallel()
	h := newWorkHub(t)
	t.Run("Conformance", func(t *testing.T) { testWorkConformance(t, h) })
	t.Run("Errors", func(t *testing.T) { testWorkErrors(t, h) })
	t.Run("Invalid", func(t *testing.T) { testWorkInvalid(t, h) })
	t.Run("EngineLife", func(t *testing.T) { testWorkLife(t, h) })
}

func testWorkConformance(t *testing.T, h *workHub) {
	n := 0
	connectortest.Run(t, func(t *testing.T) connectortest.Cluster {
		n++
		namespace := fmt.Sprint("conformance", n)
		h.namespace(t, namespace)
		cluster := agenttest.NewCluster()
		h.runAgent(t, namespace, cluster)
		return connectortest.Cluster{
			Connector: openWork(t, h.clientset(t, h.cluster.Config()), namespace, manifestwork.Options{}),
			ID:        appcontext.ClusterID{Provider: "work", Name: namespace},
			Value: func(_ context.Context, name string) (string, error) {
				var data struct{ Key string }
				err := json.Unmarshal([]byte(cluster.Objects()["ConfigMap default/"+name]), &data)
				return data.Key, err
			},
			Break: func() {
				h.proxy.Block()
				h.proxy.Cut()
			},
			Mend: h.proxy.Unblock,
		}
	})
}

// testWorkErrors: a refusal of a real API server has the right error class.
func testWorkErrors(t *testing.T, h *workHub) {
	h.namespace(t, "errors")
	batch := connector.Batch{AppContextID: "v1", App: "x", Resources: []appcontext.Resource{{
		Object:   appcontext.Object{Kind: "ConfigMap", Namespace: "shop", Name: "a"},
		Manifest: configMap("a", "secret-content"),
	}}}
	large := batch
	large.Resources = nil
	for _, name := range []string{"a", "b", "c", "d"} {
		large.Resources = append(large.Resources, appcontext.Resource{
			Object:   appcontext.Object{Kind: "ConfigMap", Namespace: "shop", Name: name},
			Manifest: configMap(name, strings.Repeat("secret-content", 80_000)),
		})
	}
	admin, nobody := h.cluster.Config(), h.cluster.User("nobody")
	stranger := h.cluster.Config()
	stranger.CertData, stranger.KeyData, stranger.BearerToken = nil, nil, "wrong"
	for _, tt := range []struct {
		reason, namespace string
		config            *rest.Config
		batch             connector.Batch
		class             error
		text              string
	}{
		{"no such namespace", "nowhere", admin, batch, connector.ErrRetryable, "there is no such namespace on the hub (yet)"},
		{"no rights", "errors", nobody, batch, connector.ErrTerminal, "the hub denies access"},
		{"no credentials", "errors", stranger, batch, connector.ErrTerminal, "the hub does not accept the credentials"},
		{"too large for the server", "errors", admin, large, connector.ErrTerminal, "does not accept a work of this size"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			c := openWork(t, h.clientset(t, rest.CopyConfig(tt.config)), tt.namespace,
				manifestwork.Options{MaxWorkBytes: 16 << 20})
			err := c.Apply(t.Context(), tt.batch)
			if !errors.Is(err, tt.class) || !strings.Contains(err.Error(), tt.text) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%v, want %v with %q", err, tt.class, tt.text)
			}
			if err := c.Probe(t.Context()); err != nil {
				t.Errorf("the hub answers, and Probe says %v", err)
			}
		})
	}
}

// testWorkInvalid: an unknown update strategy is Invalid, and the error names the field without its
// value.
func testWorkInvalid(t *testing.T, h *workHub) {
	h.namespace(t, "invalid")
	c := openWork(t, h.clientset(t, h.cluster.Config()), "invalid",
		manifestwork.Options{Config: func(o appcontext.Object) *workv1.ManifestConfigOption {
			return &workv1.ManifestConfigOption{
				ResourceIdentifier: workv1.ResourceIdentifier{Resource: "configmaps", Namespace: o.Namespace, Name: o.Name},
				UpdateStrategy:     &workv1.UpdateStrategy{Type: "secret"},
			}
		}})
	err := c.Apply(t.Context(), connector.Batch{AppContextID: "v1", App: "x", Resources: []appcontext.Resource{{
		Object: appcontext.Object{Kind: "ConfigMap", Namespace: "shop", Name: "a"}, Manifest: configMap("a", "1"),
	}}})
	if !errors.Is(err, connector.ErrTerminal) ||
		!strings.Contains(err.Error(), "spec.manifestConfigs[0].updateStrategy.type") ||
		strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
}

// testWorkLife goes through the life of two contexts, while the agent restarts and the hub is
// unreachable.
func testWorkLife(t *testing.T, h *workHub) {
	h.namespace(t, "life")
	cluster := agenttest.NewCluster()
	stopAgent := h.runAgent(t, "life", cluster)
	connectors, err := manifestwork.New(h.clientset(t, h.cluster.Config()).WorkV1(), manifestwork.Options{})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := rsync.New(memstore.New(memstore.Options{}), connectors, rsync.Options{
		ProbeInterval: 100 * time.Millisecond, PollInterval: 50 * time.Millisecond,
		Backoff: rsync.Backoff{Base: 10 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	background(t, engine.Start)
	createWorkContext(t, engine, "v1", map[string]string{"front": "a=1 b=1 moved=1 gone=1", "back": "c=1"})
	createWorkContext(t, engine, "v2", map[string]string{"front": "a=1 b=2 new=2", "back": "c=1 moved=2"})
	step := func(name, want string, ref rsync.EventRef, err error) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), workPatience)
		defer cancel()
		if err == nil {
			_, err = engine.Wait(ctx, ref)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := workObjects(cluster)
		for ; got != want && ctx.Err() == nil; got = workObjects(cluster) { // the engine does not wait for the last apply
			time.Sleep(10 * time.Millisecond)
		}
		if got != want {
			t.Fatalf("%s: there is %q, want %q", name, got, want)
		}
	}
	ctx := t.Context()
	ref, err := engine.Instantiate(ctx, "v1")
	step("instantiate", "a=1 b=1 c=1 gone=1 moved=1", ref, err)
	stopAgent()
	ref, err = engine.Update(ctx, "v1", "v2")
	h.runAgent(t, "life", cluster)
	step("update", "a=1 b=2 c=1 moved=2 new=2", ref, err)
	h.proxy.Block()
	h.proxy.Cut()
	ref, err = engine.Rollback(ctx, "v2", "v1")
	id := appcontext.ClusterID{Provider: "work", Name: "life"}
	for end := time.Now().Add(workPatience); ; time.Sleep(10 * time.Millisecond) {
		status, err := engine.Status(ctx, "v1")
		if err == nil && status.Cluster("front", id).Phase == rsync.PhaseRetrying {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the engine does not notice that the hub is away: %+v, %v", status, err)
		}
	}
	h.proxy.Unblock()
	step("rollback", "a=1 b=1 c=1 gone=1 moved=1", ref, err)
	ref, err = engine.Terminate(ctx, "v1")
	step("terminate", "", ref, err)

	want := map[string]int{
		"create a": 1, "create b": 1, "create c": 1, "create moved": 1, "create gone": 2, "create new": 1, "update b": 2,
		"update moved": 2,
		"delete a":     1, "delete b": 1, "delete c": 1, "delete moved": 1, "delete gone": 2, "delete new": 1,
	}
	got := map[string]int{}
	for _, call := range cluster.Calls() {
		got[strings.Replace(call, "ConfigMap shop/", "", 1)]++
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what the agent did (-want +got):\n%s", diff)
	}
	if problems := cluster.Problems(); len(problems) > 0 {
		t.Errorf("works that no agent should get: %v", problems)
	}
}

func createWorkContext(t *testing.T, engine *rsync.Engine, id string, apps map[string]string) {
	t.Helper()
	b := appcontext.NewBuilder(id)
	for _, name := range slices.Sorted(maps.Keys(apps)) {
		app := b.App(name).Cluster("work", "life")
		if name == "back" {
			app.DependsOn("front", appcontext.OpStatusReady, 0)
		}
		for field := range strings.FieldsSeq(apps[name]) {
			object, value, _ := strings.Cut(field, "=")
			app.Resource("work", "life", configMap(object, value))
		}
	}
	c, err := b.Build()
	if err == nil {
		err = engine.Create(t.Context(), c)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// workObjects returns the objects on a cluster: "a=1 b=1".
func workObjects(cluster *agenttest.Cluster) string {
	var all []string
	for object, data := range cluster.Objects() {
		value := strings.NewReplacer(`{"key":"`, "", `"}`, "").Replace(data)
		all = append(all, strings.TrimPrefix(object, "ConfigMap shop/")+"="+value)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}
