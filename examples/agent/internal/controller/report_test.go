// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/agent/internal/controller"
	"github.com/spokewire/sdk-go/examples/agent/internal/manifest"
	"github.com/spokewire/sdk-go/examples/agent/internal/spoke"
	"github.com/spokewire/sdk-go/examples/agent/internal/status"
)

// narrow is a hub that refuses statuses with details of failed manifests.
type narrow struct {
	workclientset.Interface
	*atomic.Int64 // number of refused statuses; -1: refuses none
}

func (n narrow) WorkV1() worktyped.WorkV1Interface {
	return narrowGroup{n.Interface.WorkV1(), n.Int64}
}

type narrowGroup struct {
	worktyped.WorkV1Interface
	*atomic.Int64
}

func (n narrowGroup) ManifestWorks(namespace string) worktyped.ManifestWorkInterface {
	return narrowWorks{n.WorkV1Interface.ManifestWorks(namespace), n.Int64}
}

type narrowWorks struct {
	worktyped.ManifestWorkInterface
	*atomic.Int64
}

func (n narrowWorks) Patch(
	ctx context.Context, name string, pt types.PatchType, data []byte, o metav1.PatchOptions, subresources ...string,
) (*workv1.ManifestWork, error) {
	if strings.Contains(string(data), "AppliedManifestFailed") && n.Load() >= 0 {
		n.Add(1)
		return nil, apierrors.NewInternalError(errors.New("trying to send message larger than max"))
	}
	return n.ManifestWorkInterface.Patch(ctx, name, pt, data, o, subresources...)
}

// TestRefusedStatus checks that the hub receives a shorter status if it refuses the full one, and
// that the operator sees the refusal.
func TestRefusedStatus(t *testing.T) {
	var refused atomic.Int64
	registry := prometheus.NewRegistry()
	run(t, func(o *controller.Options, c *cluster) {
		o.Works, o.Metrics = narrow{o.Works, &refused}, registry
		c.left = 1000
		c.apply = func(*workv1.ManifestWork) spoke.Result {
			return spoke.Result{Outcomes: []spoke.Outcome{{Manifest: manifest.Manifest{Err: errors.New("no")}}}}
		}
	}, func(b *bench) {
		b.create("w", nil)
		b.reports("w", workv1.WorkApplied, metav1.ConditionFalse, "no")
		b.reports("w", status.ManifestsReported, metav1.ConditionFalse, "larger than max")
		told := false
		for len(b.events) > 0 {
			told = refusal(<-b.events) || told
		}
		if !told {
			b.Error("nobody is told that the status was refused")
		}
		b.counts(registry, status.ManifestsReported, "False")
		version := b.get("w").ResourceVersion
		time.Sleep(5 * time.Minute)
		if got := b.get("w").ResourceVersion; got != version || refused.Load() < 5 {
			b.Errorf("version %s has become %s after %d refusals", version, got, refused.Load())
		}
		refused.Store(-1)
		time.Sleep(2 * time.Minute)
		b.reports("w", status.ManifestsReported, "", "")
		if m := b.get("w").Status.ResourceStatus.Manifests; len(m) != 1 {
			b.Errorf("%+v", m)
		}
		if err := b.works.Delete(b.Context(), "w", metav1.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
		b.settle()
		b.counts(registry, workv1.WorkDeleting, "True")
	})
}

// counts requires that the metrics count one work with a condition.
func (b *bench) counts(registry *prometheus.Registry, kind, is string) {
	b.Helper()
	families, err := registry.Gather()
	if err != nil {
		b.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if f.GetName() == "spokewire_agent_work_conditions" && labels["type"] == kind && labels["status"] == is &&
				m.GetGauge().GetValue() == 1 {
				return
			}
		}
	}
	b.Errorf("no work is counted that has %s=%s", kind, is)
}

func refusal(e controller.Event) bool {
	return e.Err != nil && strings.Contains(e.Err.Error(), "larger than max")
}
