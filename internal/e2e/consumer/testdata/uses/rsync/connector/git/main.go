// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use finds the place of an object in a repository that is not there.
//
// Prints: no repository: true
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/git"
)

func main() {
	ctx := context.Background()
	connectors, err := git.New(map[string]git.Repository{"edge+*": {URL: "/no/repository", CreateBranch: true}},
		git.Options{})
	if err != nil {
		log.Fatal(err)
	}
	cluster, err := connectors.Connector(ctx, "edge", "cluster1")
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
	fmt.Println("no repository:", cluster.Apply(ctx, batch) != nil)
	if err := cluster.Close(); err != nil {
		log.Fatal(err)
	}
}
