// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package workhealth_test

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	workfake "open-cluster-management.io/api/client/work/clientset/versioned/fake"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/interpreter/workhealth"
)

// ExampleNew tracks a work. The clientset is a fake, and the status is that of a real agent.
func ExampleNew() {
	ctx, cancel := context.WithCancel(context.Background())
	clientset := workfake.NewSimpleClientset() //nolint:staticcheck // there is no other one for this version of the API

	work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "cluster1", Name: "shop", Generation: 1}}
	work.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop"},"spec":{"replicas":2}}`)}}}
	work.Spec.ManifestConfigs = workhealth.Configs(work.Spec.Workload.Manifests)
	work.Status = reported(`{"replicas":2,"updatedReplicas":2,"availableReplicas":1}`)
	if _, err := clientset.WorkV1().ManifestWorks("cluster1").Create(ctx, work, metav1.CreateOptions{}); err != nil {
		panic(err)
	}

	changed := make(chan struct{}, 1)
	tracker, err := workhealth.New(clientset, workhealth.Options{Changed: func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}})
	if err != nil {
		panic(err)
	}
	ended := make(chan error)
	go func() { ended <- tracker.Start(ctx) }()

	for range changed {
		works := tracker.Works()
		if len(works) == 0 || works[0].Pending {
			continue // not evaluated yet
		}
		progress, _ := works[0].Progress()
		fmt.Println(works[0].Name, progress)
		for _, o := range works[0].Objects {
			fmt.Println(o.Object, o.Sync, o.Health, o.Reason)
		}
		break
	}
	cancel()
	if err := <-ended; err != nil {
		panic(err)
	}
	// Output:
	// shop Current
	// apps/Deployment shop/web Synced Progressing 1 of 2 replicas available
}

// reported is the status of a work with the Deployment shop/web.
func reported(status string) workv1.ManifestWorkStatus {
	return workv1.ManifestWorkStatus{
		Conditions: []metav1.Condition{{Type: workv1.WorkApplied, Status: metav1.ConditionTrue, ObservedGeneration: 1}},
		ResourceStatus: workv1.ManifestResourceStatus{Manifests: []workv1.ManifestCondition{{
			ResourceMeta: workv1.ManifestResourceMeta{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"},
			StatusFeedbacks: workv1.StatusFeedbackResult{Values: []workv1.FeedbackValue{
				{Name: "status", Value: workv1.FieldValue{Type: workv1.JsonRaw, JsonRaw: &status}},
			}},
		}}},
	}
}

// ExampleHealths prints a legend.
func ExampleHealths() {
	fmt.Println(workhealth.Healths())
	// Output: [Healthy Suspended Progressing Unknown Missing Degraded]
}

// ExampleStatus_Over computes the health of an application: the worst of its clusters.
func ExampleStatus_Over() {
	counts := workhealth.Counts{workhealth.HealthHealthy: 2, workhealth.HealthDegraded: 1}
	own := workhealth.Status{Sync: workhealth.SyncSynced, Health: workhealth.HealthHealthy}
	application := own.Over(counts, "clusters", "cluster2: 0 of 2 replicas available")
	fmt.Println(application.Health)
	fmt.Println(application.Reason)
	// Output:
	// Degraded
	// 1 of 3 clusters is Degraded: cluster2: 0 of 2 replicas available
}
