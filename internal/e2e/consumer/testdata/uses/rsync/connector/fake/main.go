// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use applies to a cluster in memory.
//
// Prints: 1 object
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
)

func main() {
	ctx := context.Background()
	clusters := fake.New()
	cluster, err := clusters.Connector(ctx, "edge", "cluster1")
	if err != nil {
		log.Fatal(err)
	}
	manifest := []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: shop}}")
	object, err := appcontext.ParseObject(manifest)
	if err != nil {
		log.Fatal(err)
	}
	batch := connector.Batch{AppContextID: "shop", App: "web",
		Resources: []appcontext.Resource{{Object: object, Manifest: manifest}}}
	if err := cluster.Apply(ctx, batch); err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(clusters.Cluster("edge", "cluster1").Objects()), "object")
}
