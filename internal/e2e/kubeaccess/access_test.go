// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kubeaccess_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
)

// TestAccessByRBAC runs scenarios on one API server.
func TestAccessByRBAC(t *testing.T) {
	h := newHub(t)
	for _, scenario := range []struct {
		name string
		run  func(t *testing.T, h *hub)
	}{
		{"agents", testAgents},
		{"documented role of agents", testDocumentedAgents},
		{"tokens", testTokens},
		{"removed right", testRemovedRight},
		{"sources", testSources},
		{"works", testWorks},
		{"API server away", testAway}, // the last one
	} {
		t.Run(scenario.name, func(t *testing.T) {
			in := *h
			in.t = t
			scenario.run(t, &in)
		})
	}
}

func hasCode(t *testing.T, err error, want codes.Code, what string) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Errorf("%s: code %v, want %v: %v", what, got, want, err)
	}
}

// testAgents checks that an agent reaches its own cluster, and no other.
func testAgents(t *testing.T, h *hub) {
	const name, group = "system:open-cluster-management:cluster1:agent1", "system:open-cluster-management:cluster1"
	for client, o := range map[string]grpc.Options{
		"certificate":                 h.certificate(name, group, "system:open-cluster-management"),
		"certificate without a name":  h.certificate("", group),
		"token of a service account":  h.withToken(h.token("cluster1", "agent")),
		"signed token of the account": h.withToken(h.resign(h.token("cluster1", "agent"), time.Now().Add(time.Hour))),
	} {
		t.Run(client, func(t *testing.T) {
			for _, p := range []codec.Profile{codec.ManifestWork, codec.ManifestBundle} {
				own := append(p.AgentFilters("cluster1"), p.PresenceFilter("", "cluster1"))
				hasCode(t, subscribe(t, o, own...), codes.OK, p.Name()+", own cluster")
				hasCode(t, subscribe(t, o, p.AgentFilters("cluster2")...), codes.PermissionDenied, p.Name()+", another cluster")
				hasCode(t, subscribe(t, o, p.AgentFilters("+")...), codes.PermissionDenied, p.Name()+", all clusters")
				hasCode(t, subscribe(t, o, p.SourceFilters("hub")...), codes.PermissionDenied, p.Name()+", as a source")
			}
			conn, err := connect(t, o)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			for topic, allowed := range map[string]bool{
				"/sources/hub/clusters/cluster1/manifestsstatus": true,
				"/sources/hub/clusters/cluster1/specresync":      true,
				"/sources/resync/cluster1/manifests":             true,
				"sources/hub/clusters/cluster1/agentevents":      true,
				"/sources/hub/clusters/cluster2/manifestsstatus": false,
				"/sources/resync/cluster2/manifests":             false,
				"sources/hub/clusters/cluster2/agentevents":      false,
				"clusters/cluster2/agentbroadcast":               false,
				"/sources/hub/clusters/cluster1/manifests":       false,
				"sources/hub/clusters/cluster1/sourceevents":     false,
				"/sources/hub/presence":                          false,
			} {
				err := publish(t, conn, topic)
				want := codes.OK
				if !allowed {
					want = codes.PermissionDenied
				}
				hasCode(t, err, want, topic)
			}
		})
	}
	hasCode(t, subscribe(t, h.certificate(name), codec.ManifestWork.AgentFilters("cluster1")...), codes.PermissionDenied,
		"certificate without the group of the role")
	hasCode(t, subscribe(t, h.certificate(""), codec.ManifestWork.AgentFilters("cluster1")...), codes.PermissionDenied,
		"certificate without a name and a group")
}

