// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
)

// independent are kinds whose objects work regardless of other objects of these kinds.
var independent = map[schema.GroupKind]bool{
	{Kind: "ConfigMap"}: true, {Kind: "Secret"}: true, {Kind: "Service"}: true, {Kind: "Endpoints"}: true,
	{Kind: "PersistentVolumeClaim"}: true, {Kind: "ReplicationController"}: true,
	{Group: "apps", Kind: "Deployment"}: true, {Group: "apps", Kind: "StatefulSet"}: true,
	{Group: "apps", Kind: "DaemonSet"}: true, {Group: "apps", Kind: "ReplicaSet"}: true,
	{Group: "batch", Kind: "Job"}: true, {Group: "batch", Kind: "CronJob"}: true,
	{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}: true, {Group: "policy", Kind: "PodDisruptionBudget"}: true,
	{Group: "networking.k8s.io", Kind: "Ingress"}: true, {Group: "networking.k8s.io", Kind: "NetworkPolicy"}: true,
	{Group: "discovery.k8s.io", Kind: "EndpointSlice"}: true, {Group: "coordination.k8s.io", Kind: "Lease"}: true,
}

func groupKind(o appcontext.Object) schema.GroupKind {
	return schema.GroupKind{Group: o.Group, Kind: o.Kind}
}

// foundation returns the rank of an object: others need Namespaces and then definitions to exist.
func foundation(o appcontext.Object) int {
	switch {
	case o.Group == "" && o.Kind == "Namespace":
		return namespaces
	case isDefinition(o):
		return definitions
	}
	return objects
}

const (
	namespaces = iota
	definitions
	objects
)

// steps divides resources into steps, one after the other. The objects of a step may be applied, or
// deleted, in parallel. Namespaces and definitions are first, for a deletion last. The rest stays
// in its order: neighbours are one step if they have the same kind, or independent kinds. It
// returns indexes.
func steps(resources []appcontext.Resource, deletion bool) [][]int {
	order := make([]int, len(resources))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		if deletion {
			a, b = b, a
		}
		return foundation(resources[a].Object) - foundation(resources[b].Object)
	})
	var out [][]int
	var last schema.GroupKind
	for _, i := range order {
		kind := groupKind(resources[i].Object)
		if n := len(out); n > 0 && (kind == last || independent[kind] && independent[last]) {
			out[n-1] = append(out[n-1], i)
		} else {
			out = append(out, []int{i})
		}
		last = kind
	}
	return out
}

// parallel calls a function for each index, in order, Options.Concurrency at a time. After an error
// it starts no more calls, and waits for the calls in progress. It returns a terminal error if
// there is one, and otherwise the first error.
func (c *cluster) parallel(indexes []int, do func(index int) error) error {
	var group errgroup.Group
	group.SetLimit(c.options.Concurrency)
	var failed atomic.Bool
	var mu sync.Mutex
	var worst error
	for _, i := range indexes {
		if failed.Load() {
			break
		}
		group.Go(func() error {
			err := do(i)
			if err == nil {
				return nil
			}
			failed.Store(true)
			mu.Lock()
			defer mu.Unlock()
			if worst == nil || errors.Is(err, connector.ErrTerminal) && !errors.Is(worst, connector.ErrTerminal) {
				worst = err
			}
			return nil
		})
	}
	_ = group.Wait() // do's errors are in worst
	return worst
}
