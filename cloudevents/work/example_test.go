// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"context"
	"fmt"
	"log"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
)

// run starts a source or an agent. A controller-runtime manager can start them too.
func run(ctx context.Context, r interface{ Start(context.Context) error }) {
	if err := r.Start(ctx); err != nil {
		log.Print(err)
	}
}

// must keeps the examples short.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// A hub sends a work to a cluster, and the agent of the cluster reports on it. With mqtt.New
// instead of the memory bus, they run in different processes.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	bus := memory.New()

	source := must(work.NewSource(bus.Transport(), work.SourceOptions{SourceID: "hub"}))
	agent := must(work.NewAgent(bus.Transport(), work.AgentOptions{ClusterName: "cluster1", Sources: []string{"hub"}}))
	go run(ctx, source)
	go run(ctx, agent)
	<-source.Ready()
	<-agent.Ready()
	if err := source.InventoryComplete(ctx); err != nil { // there are no works to create again
		panic(err)
	}

	// The agent's side: this example uses a watch, a controller would use an informer.
	onAgent := agent.Clientset().WorkV1().ManifestWorks("cluster1")
	arriving := must(onAgent.Watch(ctx, metav1.ListOptions{}))

	// The hub's side: the generated interface.
	onHub := source.Clientset().WorkV1().ManifestWorks("cluster1")
	created := must(onHub.Create(ctx, &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{Name: "app"},
		Spec: workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{Manifests: []workv1.Manifest{{
			RawExtension: runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"app"}}`)},
		}}}},
	}, metav1.CreateOptions{}))
	reported := must(onHub.Watch(ctx, metav1.ListOptions{ResourceVersion: created.ResourceVersion}))

	event := <-arriving.ResultChan()
	fmt.Println("agent:", event.Type, event.Object.(*workv1.ManifestWork).Name)
	status := []byte(`{"status":{"conditions":[{"type":"Applied","status":"True","reason":"AppliedManifestWorkComplete",
		"message":"All is applied","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`)
	must(onAgent.Patch(ctx, "app", types.MergePatchType, status, metav1.PatchOptions{}, "status"))
	event = <-reported.ResultChan()
	condition := event.Object.(*workv1.ManifestWork).Status.Conditions[0]
	fmt.Println("hub:", event.Type, condition.Type, condition.Status)
	// Output:
	// agent: ADDED app
	// hub: MODIFIED Applied True
}

// A hub controller's informer and lister work on a source as they do on the Kubernetes clientset.
func ExampleNewSource() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	source := must(work.NewSource(memory.New().Transport(), work.SourceOptions{
		SourceID: work.SourceID("https://hub.example.com:6443", "rollouts"),
	}))
	go run(ctx, source)

	factory := workinformers.NewSharedInformerFactory(source.Clientset(), 0)
	informer := factory.Work().V1().ManifestWorks()
	lister := informer.Lister()
	added := make(chan string, 1)
	must(informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { added <- obj.(*workv1.ManifestWork).Name },
	}))
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())

	works := source.Clientset().WorkV1().ManifestWorks("cluster1")
	must(works.Create(ctx, &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: "app"}}, metav1.CreateOptions{}))
	fmt.Println("added:", <-added)
	listed := must(lister.ManifestWorks("cluster1").Get("app"))
	fmt.Println("generation:", listed.Generation)
	// Output:
	// added: app
	// generation: 1
}

// An agent has the works of its cluster in one namespace.
func ExampleNewAgent() {
	ctx, cancel := context.WithCancel(context.Background())
	agent := must(work.NewAgent(memory.New().Transport(), work.AgentOptions{
		ClusterName:        "cluster1",
		InitialSyncTimeout: -1, // no source answers here, so do not wait
	}))
	stopped := make(chan error, 1)
	go func() { stopped <- agent.Start(ctx) }()
	<-agent.Ready()
	works := must(agent.Clientset().WorkV1().ManifestWorks("cluster1").List(ctx, metav1.ListOptions{}))
	fmt.Println("works:", len(works.Items), "healthy:", agent.Healthy() == nil)
	cancel()
	fmt.Println("stopped:", <-stopped)
	// Output:
	// works: 0 healthy: true
	// stopped: <nil>
}

// The source ID of OCM's enhancement for event based ManifestWorks consists of a hash of the hub's
// URL and the consumer's name.
func ExampleSourceID() {
	fmt.Println(work.SourceID("https://hub.example.com:6443", "rollouts"))
	// Output: badbd4de19b63989-rollouts
}

// A hub controller may apply works instead of creating and updating them. It sends only its own
// fields, and does not change the fields of other managers.
func ExampleSource_Clientset_apply() {
	source := must(work.NewSource(memory.New().Transport(), work.SourceOptions{SourceID: "rollouts"}))
	works := source.Clientset().WorkV1().ManifestWorks("cluster1")
	apply := func(manager, policy string) error {
		config := []byte(`
apiVersion: work.open-cluster-management.io/v1
kind: ManifestWork
metadata: {name: app}
spec:
  deleteOption: {propagationPolicy: ` + policy + `}`)
		_, err := works.Patch(context.Background(), "app", types.ApplyPatchType, config,
			metav1.PatchOptions{FieldManager: manager})
		return err
	}
	fmt.Println(apply("rollouts", "Orphan"))
	fmt.Println(apply("janitor", "Foreground"))
	// Output:
	// <nil>
	// Apply failed with 1 conflict: conflict with "rollouts": .spec.deleteOption.propagationPolicy
}

// A work for a cluster that never had an agent stays after its deletion, because no agent reports
// its removal. Abandon removes it.
func ExampleSource_Abandon() {
	ctx := context.Background()
	source := must(work.NewSource(memory.New().Transport(), work.SourceOptions{SourceID: "hub"}))
	works := source.Clientset().WorkV1().ManifestWorks("cluster1")
	must(works.Create(ctx, &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: "app"}}, metav1.CreateOptions{}))
	fmt.Println(source.Abandon(ctx, "cluster1", "app"))
	if err := works.Delete(ctx, "app", metav1.DeleteOptions{}); err != nil {
		panic(err)
	}
	fmt.Println(source.Abandon(ctx, "cluster1", "app"))
	_, err := works.Get(ctx, "app", metav1.GetOptions{})
	fmt.Println(err)
	// Output:
	// Operation cannot be fulfilled on manifestworks.work.open-cluster-management.io "app": the work is not being deleted; delete it before you abandon it
	// <nil>
	// manifestworks.work.open-cluster-management.io "app" not found
}

// A store keeps the state of a source over restarts. A store in memory is for tests. Package
// boltstore has a store in a file.
func ExampleNewMemoryStore() {
	ctx := context.Background()
	store := work.NewMemoryStore()
	for range 2 { // the program, and the program after a restart
		source := must(work.NewSource(memory.New().Transport(), work.SourceOptions{SourceID: "hub", Store: store}))
		works := source.Clientset().WorkV1().ManifestWorks("cluster1")
		_, err := works.Create(ctx, &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: "app"}}, metav1.CreateOptions{})
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// manifestworks.work.open-cluster-management.io "app" already exists
}
