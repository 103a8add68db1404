// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work"
)

// greeting is the work of each cluster. %q stands for the text of its ConfigMap.
const greeting = `{"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
	"metadata": {"name": "greeting"}, "spec": {"workload": {"manifests": [{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": {"namespace": "default", "name": "greeting"}, "data": {"text": %q}}]}}}`

// hub has a work on each cluster.
type hub struct {
	source *work.Source
	works  worktyped.ManifestWorksGetter
	out    *log.Logger
}

// run creates the works, updates them and deletes them.
func (h *hub) run(ctx context.Context) error {
	for _, text := range []string{"hello", "good evening"} {
		if err := h.apply(ctx, text); err != nil {
			return err
		}
	}
	return h.delete(ctx)
}

// apply creates or updates the works, and waits until the agents have applied them.
func (h *hub) apply(ctx context.Context, text string) error {
	for _, cluster := range clusters {
		h.out.Printf("hub: send work greeting to %s, with text %q", cluster, text)
		if _, err := h.works.ManifestWorks(cluster).Patch(ctx, "greeting", types.ApplyPatchType,
			fmt.Appendf(nil, greeting, text), metav1.PatchOptions{FieldManager: "quickstart"}); err != nil {
			return err
		}
	}
	// All works are created: from now on, agents may delete other works of this source.
	if err := h.source.InventoryComplete(ctx); err != nil {
		return err
	}
	return h.await(ctx, "applied", func(w *workv1.ManifestWork, err error) bool { return err == nil && applied(w) })
}

// delete deletes the works, and waits until the agents have deleted their objects.
func (h *hub) delete(ctx context.Context) error {
	for _, cluster := range clusters {
		h.out.Printf("hub: delete work greeting on %s", cluster)
		if err := h.works.ManifestWorks(cluster).Delete(ctx, "greeting", metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	return h.await(ctx, "deleted", func(_ *workv1.ManifestWork, err error) bool { return apierrors.IsNotFound(err) })
}

// await reads the works until all are done. A controller uses an informer instead.
func (h *hub) await(ctx context.Context, what string, done func(*workv1.ManifestWork, error) bool) error {
	for _, cluster := range clusters {
		err := wait.PollUntilContextCancel(ctx, time.Millisecond, true, func(context.Context) (bool, error) {
			return done(h.works.ManifestWorks(cluster).Get(ctx, "greeting", metav1.GetOptions{})), nil
		})
		if err != nil {
			return fmt.Errorf("work greeting is not %s on %s: %w", what, cluster, context.Cause(ctx))
		}
		h.out.Printf("hub: %s reports that work greeting is %s", cluster, what)
	}
	return nil
}
