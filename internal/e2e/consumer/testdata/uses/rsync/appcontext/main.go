// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use builds a context.
//
// Prints: shop has 1 app
package main

import (
	"fmt"
	"log"

	"github.com/spokewire/sdk-go/rsync/appcontext"
)

func main() {
	builder := appcontext.NewBuilder("shop")
	builder.App("web").Resource("edge", "cluster1",
		[]byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}"))
	shop, err := builder.Build()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(shop.ID, "has", len(shop.Apps), "app")
}
