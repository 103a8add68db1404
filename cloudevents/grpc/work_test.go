// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
	"github.com/spokewire/sdk-go/internal/testing/tcpproxy"
	"github.com/spokewire/sdk-go/internal/testing/worktest"
)

// patience is the time limit for each wait of a test.
const patience = 2 * time.Minute

// hub is a server with a source in its process, and its clusters.
type hub struct {
	t        *testing.T
	server   *grpc.Server
	addr     string
	stop     func() // ends Serve
	ca       *certtest.Authority
	caFile   string
	folder   string
	source   *work.Source
	clusters map[string]*cluster
}

// cluster is an agent that connects through a proxy.
type cluster struct {
	name  string
	proxy *tcpproxy.Proxy
	agent *work.Agent
}

// newHub starts a hub with TLS, the default authorizer and agents of some clusters.
func newHub(t *testing.T, o grpc.ServerOptions, clusters ...string) *hub {
	t.Helper()
	ca, folder := certtest.New(t), t.TempDir()
	o.CertFile, o.KeyFile = ca.Issue(t, "server").Write(t, folder, "server")
	o.ClientCAFile = ca.Write(t, folder, "ca")
	h := &hub{t: t, ca: ca, caFile: o.ClientCAFile, folder: folder, clusters: map[string]*cluster{}}
	var err error
	if h.server, err = grpc.NewServer(o); err != nil {
		t.Fatal(err)
	}
	h.addr, h.stop = serve(t, h.server, "")
	if h.source, err = work.NewSource(h.server.Transport(),
		work.SourceOptions{SourceID: "hub", DrainTimeout: -1}); err != nil {
		t.Fatal(err)
	}
	start(t, h.source.Start)
	waitFor(t, "the inventory", func() bool { return h.source.InventoryComplete(t.Context()) == nil })
	for _, name := range clusters {
		c := &cluster{name: name, proxy: tcpproxy.Start(t, h.addr)}
		if c.agent, err = work.NewAgent(h.transport(name, c.proxy.Addr()),
			work.AgentOptions{ClusterName: name, DrainTimeout: -1}); err != nil {
			t.Fatal(err)
		}
		start(t, c.agent.Start)
		h.clusters[name] = c
	}
	return h
}

// transport has a certificate with a name.
func (h *hub) transport(name, addr string) *grpc.Transport {
	h.t.Helper()
	o := grpc.Options{Address: addr, CAFile: h.caFile}
	o.CertFile, o.KeyFile = h.ca.Issue(h.t, name).Write(h.t, h.folder, name)
	return newTransport(h.t, o)
}

