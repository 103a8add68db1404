// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"context"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
)

// A controller on a managed cluster deletes the objects that it applied for works that no longer
// exist. It must not do so before its informer has synced. If Sources is set, the informer syncs
// when each source has sent all its works.
func Example_pruneAfterSync() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	bus := memory.New()
	source := must(work.NewSource(bus.Transport(), work.SourceOptions{SourceID: "hub"}))
	go run(ctx, source)
	must(source.Clientset().WorkV1().ManifestWorks("cluster1").Create(ctx, newWork("kept", "1"), metav1.CreateOptions{}))
	if err := source.InventoryComplete(ctx); err != nil { // an agent's first list waits for this
		panic(err)
	}

	agent := must(work.NewAgent(bus.Transport(), work.AgentOptions{ClusterName: "cluster1", Sources: []string{"hub"}}))
	go run(ctx, agent)
	factory := workinformers.NewSharedInformerFactory(agent.Clientset(), 0)
	informer := factory.Work().V1().ManifestWorks()
	synced := informer.Informer().HasSynced
	factory.Start(ctx.Done())

	applied := map[string]bool{"kept": true, "stale": true} // objects of an earlier process on the cluster
	if !cache.WaitForCacheSync(ctx.Done(), synced) {
		return // ctx has ended: prune nothing
	}
	for _, w := range must(informer.Lister().ManifestWorks("cluster1").List(labels.Everything())) {
		delete(applied, w.Name)
	}
	fmt.Println("to prune:", slices.Sorted(maps.Keys(applied)))
	// Output:
	// to prune: [stale]
}
