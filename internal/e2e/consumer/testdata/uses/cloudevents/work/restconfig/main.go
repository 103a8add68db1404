// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use creates a work of a source with a client of Kubernetes.
//
// Prints: cluster1 greeting
package main

import (
	"context"
	"fmt"
	"log"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/restconfig"
)

func main() {
	source, err := work.NewSource(memory.New().Transport(), work.SourceOptions{SourceID: "hub"})
	if err != nil {
		log.Fatal(err)
	}
	config, err := restconfig.FromSource(source)
	if err != nil {
		log.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		log.Fatal(err)
	}
	resource := schema.GroupVersionResource{Group: workv1.GroupName, Version: "v1", Resource: "manifestworks"}
	works := client.Resource(resource).Namespace("cluster1")
	w := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": workv1.GroupName + "/v1", "kind": "ManifestWork",
		"metadata": map[string]any{"name": "greeting"},
		"spec":     map[string]any{"workload": map[string]any{}},
	}}
	if w, err = works.Create(context.Background(), w, metav1.CreateOptions{}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(w.GetNamespace(), w.GetName())
}
