// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use changes a manifest for one cluster.
//
// Prints: cluster1 has {"apiVersion":"v1","data":{"size":"large"},"kind":"ConfigMap","metadata":{"name":"settings"}}
package main

import (
	"fmt"
	"log"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/appcontext/override"
)

func main() {
	builder := appcontext.NewBuilder("shop")
	settings := appcontext.Object{Kind: "ConfigMap", Name: "settings"}
	builder.App("web").
		Resource("edge", "cluster1",
			[]byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {size: small}}")).
		Override("edge", "cluster1", settings, override.JSONPatch([]byte("[{op: replace, path: /data/size, value: large}]")))
	shop, err := builder.Build()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("cluster1 has", string(shop.Apps[0].Clusters[0].Resources[0].Manifest))
}
