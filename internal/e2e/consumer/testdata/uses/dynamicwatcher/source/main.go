// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use makes the source of a controller that the module has.
//
// Prints: a source: true
package main

import (
	"fmt"
	"log"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	runtimesource "sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/spokewire/sdk-go/dynamicwatcher"
	"github.com/spokewire/sdk-go/dynamicwatcher/source"
)

func main() {
	dependencies, err := source.New(&dynamicwatcher.Options{Config: &rest.Config{Host: "https://192.0.2.1"}})
	if err != nil {
		log.Fatal(err)
	}
	var rawSource runtimesource.TypedSource[reconcile.Request] = dependencies // what WatchesRawSource takes
	fmt.Println("a source:", rawSource != nil)
}
