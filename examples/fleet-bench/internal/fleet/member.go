// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work"
)

// member is an agent with a work controller that reports success without applying.
type member struct {
	cluster string
	agent   *work.Agent
	link    *link
	works   worktyped.ManifestWorkInterface
	view    view
	failed  func(error)
}

func (f *Fleet) newMember(i int) (*member, error) {
	m := &member{cluster: f.cluster(i), failed: f.options.Failed}
	var err error
	if m.link, err = f.newLink(); err != nil {
		return nil, err
	}
	m.agent, err = work.NewAgent(m.link, work.AgentOptions{
		ClusterName: m.cluster, Sources: []string{f.id}, InitialSyncTimeout: initialSync,
	})
	if err != nil {
		return nil, err
	}
	m.works = m.agent.Clientset().WorkV1().ManifestWorks(m.cluster)
	if f.options.Light {
		m.view = &stream{works: m.works, handle: m.handle, failed: m.failed}
		return m, nil
	}
	m.view, err = newInformer(m.agent.Clientset(), cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { m.handle(obj.(*workv1.ManifestWork)) },
		UpdateFunc: func(_, obj any) { m.handle(obj.(*workv1.ManifestWork)) },
	})
	return m, err
}

// handle reports the status of a new generation, and removes the finalizers of a deleted work.
func (m *member) handle(obj *workv1.ManifestWork) {
	ctx := context.Background() // writes do not block
	var err error
	switch {
	case obj.DeletionTimestamp != nil && len(obj.Finalizers) > 0:
		_, err = m.works.Patch(ctx, obj.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
			metav1.PatchOptions{})
	case obj.DeletionTimestamp == nil && observed(obj) != obj.Generation:
		_, err = m.works.Patch(ctx, obj.Name, types.MergePatchType, report(obj.Generation), metav1.PatchOptions{},
			"status")
	}
	if err != nil {
		m.failed(fmt.Errorf("agent of %s: work %s: %w", m.cluster, obj.Name, err))
	}
}

// conditions is the status of a work agent after success.
const conditions = `{"status":{"conditions":[` +
	`{"type":"Applied","status":"True","reason":"AppliedManifestWorkComplete","message":"Apply manifest work complete",` +
	`"observedGeneration":%[1]s,"lastTransitionTime":"2026-01-01T00:00:00Z"},` +
	`{"type":"Available","status":"True","reason":"ResourcesAvailable","message":"All resources are available",` +
	`"observedGeneration":%[1]s,"lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`

func report(generation int64) []byte {
	return fmt.Appendf(nil, conditions, strconv.FormatInt(generation, 10))
}

// observed returns the generation of the status, or 0 without a status.
func observed(obj *workv1.ManifestWork) int64 {
	if len(obj.Status.Conditions) == 0 {
		return 0
	}
	return obj.Status.Conditions[0].ObservedGeneration
}
