// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work"
)

// initialSync is the time limit of an agent's initial sync. It is long enough for thousands of
// agents that connect at once.
const initialSync = time.Minute

// agent is the agent of a cluster, with a work controller that reports success without applying. It
// watches its works without an informer: its cache would cost more memory than the agent.
type agent struct {
	cluster string
	agent   *work.Agent
	link    *link
	works   worktyped.ManifestWorkInterface
	failed  func(error)
	synced  chan struct{} // closed after the initial list
	once    sync.Once     // closes synced
}

func (f *fleet) newAgent(cluster string) (*agent, error) {
	a := &agent{cluster: cluster, failed: f.failed, synced: make(chan struct{})}
	var err error
	if a.link, err = f.newLink(); err != nil {
		return nil, err
	}
	a.agent, err = work.NewAgent(a.link, work.AgentOptions{
		ClusterName: cluster, Sources: []string{f.id}, InitialSyncTimeout: initialSync,
	})
	if err != nil {
		return nil, err
	}
	a.works = a.agent.Clientset().WorkV1().ManifestWorks(cluster)
	return a, nil
}

// watch handles all works until ctx has ended.
func (a *agent) watch(ctx context.Context) {
	initial := true
	for ctx.Err() == nil {
		w, err := a.works.Watch(ctx, metav1.ListOptions{
			SendInitialEvents: &initial, AllowWatchBookmarks: true,
			ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		})
		if err != nil {
			if ctx.Err() == nil {
				a.failed(fmt.Errorf("agent of %s: watch: %w", a.cluster, err))
			}
			return
		}
		for e := range w.ResultChan() {
			a.received(e)
		}
		w.Stop() // a watch that was too slow starts again
	}
}

func (a *agent) received(e watch.Event) {
	obj, ok := e.Object.(*workv1.ManifestWork)
	switch {
	case !ok:
	case e.Type == watch.Added || e.Type == watch.Modified:
		a.handle(obj)
	case e.Type == watch.Bookmark && obj.Annotations[metav1.InitialEventsAnnotationKey] == "true":
		a.once.Do(func() { close(a.synced) })
	}
}

// handle reports the status of a new generation, and removes the finalizers of a deleted work.
func (a *agent) handle(obj *workv1.ManifestWork) {
	var patch []byte
	var subresources []string
	switch {
	case obj.DeletionTimestamp != nil && len(obj.Finalizers) > 0:
		patch = []byte(`{"metadata":{"finalizers":null}}`)
	case obj.DeletionTimestamp == nil && observed(obj) != obj.Generation:
		patch, subresources = fmt.Appendf(nil, conditions, obj.Generation), []string{"status"}
	default:
		return
	}
	_, err := a.works.Patch(context.Background(), obj.Name, types.MergePatchType, patch, metav1.PatchOptions{},
		subresources...) // does not block
	if err != nil {
		a.failed(fmt.Errorf("agent of %s: work %s: %w", a.cluster, obj.Name, err))
	}
}

// conditions is the status of a work agent after success.
const conditions = `{"status":{"conditions":[` +
	`{"type":"Applied","status":"True","reason":"AppliedManifestWorkComplete","message":"Apply manifest work complete",` +
	`"observedGeneration":%[1]d,"lastTransitionTime":"2026-01-01T00:00:00Z"},` +
	`{"type":"Available","status":"True","reason":"ResourcesAvailable","message":"All resources are available",` +
	`"observedGeneration":%[1]d,"lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`

// observed returns the generation of the status, or 0 without a status.
func observed(obj *workv1.ManifestWork) int64 {
	if len(obj.Status.Conditions) == 0 {
		return 0
	}
	return obj.Status.Conditions[0].ObservedGeneration
}
