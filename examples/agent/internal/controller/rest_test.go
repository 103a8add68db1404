// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/agent/internal/budget"
	"github.com/spokewire/sdk-go/examples/agent/internal/controller"
	"github.com/spokewire/sdk-go/examples/agent/internal/manifest"
	"github.com/spokewire/sdk-go/examples/agent/internal/spoke"
	"github.com/spokewire/sdk-go/examples/agent/internal/status"
)

// slow is a cluster on which the rules of some works take all the time that they may.
type slow struct {
	controller.Cluster
	is func(name string) bool
}

func (s slow) Apply(ctx context.Context, w *workv1.ManifestWork, keep func(*manifest.Manifest) bool) spoke.Result {
	for s.is(w.Name) {
		err := budget.Evaluate(ctx, 250*time.Millisecond, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		if budget.Exceeded(ctx) && err != nil {
			break
		}
	}
	return s.Cluster.Apply(ctx, w, keep)
}

// TestRests: works whose rules take long leave time for others, whatever happens, and say so. Their end does not wait.
func TestRests(t *testing.T) {
	const many = 30
	run(t, func(o *controller.Options, _ *cluster) {
		o.Cluster = slow{o.Cluster, func(name string) bool { return name != "quick" }}
	}, func(b *bench) {
		change := func(name string, n int) {
			w := b.get(name)
			ttl := int64(n)
			w.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeForeground, TTLSecondsAfterFinished: &ttl}
			if _, err := b.works.Update(b.Context(), w, metav1.UpdateOptions{}); err != nil && !apierrors.IsConflict(err) {
				b.Fatal(err)
			}
		}
		for i := range many {
			b.create(fmt.Sprint("slow", i), nil)
		}
		time.Sleep(20 * time.Second)
		b.says("slow0", status.RulesWithinLimits, metav1.ConditionFalse, "LimitExceeded")
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
		b.says("quick", workv1.WorkApplied, metav1.ConditionTrue, "")
		b.says("quick", status.RulesWithinLimits, "", "")
		if err := b.works.Delete(b.Context(), "slow0", metav1.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
		time.Sleep(8 * time.Second) // for a worker, and not for as long as it would rest
		if _, err := b.works.Get(b.Context(), "slow0", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			b.Errorf("it is there: %v", err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		b.says("slow1", workv1.WorkApplied, metav1.ConditionTrue, "")
	})
}
