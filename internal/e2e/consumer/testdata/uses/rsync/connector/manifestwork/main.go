// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use says how a Job is applied and read.
//
// Prints: jobs, 2 paths, connector: true
package main

import (
	"context"
	"fmt"
	"log"

	"k8s.io/client-go/rest"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/manifestwork"
)

func main() {
	clientset, err := workclientset.NewForConfig(&rest.Config{Host: "https://192.0.2.1"})
	if err != nil {
		log.Fatal(err)
	}
	connectors, err := manifestwork.New(clientset.WorkV1(), manifestwork.Options{})
	if err != nil {
		log.Fatal(err)
	}
	_, err = connectors.Connector(context.Background(), "edge", "cluster1")
	config := manifestwork.DefaultConfig(appcontext.Object{Group: "batch", Kind: "Job", Namespace: "shop", Name: "import"})
	fmt.Printf("%s, %d paths, connector: %v\n", config.ResourceIdentifier.Resource, len(config.FeedbackRules[0].JsonPaths),
		err == nil)
}
