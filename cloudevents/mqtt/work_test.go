// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

// stack is a source "hub" and an agent of cluster1.
type stack struct {
	t        *testing.T
	ctx      context.Context
	source   *work.Source
	agent    *work.Agent
	arriving watch.Interface // the agent's watch
}

// startStack runs the source and the agent until the end of the test.
func startStack(t *testing.T, sourceOptions, agentOptions mqtt.Options) *stack {
	t.Helper()
	s := &stack{t: t}
	var err error
	if s.source, err = work.NewSource(newTransport(t, sourceOptions),
		work.SourceOptions{SourceID: "hub", DrainTimeout: -1}); err != nil {
		t.Fatal(err)
	}
	if s.agent, err = work.NewAgent(newTransport(t, agentOptions),
		work.AgentOptions{ClusterName: "cluster1", DrainTimeout: -1}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.ctx = ctx
	if s.arriving, err = s.agent.Clientset().WorkV1().ManifestWorks("cluster1").Watch(ctx,
		metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	for _, start := range []func(context.Context) error{s.source.Start, s.agent.Start} {
		go func() { done <- start(ctx) }()
	}
	t.Cleanup(func() {
		s.arriving.Stop()
		cancel()
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
	return s
}

// create makes a work at the source, with a ConfigMap that contains a text.
func (s *stack) create(cluster, name, text string) {
	s.t.Helper()
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: name}}
	w.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{
		Raw: fmt.Appendf(nil,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"b"},"data":{"text":%q}}`, text),
	}}}
	if _, err := s.source.Clientset().WorkV1().ManifestWorks(cluster).Create(s.ctx, w,
		metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// arrives waits until the agent has received a work.
func (s *stack) arrives(name string) {
	s.t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case event := <-s.arriving.ResultChan():
			if w, ok := event.Object.(*workv1.ManifestWork); ok && w.Name == name {
				return
			}
		case <-timeout:
			s.t.Fatalf("work %s did not come: source %v, agent %v", name, s.source.Healthy(), s.agent.Healthy())
		}
	}
}

// TestRefusedWorkIsDegraded checks a broker that refuses messages for one cluster and large
// messages for all, without announcing either. Both refusals are reported in the status of their
// works. Other works are delivered.
func TestRefusedWorkIsDegraded(t *testing.T) {
	broker := mosquitto.Start(t, mosquitto.Options{MaxMessageSize: 4000,
		ACL: "topic readwrite #\ntopic deny /sources/hub/clusters/cluster2/#\n"})
	options := mqtt.Options{BrokerURL: broker.URL()}
	s := startStack(t, options, options)
	s.create("cluster2", "forbidden", "")
	s.create("cluster1", "large", strings.Repeat("x", 5000))
	s.create("cluster1", "small", "")
	s.arrives("small")

	get := func(cluster, name string) *workv1.ManifestWork {
		w, err := s.source.Clientset().WorkV1().ManifestWorks(cluster).Get(s.ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	expectReason := func(cluster, name, reason string) {
		waitFor(t, "the condition with reason "+reason, func() bool {
			c := meta.FindStatusCondition(get(cluster, name).Status.Conditions, workv1.WorkDegraded)
			return c != nil && c.Reason == reason
		})
	}
	expectReason("cluster1", "large", "TooLarge")
	expectReason("cluster2", "forbidden", "NotPublished")
	if err := s.source.Healthy(); err != nil {
		t.Errorf("the source lost its connection: %v", err)
	}
}
