// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package manifestwork_test

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/manifestwork"
)

// must panics on an error. It keeps the examples short.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// Example applies two objects for one app, and then changes one of them for another app. The object
// stays in its work. With mqtt.New instead of the memory bus, a broker would deliver the works to
// agents.
func Example() {
	ctx := context.Background()
	source := must(work.NewSource(memory.New().Transport(), work.SourceOptions{SourceID: "rsync"}))
	connectors := must(manifestwork.New(source.Clientset().WorkV1(), manifestwork.Options{}))
	cluster := must(connectors.Connector(ctx, "edge", "cluster1")) // the engine of package rsync does this
	defer cluster.Close()

	resource := func(text string) appcontext.Resource {
		return appcontext.Resource{Object: must(appcontext.ParseObject([]byte(text))), Manifest: []byte(text)}
	}
	batch := connector.Batch{AppContextID: "v1", App: "web", Resources: []appcontext.Resource{
		resource("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}"),
		resource("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: shop}, data: {color: red}}"),
	}}
	if err := cluster.Apply(ctx, batch); err != nil {
		panic(err)
	}
	batch = connector.Batch{AppContextID: "v2", App: "settings", Resources: []appcontext.Resource{
		resource("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: shop}, data: {color: blue}}"),
	}}
	if err := cluster.Apply(ctx, batch); err != nil {
		panic(err)
	}
	works := must(source.Clientset().WorkV1().ManifestWorks("cluster1").List(ctx, metav1.ListOptions{}))
	for _, w := range works.Items {
		fmt.Println(w.Name)
		for _, m := range w.Spec.Workload.Manifests {
			fmt.Println(" ", string(m.Raw))
		}
	}
	state := must(cluster.Get(ctx, batch))[0]
	fmt.Println(state.Ready, state.Message)
	// Output:
	// web-532699d1994178c361f4
	//   {"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop"}}
	//   {"apiVersion":"v1","data":{"color":"blue"},"kind":"ConfigMap","metadata":{"name":"settings","namespace":"shop"}}
	// false the agent has not reported yet
}

// ExampleDefaultConfig makes agents use server-side apply, and keeps the default feedback.
func ExampleDefaultConfig() {
	options := manifestwork.Options{Config: func(o appcontext.Object) *workv1.ManifestConfigOption {
		config := manifestwork.DefaultConfig(o)
		if config != nil {
			config.UpdateStrategy = &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeServerSideApply}
		}
		return config
	}}
	config := options.Config(appcontext.Object{Group: "batch", Kind: "Job", Namespace: "shop", Name: "import"})
	fmt.Println(config.ResourceIdentifier, config.UpdateStrategy.Type)
	for _, path := range config.FeedbackRules[0].JsonPaths {
		fmt.Println(path.Name, path.Path)
	}
	// Output:
	// {batch jobs import shop} ServerSideApply
	// JobComplete .status.conditions[?(@.type=="Complete")].status
	// JobFailed .status.conditions[?(@.type=="Failed")].status
}

// Clusters with the same name but different providers have separate namespaces for their works.
func ExampleNew() {
	ctx := context.Background()
	source := must(work.NewSource(memory.New().Transport(), work.SourceOptions{SourceID: "rsync"}))
	connectors := must(manifestwork.New(source.Clientset().WorkV1(), manifestwork.Options{
		Namespace: func(c appcontext.ClusterID) string { return c.Provider + "-" + c.Name },
		Labels:    map[string]string{"team": "shop"},
	}))
	manifest := []byte("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}")
	batch := connector.Batch{AppContextID: "shop", App: "web", Resources: []appcontext.Resource{
		{Object: must(appcontext.ParseObject(manifest)), Manifest: manifest},
	}}
	for _, provider := range []string{"edge", "moon"} {
		cluster := must(connectors.Connector(ctx, provider, "cluster1"))
		if err := cluster.Apply(ctx, batch); err != nil {
			panic(err)
		}
	}
	for _, w := range must(source.Clientset().WorkV1().ManifestWorks("").List(ctx, metav1.ListOptions{})).Items {
		fmt.Println(w.Namespace, w.Labels["team"])
	}
	// Unordered output:
	// edge-cluster1 shop
	// moon-cluster1 shop
}