// testDocumentedAgents checks that the role in the package doc is enough for an agent, and only in the
// namespace of its cluster.
func testDocumentedAgents(t *testing.T, h *hub) {
	o := h.certificate("cluster1")
	hasCode(t, subscribe(t, o, codec.ManifestWork.AgentFilters("cluster1")...), codes.PermissionDenied, "without a role")
	h.applyDocumented("work-agent")
	e2etest.Eventually(t, "the role has an effect", func() error {
		return subscribe(t, o, codec.ManifestWork.AgentFilters("cluster1")...)
	})
	for _, p := range []codec.Profile{codec.ManifestWork, codec.ManifestBundle} {
		own := append(p.AgentFilters("cluster1"), p.PresenceFilter("", "cluster1"))
		hasCode(t, subscribe(t, o, own...), codes.OK, p.Name())
		hasCode(t, subscribe(t, o, p.AgentFilters("cluster2")...), codes.PermissionDenied, p.Name()+", another cluster")
	}
	conn, err := connect(t, o)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for topic, want := range map[string]codes.Code{
		"/sources/hub/clusters/cluster1/manifestsstatus": codes.OK,
		"/sources/hub/clusters/cluster1/specresync":      codes.OK,
		"/sources/resync/cluster1/manifests":             codes.OK,
		"/clusters/cluster1/presence":                    codes.OK,
		"sources/hub/clusters/cluster1/agentevents":      codes.OK,
		"clusters/cluster1/agentbroadcast":               codes.OK,
		"/sources/hub/clusters/cluster1/manifests":       codes.PermissionDenied,
		"/sources/hub/clusters/cluster2/manifestsstatus": codes.PermissionDenied,
	} {
		hasCode(t, publish(t, conn, topic), want, topic)
	}
}

