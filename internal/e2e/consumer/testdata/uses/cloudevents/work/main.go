// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use creates a work on a source, and reads it on the agent of its cluster.
//
// Prints: app has generation 1
package main

import (
	"context"
	"fmt"
	"log"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
)

func main() {
	ctx := context.Background()
	bus := memory.New()
	source, err := work.NewSource(bus.Transport(), work.SourceOptions{SourceID: "hub"})
	if err != nil {
		log.Fatal(err)
	}
	agent, err := work.NewAgent(bus.Transport(), work.AgentOptions{ClusterName: "cluster1"})
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range []interface{ Start(context.Context) error }{source, agent} {
		go func() { log.Fatal(r.Start(ctx)) }()
	}
	if _, err := source.Clientset().WorkV1().ManifestWorks("cluster1").Create(ctx, &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{Name: "app"},
	}, metav1.CreateOptions{}); err != nil {
		log.Fatal(err)
	}
	events, err := agent.Clientset().WorkV1().ManifestWorks("cluster1").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		log.Fatal(err)
	}
	arrived := (<-events.ResultChan()).Object.(*workv1.ManifestWork)
	fmt.Println(arrived.Name, "has generation", arrived.Generation)
}