// start runs a source or an agent until the end of the test.
func start(t *testing.T, run func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func (h *hub) works(cluster string) workclient.ManifestWorkInterface {
	return h.source.Clientset().WorkV1().ManifestWorks(cluster)
}

func (h *hub) agentWorks(cluster string) workclient.ManifestWorkInterface {
	return h.clusters[cluster].agent.Clientset().WorkV1().ManifestWorks(cluster)
}

func (h *hub) create(cluster, name, value string) {
	h.t.Helper()
	if _, err := h.works(cluster).Create(h.t.Context(), worktest.New(name, value), metav1.CreateOptions{}); err != nil {
		h.t.Fatal(err)
	}
}

func (h *hub) update(cluster, name, value string) {
	h.t.Helper()
	w, err := h.works(cluster).Get(h.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	w.Spec = worktest.New(name, value).Spec
	if _, err := h.works(cluster).Update(h.t.Context(), w, metav1.UpdateOptions{}); err != nil {
		h.t.Fatal(err)
	}
}

func (h *hub) remove(cluster, name string) {
	h.t.Helper()
	if err := h.works(cluster).Delete(h.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		h.t.Fatal(err)
	}
}

// arrives waits until the agent has a work with a value.
func (h *hub) arrives(cluster, name, value string) {
	h.t.Helper()
	waitFor(h.t, fmt.Sprintf("work %s with value %.20q on %s", name, value, cluster), func() bool {
		w, err := h.agentWorks(cluster).Get(h.t.Context(), name, metav1.GetOptions{})
		return err == nil && worktest.Value(h.t, w) == value
	})
}

// gone waits until neither side has a work.
func (h *hub) gone(cluster, name string) {
	h.t.Helper()
	waitFor(h.t, fmt.Sprintf("the end of work %s on %s", name, cluster), func() bool {
		_, hubErr := h.works(cluster).Get(h.t.Context(), name, metav1.GetOptions{})
		_, agentErr := h.agentWorks(cluster).Get(h.t.Context(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(hubErr) && apierrors.IsNotFound(agentErr)
	})
}

// report sets a condition at the agent, and waits until the hub has it.
func (h *hub) report(cluster, name, message string) {
	h.t.Helper()
	w, err := h.agentWorks(cluster).Get(h.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	meta.SetStatusCondition(&w.Status.Conditions, metav1.Condition{
		Type: workv1.WorkApplied, Status: metav1.ConditionTrue, Reason: "Test", Message: message,
	})
	if _, err := h.agentWorks(cluster).UpdateStatus(h.t.Context(), w, metav1.UpdateOptions{}); err != nil {
		h.t.Fatal(err)
	}
	waitFor(h.t, fmt.Sprintf("status %q of work %s", message, name), func() bool {
		w, err := h.works(cluster).Get(h.t.Context(), name, metav1.GetOptions{})
		return err == nil && worktest.Message(w, workv1.WorkApplied) == message
	})
}

func waitFor(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}

func TestWorkIsCreatedUpdatedReportedAndDeleted(t *testing.T) {
	h := newHub(t, grpc.ServerOptions{}, "cluster1", "cluster2")
	for _, c := range []string{"cluster1", "cluster2"} {
		h.create(c, "app", "one of "+c)
		h.arrives(c, "app", "one of "+c)
		h.report(c, "app", "first")
		h.update(c, "app", "two")
		h.arrives(c, "app", "two")
		h.report(c, "app", "second")
		h.remove(c, "app")
		h.gone(c, "app")
	}
}

// TestRemoteSource checks that a source of another process uses the server, next to the source in the
// process of the server.
func TestRemoteSource(t *testing.T) {
	h := newHub(t, grpc.ServerOptions{Authorizer: grpc.AuthorizeNames("hub2")}, "cluster1")
	h.create("cluster1", "local", "one")
	h.arrives("cluster1", "local", "one")
	source, err := work.NewSource(h.transport("hub2", h.addr), work.SourceOptions{SourceID: "hub2", DrainTimeout: -1})
	if err != nil {
		t.Fatal(err)
	}
	start(t, source.Start)
	h.source = source
	h.create("cluster1", "remote", "one")
	h.arrives("cluster1", "remote", "one")
	h.report("cluster1", "remote", "done")
	h.remove("cluster1", "remote")
	h.gone("cluster1", "remote")
	h.arrives("cluster1", "local", "one")
}

// TestWorksChangeWhileServerIsAway checks that changes arrive which are made between the end of
// Serve and its next call.
func TestWorksChangeWhileServerIsAway(t *testing.T) {
	h := newHub(t, grpc.ServerOptions{}, "cluster1")
	for _, name := range []string{"changed", "deleted"} {
		h.create("cluster1", name, "one")
		h.arrives("cluster1", name, "one")
	}
	h.stop()
	h.create("cluster1", "created", "one")
	h.update("cluster1", "changed", "two")
	h.remove("cluster1", "deleted")
	serve(t, h.server, h.addr)
	h.arrives("cluster1", "created", "one")
	h.arrives("cluster1", "changed", "two")
	h.gone("cluster1", "deleted")
	h.report("cluster1", "changed", "after the restart")
}

func TestWorksSurviveCutLinks(t *testing.T) {
	h := newHub(t, grpc.ServerOptions{}, "cluster1")
	const rounds, works = 5, 20
	for round := range rounds {
		for i := range works {
			name, value := fmt.Sprint("app", i), fmt.Sprint("round ", round)
			if round == 0 {
				h.create("cluster1", name, value)
			} else {
				h.update("cluster1", name, value)
			}
			if i == works/2 {
				h.clusters["cluster1"].proxy.Cut()
			}
		}
	}
	for i := range works {
		name := fmt.Sprint("app", i)
		h.arrives("cluster1", name, fmt.Sprint("round ", rounds-1))
		h.report("cluster1", name, "done")
		h.remove("cluster1", name)
	}
	for i := range works {
		h.gone("cluster1", fmt.Sprint("app", i))
	}
}

// TestFrozenClusterDelaysNoOther checks that works of one cluster arrive while the link of another
// is frozen and its queue is full. The works of the frozen cluster arrive later.
func TestFrozenClusterDelaysNoOther(t *testing.T) {
	h := newHub(t, grpc.ServerOptions{MaxQueueBytes: 2 << 20}, "frozen", "alive")
	for _, c := range []string{"frozen", "alive"} {
		h.create(c, "first", "one")
		h.arrives(c, "first", "one")
	}
	const works = 60
	large := strings.Repeat("x", 100<<10) // together more than the queue and HTTP/2's window
	h.clusters["frozen"].proxy.Stall()
	for i := range works {
		h.create("frozen", fmt.Sprint("app", i), large)
		if i%20 == 19 {
			h.create("alive", fmt.Sprint("app", i), "one")
			h.arrives("alive", fmt.Sprint("app", i), "one")
			h.report("alive", fmt.Sprint("app", i), "done")
		}
	}
	h.clusters["frozen"].proxy.Resume()
	for i := range works {
		h.arrives("frozen", fmt.Sprint("app", i), large)
	}
}
