// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use asks for a cluster that has no kubeconfig.
//
// Prints: the cluster refused: the kubeconfig /no/fleet/c7.kubeconfig does not exist
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/spokewire/sdk-go/rsync/connector/kube"
)

func main() {
	ctx := context.Background()
	connectors, err := kube.New(map[string]kube.Cluster{"fleet+*": {Load: kube.Directory("/no/fleet")}}, kube.Options{})
	if err != nil {
		log.Fatal(err)
	}
	cluster, err := connectors.Connector(ctx, "fleet", "c7")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(cluster.Probe(ctx))
}
