// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/kube"
)

// Example applies an object, gets its state, and deletes it.
func Example() {
	server := newAPI(false) // stands for an API server
	defer server.Close()
	connectors, err := kube.New(map[string]kube.Cluster{"edge+c1": {Config: server.config()}}, kube.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	cluster, err := connectors.Connector(ctx, "edge", "c1") // the engine of package rsync does this
	if err != nil {
		fmt.Println(err)
		return
	}
	manifest := []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: shop}, data: {color: blue}}")
	object, err := appcontext.ParseObject(manifest)
	if err != nil {
		fmt.Println(err)
		return
	}
	batch := connector.Batch{AppContextID: "shop", App: "web",
		Resources: []appcontext.Resource{{Object: object, Manifest: manifest}}}
	show := func() {
		states, err := cluster.Get(ctx, batch)
		if err == nil {
			fmt.Println(states[0].Object, "exists:", states[0].Exists, "ready:", states[0].Ready)
		}
	}
	err = cluster.Apply(ctx, batch)
	show()
	err = errors.Join(err, cluster.Delete(ctx, batch))
	show()
	if err := errors.Join(err, cluster.Close()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// ConfigMap shop/settings exists: true ready: true
	// ConfigMap shop/settings exists: false ready: false
}

// colored reports a ConfigMap as healthy if it has a color. It does not interpret other kinds.
type colored struct{}

func (colored) Health(_ context.Context, object *unstructured.Unstructured) (bool, error) {
	if object.GetKind() != "ConfigMap" {
		return false, kube.ErrNotInterpreted
	}
	_, found, err := unstructured.NestedString(object.Object, "data", "color")
	return found, err
}

// An interpreter decides whether objects are ready. Package interpreter has interpreters for CEL
// and Lua customizations, webhooks, built-in kinds, kinds of widely used projects, and chains of
// interpreters.
func ExampleInterpreter() {
	server := newAPI(false) // stands for an API server
	defer server.Close()
	connectors, err := kube.New(map[string]kube.Cluster{"edge+c1": {Config: server.config()}},
		kube.Options{Interpreter: colored{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	cluster, err := connectors.Connector(ctx, "edge", "c1") // the engine of package rsync does this
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = cluster.Close() }()
	for _, data := range []string{"{}", "{color: blue}"} {
		manifest := []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: shop}, data: " + data +
			"}")
		object, err := appcontext.ParseObject(manifest)
		if err != nil {
			fmt.Println(err)
			return
		}
		batch := connector.Batch{AppContextID: "shop", App: "web",
			Resources: []appcontext.Resource{{Object: object, Manifest: manifest}}}
		if err := cluster.Apply(ctx, batch); err != nil {
			fmt.Println(err)
			return
		}
		states, err := cluster.Get(ctx, batch)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("ready: %v %s\n", states[0].Ready, states[0].Message)
	}
	// Output:
	// ready: false the interpreter reports that it is not healthy
	// ready: true
}

// ExampleDirectory reads kubeconfigs from a folder. Errors about a kubeconfig do not have its
// content.
func ExampleDirectory() {
	connectors, err := kube.New(map[string]kube.Cluster{"fleet+*": {Load: kube.Directory("/etc/no-fleet")}},
		kube.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	cluster, err := connectors.Connector(context.Background(), "fleet", "c7")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(cluster.Probe(context.Background()))
	fmt.Println(cluster.Close())
	// Output:
	// the cluster refused: the kubeconfig /etc/no-fleet/c7.kubeconfig does not exist
	// <nil>
}

// A key is a cluster, all other clusters of a provider, or all other clusters. Each value has
// exactly one way to reach them.
func ExampleNew() {
	_, err := kube.New(map[string]kube.Cluster{
		"edge+c1": {Kubeconfig: "/etc/edge/c1.kubeconfig"},
		"edge+*":  {Load: kube.Directory("/etc/edge")},
	}, kube.Options{})
	fmt.Println(err)
	_, err = kube.New(map[string]kube.Cluster{"edge+c1": {}}, kube.Options{})
	fmt.Println(errors.Is(err, kube.ErrInvalid), err)
	// Output:
	// <nil>
	// true clusters edge+c1: kube: the configuration is invalid: Cluster: 0 of Config, Kubeconfig and Load are set: must be one
}
