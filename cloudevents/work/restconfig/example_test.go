// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package restconfig_test

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/restconfig"
)

// scheme has the types of Kubernetes and ManifestWork.
var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(s))
	utilruntime.Must(workv1.Install(s))
	return s
}()

func must[T any](v T, err error) T {
	utilruntime.Must(err)
	return v
}

// The client of controller-runtime creates, patches and lists works of a source.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	source := must(work.NewSource(memory.New().Transport(), work.SourceOptions{SourceID: "hub"}))
	go func() { utilruntime.Must(source.Start(ctx)) }()

	config := must(restconfig.FromSource(source))
	c := must(client.New(config, client.Options{Scheme: scheme}))

	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "cluster1", Name: "greeting"}}
	w.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"greeting"}}`)}}}
	utilruntime.Must(c.Create(ctx, w))

	patch := client.MergeFrom(w.DeepCopy())
	w.Labels = map[string]string{"app": "greeter"}
	utilruntime.Must(c.Patch(ctx, w, patch))

	var works workv1.ManifestWorkList
	utilruntime.Must(c.List(ctx, &works, client.MatchingLabels{"app": "greeter"}))
	for _, w := range works.Items {
		fmt.Println(w.Namespace, w.Name, "generation", w.Generation)
	}
	// Output: cluster1 greeting generation 1
}

// A cache of controller-runtime shares the manifests of works with the source.
func ExampleNewInformer() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	source := must(work.NewSource(memory.New().Transport(), work.SourceOptions{SourceID: "hub"}))
	go func() { utilruntime.Must(source.Start(ctx)) }()
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "cluster1", Name: "greeting"}}
	must(source.Clientset().WorkV1().ManifestWorks("cluster1").Create(ctx, w, metav1.CreateOptions{}))

	works := must(cache.New(must(restconfig.FromSource(source)), cache.Options{
		Scheme: scheme, NewInformer: restconfig.NewInformer,
	}))
	go func() { utilruntime.Must(works.Start(ctx)) }()
	works.WaitForCacheSync(ctx)

	var cached workv1.ManifestWork
	utilruntime.Must(works.Get(ctx, client.ObjectKeyFromObject(w), &cached))
	fmt.Println(cached.Namespace, cached.Name)
	// Output: cluster1 greeting
}

// A work controller on a managed cluster reports the status of works with the client of
// controller-runtime.
func ExampleFromAgent() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	bus := memory.New()
	source := must(work.NewSource(bus.Transport(), work.SourceOptions{SourceID: "hub"}))
	go func() { utilruntime.Must(source.Start(ctx)) }()
	agent := must(work.NewAgent(bus.Transport(), work.AgentOptions{ClusterName: "cluster1", Sources: []string{"hub"}}))
	go func() { utilruntime.Must(agent.Start(ctx)) }()

	onHub := must(client.New(must(restconfig.FromSource(source)), client.Options{Scheme: scheme}))
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "cluster1", Name: "greeting"}}
	utilruntime.Must(onHub.Create(ctx, w))
	utilruntime.Must(source.InventoryComplete(ctx))

	onCluster := must(client.NewWithWatch(must(restconfig.FromAgent(agent)), client.Options{Scheme: scheme}))
	var works workv1.ManifestWorkList
	utilruntime.Must(onCluster.List(ctx, &works)) // waits for all works of the source
	for _, w := range works.Items {
		w.Status.Conditions = []metav1.Condition{{
			Type: workv1.WorkApplied, Status: metav1.ConditionTrue, Reason: "AllApplied", LastTransitionTime: metav1.Now(),
		}}
		utilruntime.Must(onCluster.Status().Update(ctx, &w))
		fmt.Println(w.Name, "is", w.Status.Conditions[0].Type)
	}
	// Output: greeting is Applied
}
