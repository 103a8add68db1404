// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/examples/agent/internal/controller"
	"github.com/spokewire/sdk-go/examples/agent/internal/guard"
	"github.com/spokewire/sdk-go/examples/agent/internal/manifest"
	"github.com/spokewire/sdk-go/examples/agent/internal/spoke"
	"github.com/spokewire/sdk-go/examples/agent/internal/status"
)

// slow is a cluster on which the rules of some works take all the time that they are allowed.
type slow struct {
	controller.Cluster
	is func(name string) bool
}

func (s slow) Apply(ctx context.Context, w *workv1.ManifestWork, keep func(*manifest.Manifest) bool) spoke.Result {
	for s.is(w.Name) {
		err := guard.Evaluate(ctx, 250*time.Millisecond, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		if guard.Exceeded(ctx) && err != nil {
			break
		}
	}
	return s.Cluster.Apply(ctx, w, keep)
}

// TestSlowRulesPauseWork checks that works with slow rules leave time for other works, also while they change
// often, and that they report it. Their deletion does not wait.
func TestSlowRulesPauseWork(t *testing.T) {
	const many = 30
	run(t, func(o *controller.Options, _ *cluster) {
		o.Cluster = slow{o.Cluster, func(name string) bool { return name != "quick" }}
	}, func(b *bench) {
		change := func(name string, n int) {
			w := b.get(name)
			ttl := int64(n)
			w.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeForeground,
				TTLSecondsAfterFinished: &ttl}
			if _, err := b.works.Update(b.Context(), w, metav1.UpdateOptions{}); err != nil && !apierrors.IsConflict(err) {
				b.Fatal(err)
			}
		}
		for i := range many {
			b.create(fmt.Sprint("slow", i), nil)
		}
		time.Sleep(20 * time.Second)
		b.reports("slow0", status.RulesWithinLimits, metav1.ConditionFalse, "LimitExceeded")
		before := b.count(b.applied, "slow0")
		for n := range 600 {
			for i := range many {
				change(fmt.Sprint("slow", i), n)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := b.count(b.applied, "slow0") - before; n == 0 || n > 4 {
			b.Errorf("what takes 2 s was served %d times in a minute", n)
		}
		b.create("quick", nil)
		time.Sleep(7 * time.Second)
		b.reports("quick", workv1.WorkApplied, metav1.ConditionTrue, "")
		b.reports("quick", status.RulesWithinLimits, "", "")
		if err := b.works.Delete(b.Context(), "slow0", metav1.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
		time.Sleep(8 * time.Second) // long enough for a free worker, but shorter than the rest
		if _, err := b.works.Get(b.Context(), "slow0", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			b.Errorf("it is there: %v", err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		b.reports("slow1", workv1.WorkApplied, metav1.ConditionTrue, "")
	})
}

// TestContestedObject checks that a resource is applied less and less often if others change it after each
// apply. The work reports the contest until the changes end or its spec changes.
func TestContestedObject(t *testing.T) {
	var theirs atomic.Bool
	theirs.Store(true)
	rival := func(*workv1.ManifestWork) spoke.Result {
		obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": "c", "namespace": "n"}}}
		m := manifest.Manifest{Object: obj, Key: appliedwork.Key{Kind: "ConfigMap", Namespace: "n", Name: "c"}}
		return spoke.Result{Outcomes: []spoke.Outcome{{Manifest: m, Live: obj, Configured: theirs.Load()}}}
	}
	run(t, func(o *controller.Options, c *cluster) { c.apply, o.PollInterval = rival, time.Second }, func(b *bench) {
		b.create("w", nil)
		b.reports("w", status.Contested, "", "")
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		b.reports("w", status.Contested, metav1.ConditionTrue, "1 of 1 resources")
		if n := b.count(b.applied, "w"); n < 10 || n > 30 {
			b.Errorf("applied %d times in ten minutes", n)
		}
		before := b.count(b.applied, "w")
		w := b.get("w")
		w.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeOrphan}
		if _, err := b.works.Update(b.Context(), w, metav1.UpdateOptions{}); err != nil {
			b.Fatal(err)
		}
		b.settle()
		if n := b.count(b.applied, "w"); n == before {
			b.Error("another generation waits for the end of the contest")
		}
		time.Sleep(time.Minute)
		b.reports("w", status.Contested, metav1.ConditionTrue, "")
		theirs.Store(false)
		time.Sleep(7 * time.Minute)
		b.settle()
		b.reports("w", status.Contested, "", "")
	})
}

// TestMetrics checks the metrics of works.
func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	run(t, func(o *controller.Options, c *cluster) {
		o.Metrics = registry
		c.apply = func(w *workv1.ManifestWork) spoke.Result {
			if w.Name == "bad" {
				return spoke.Result{Outcomes: []spoke.Outcome{{Manifest: manifest.Manifest{Err: errors.New("no")}}}}
			}
			return spoke.Result{}
		}
	}, func(b *bench) {
		b.create("good", nil)
		b.create("bad", nil)
		b.create("gone", nil)
		if err := b.works.Delete(b.Context(), "gone", metav1.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
		b.settle()
		families, err := registry.Gather()
		if err != nil {
			b.Fatal(err)
		}
		values := map[string]float64{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				name := f.GetName()
				for _, l := range m.GetLabel() {
					name += " " + l.GetValue()
				}
				values[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
		for name, want := range map[string]float64{
			"spokewire_agent_works": 2, "spokewire_agent_manifests False AppliedManifestFailed": 1,
			"spokewire_agent_served_total applied": 2, "spokewire_agent_served_total removed": 1,
			"spokewire_agent_work_conditions True Applied": 1, "spokewire_agent_work_conditions False Applied": 1,
			"workqueue_depth manifestworks": 0,
		} {
			if got, ok := values[name]; !ok || got != want {
				b.Errorf("%s is %v, want %v", name, got, want)
			}
		}
		for _, name := range []string{
			"spokewire_agent_served_total failed", "spokewire_agent_apply_seconds", "workqueue_adds_total manifestworks",
			"workqueue_retries_total manifestworks",
			"workqueue_queue_duration_seconds manifestworks", "workqueue_work_duration_seconds manifestworks",
		} {
			if values[name] < 1 {
				b.Errorf("%s is %v", name, values[name])
			}
		}
	})
	agent, err := work.NewAgent(memory.New().Transport(), work.AgentOptions{ClusterName: "c"})
	if err != nil {
		t.Fatal(err)
	}
	for _, taken := range []string{"workqueue_depth", "spokewire_agent_works"} {
		again := prometheus.NewRegistry()
		again.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: taken, Help: "of somebody else",
			ConstLabels: prometheus.Labels{"name": "manifestworks"}}))
		_, err = controller.New(controller.Options{ClusterName: "c", Works: agent.Clientset(), Cluster: &cluster{},
			Config: nowhere, PollInterval: time.Hour, DegradedAfter: time.Hour, Metrics: again})
		if err == nil {
			t.Errorf("%s is registered twice", taken)
		}
	}
}
