// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use builds an app context from a folder.
//
// Prints: web has ConfigMap settings
package main

import (
	"fmt"
	"log"
	"testing/fstest"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/appcontext/folder"
)

func main() {
	builder := appcontext.NewBuilder("shop")
	files := fstest.MapFS{
		"web/settings.yaml": {Data: []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}")},
	}
	cluster := appcontext.ClusterID{Provider: "edge", Name: "cluster1"}
	if err := folder.Add(builder, files, "main", cluster); err != nil {
		log.Fatal(err)
	}
	shop, err := builder.Build()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(shop.Apps[0].Name, "has", shop.Apps[0].Clusters[0].Resources[0].Object)
}