// testTokens checks that the server does not accept tokens that the API server does not accept.
func testTokens(t *testing.T, h *hub) {
	h.account("cluster1", "gone")
	gone := h.token("cluster1", "gone")
	hasCode(t, subscribe(t, h.withToken(gone)), codes.OK, "service account")
	err := h.client.CoreV1().ServiceAccounts("cluster1").Delete(t.Context(), "gone", metav1.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	valid := h.token("cluster1", "agent")
	for name, token := range map[string]string{
		"expired":            h.resign(valid, time.Now().Add(-time.Minute)),
		"changed":            valid[:len(valid)-8] + "AAAAAAAA",
		"no token":           "t0ps3cret",
		"of another program": h.token("cluster1", "agent", "other"),
	} {
		err := subscribe(t, h.withToken(token), codec.ManifestWork.AgentFilters("cluster1")...)
		hasCode(t, err, codes.Unauthenticated, name)
		var permanent *cloudevents.PermanentError
		if !errors.As(err, &permanent) || strings.Contains(err.Error(), token) {
			t.Errorf("%s: %v, want a PermanentError without the token", name, err)
		}
	}
	e2etest.Eventually(t, "the token of a deleted service account ends", func() error {
		err := subscribe(t, h.withToken(gone))
		if status.Code(err) != codes.Unauthenticated {
			return fmt.Errorf("got %w, want Unauthenticated", err)
		}
		return nil
	})
	both := h.certificate("", "system:open-cluster-management:cluster1")
	both.Token = "t0ps3cret"
	hasCode(t, subscribe(t, both, codec.ManifestWork.AgentFilters("cluster1")...), codes.OK,
		"unknown token with a certificate")
}

// testRemovedRight checks that an open connection loses and regains its rights.
func testRemovedRight(t *testing.T, h *hub) {
	o := h.withToken(h.token("cluster1", "agent"))
	conn, err := connect(t, o)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const own = "/sources/hub/clusters/cluster1/manifestsstatus"
	hasCode(t, publish(t, conn, own), codes.OK, "before")
	err = h.client.RbacV1().RoleBindings("cluster1").Delete(t.Context(), "agents", metav1.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	becomes := func(want codes.Code) {
		t.Helper()
		e2etest.Eventually(t, "the decision changes", func() error {
			published, subscribed := publish(t, conn, own), subscribe(t, o, codec.ManifestWork.AgentFilters("cluster1")...)
			if status.Code(published) != want || status.Code(subscribed) != want {
				return fmt.Errorf("published: %w, subscribed: %w, want %v", published, subscribed, want)
			}
			return nil
		})
	}
	becomes(codes.PermissionDenied)
	h.bindAgents("cluster1")
	becomes(codes.OK)
}

// testSources checks that a source acts only with its own name.
func testSources(t *testing.T, h *hub) {
	o := h.certificate("controller")
	conn, err := connect(t, o)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	hasCode(t, publish(t, conn, "/sources/hub2/clusters/cluster1/manifests"), codes.PermissionDenied, "without a role")
	h.applyDocumented("source-hub2")
	e2etest.Eventually(t, "the role has an effect", func() error {
		return publish(t, conn, "/sources/hub2/clusters/cluster1/manifests")
	})
	for _, p := range []codec.Profile{codec.ManifestWork, codec.ManifestBundle} {
		hasCode(t, subscribe(t, o, append(p.SourceFilters("hub2"), p.PresenceFilter("hub2", ""))...), codes.OK, p.Name())
		hasCode(t, subscribe(t, o, p.SourceFilters("hub")...), codes.PermissionDenied, p.Name()+", another source")
		hasCode(t, subscribe(t, o, p.SourceFilters("+")...), codes.PermissionDenied, p.Name()+", all sources")
	}
	for _, topic := range []string{
		"/sources/hub/clusters/cluster1/manifests", "sources/hub/clusters/cluster1/sourceevents", "/sources/hub/presence",
		"/sources/hub2/clusters/cluster1/manifestsstatus", // the role of agents has this right
	} {
		hasCode(t, publish(t, conn, topic), codes.PermissionDenied, topic)
	}
}

// testWorks checks that the rights are enough for a source and an agent of package work.
func testWorks(t *testing.T, h *hub) {
	source, err := work.NewSource(transport(t, h.certificate("controller")), work.SourceOptions{SourceID: "hub2"})
	if err != nil {
		t.Fatal(err)
	}
	agent, err := work.NewAgent(transport(t, h.withToken(h.token("cluster1", "agent"))),
		work.AgentOptions{ClusterName: "cluster1"})
	if err != nil {
		t.Fatal(err)
	}
	e2etest.Background(t, source.Start)
	e2etest.Background(t, agent.Start)
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: "app"}}
	w.Spec.Workload.Manifests = []workv1.Manifest{{}}
	w.Spec.Workload.Manifests[0].Raw = []byte(
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default"}}`)
	works, applied := source.Clientset().WorkV1().ManifestWorks("cluster1"),
		agent.Clientset().WorkV1().ManifestWorks("cluster1")
	if _, err := works.Create(t.Context(), w, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	e2etest.Eventually(t, "the agent reports the work", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		w, err := applied.Get(ctx, "app", metav1.GetOptions{})
		if err != nil {
			return err
		}
		w.Status.Conditions = []metav1.Condition{{Type: workv1.WorkApplied, Status: metav1.ConditionTrue, Reason: "Done",
			LastTransitionTime: metav1.Now(), ObservedGeneration: w.Generation}}
		_, err = applied.UpdateStatus(ctx, w, metav1.UpdateOptions{})
		return err
	})
	e2etest.Eventually(t, "the source has the status", func() error {
		w, err := works.Get(t.Context(), "app", metav1.GetOptions{})
		if err == nil && len(w.Status.Conditions) == 0 {
			err = errors.New("no condition")
		}
		return err
	})
}

// testAway checks that clients try again while the API server is away, and that none gets access.
func testAway(t *testing.T, h *hub) {
	token := h.withToken(h.token("cluster1", "agent"))
	certificate := h.certificate("", "system:open-cluster-management:cluster1")
	conn, err := connect(t, certificate)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	h.cluster.StopAPIServer()
	const own = "/sources/hub/clusters/cluster1/manifestsstatus"
	attempts := map[string]func() error{
		"token":       func() error { return subscribe(t, token, codec.ManifestWork.AgentFilters("cluster1")...) },
		"certificate": func() error { return subscribe(t, certificate, codec.ManifestWork.AgentFilters("cluster1")...) },
		"publication": func() error { return publish(t, conn, own) },
	}
	for name, attempt := range attempts {
		e2etest.Eventually(t, name+" is undecided", func() error { // when the cached decisions have expired
			err := attempt()
			var permanent *cloudevents.PermanentError
			if status.Code(err) != codes.Unavailable || errors.As(err, &permanent) {
				return fmt.Errorf("got %w, want Unavailable", err)
			}
			return nil
		})
	}
	var temporary *cloudevents.TemporaryError
	if err := publish(t, conn, own); !errors.As(err, &temporary) {
		t.Errorf("a publication failed with %v, want a TemporaryError", err)
	}
	h.cluster.StartAPIServer()
	for name, attempt := range attempts {
		e2etest.Eventually(t, name+" is allowed again", attempt)
	}
}
