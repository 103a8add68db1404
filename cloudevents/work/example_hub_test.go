// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
)

// greeting is the work that the hub controller keeps on each cluster.
const greeting = `
apiVersion: work.open-cluster-management.io/v1
kind: ManifestWork
metadata: {name: greeting}
spec:
  workload:
    manifests:
    - {apiVersion: v1, kind: ConfigMap, metadata: {namespace: default, name: greeting}, data: {text: hello}}
`

// A hub controller sends a work to each cluster, and reads their statuses with an informer. A real
// program uses mqtt.New instead of the bus, and has no agents.
func Example_hubController() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	bus := memory.New()
	source, err := work.NewSource(bus.Transport(), work.SourceOptions{SourceID: "greeter"})
	utilruntime.Must(err)
	go func() { utilruntime.Must(source.Start(ctx)) }()

	applied := make(chan string, 100)
	informers := workinformers.NewSharedInformerFactory(source.Clientset(), 0)
	_, err = informers.Work().V1().ManifestWorks().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, obj any) {
			if w := obj.(*workv1.ManifestWork); meta.IsStatusConditionTrue(w.Status.Conditions, workv1.WorkApplied) {
				applied <- w.Namespace
			}
		},
	})
	utilruntime.Must(err)
	informers.Start(ctx.Done())

	clusters := []string{"cluster1", "cluster2"}
	for _, cluster := range clusters {
		works, options := source.Clientset().WorkV1().ManifestWorks(cluster), metav1.PatchOptions{FieldManager: "greeter"}
		_, err := works.Patch(ctx, "greeting", types.ApplyPatchType, []byte(greeting), options)
		utilruntime.Must(err)
	}
	utilruntime.Must(source.InventoryComplete(ctx)) // all works are created: unknown works may be deleted

	for _, cluster := range clusters {
		go reportApplied(ctx, bus, cluster)
	}
	done := map[string]bool{}
	for len(done) < len(clusters) {
		done[<-applied] = true
	}
	fmt.Println("applied on", len(done), "clusters")
	// Output: applied on 2 clusters
}

// reportApplied stands for the agent of a cluster.
func reportApplied(ctx context.Context, bus *memory.Bus, cluster string) {
	agent, err := work.NewAgent(bus.Transport(), work.AgentOptions{ClusterName: cluster, Sources: []string{"greeter"}})
	utilruntime.Must(err)
	go func() { utilruntime.Must(agent.Start(ctx)) }()
	works := agent.Clientset().WorkV1().ManifestWorks(cluster)
	list, err := works.List(ctx, metav1.ListOptions{}) // waits for all works of the source
	utilruntime.Must(err)
	for _, w := range list.Items {
		meta.SetStatusCondition(&w.Status.Conditions,
			metav1.Condition{Type: workv1.WorkApplied, Status: metav1.ConditionTrue, Reason: "AllApplied"})
		_, err := works.UpdateStatus(ctx, &w, metav1.UpdateOptions{})
		utilruntime.Must(err)
	}
}
