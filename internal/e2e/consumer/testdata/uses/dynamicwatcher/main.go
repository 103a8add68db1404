// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use has a secret watched on a cluster that does not answer.
//
// Prints: no server: true
package main

import (
	"context"
	"fmt"
	"log"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/spokewire/sdk-go/dynamicwatcher"
)

func main() {
	ctx := context.Background()
	reconciler := dynamicwatcher.ReconcilerFunc(func(context.Context, dynamicwatcher.ObjectIdentifier) (reconcile.Result,
		error) {
		return reconcile.Result{}, nil
	})
	watcher, err := dynamicwatcher.NewForConfig(&rest.Config{Host: "https://127.0.0.1:1"}, reconciler, nil)
	if err != nil {
		log.Fatal(err)
	}
	go func() { log.Fatal(watcher.Start(ctx)) }()
	<-watcher.Started()
	secret := dynamicwatcher.ObjectIdentifier{Version: "v1", Kind: "Secret", Namespace: "shop", Name: "password"}
	policy := dynamicwatcher.ObjectIdentifier{Group: "example.com", Version: "v1", Kind: "Policy", Namespace: "shop",
		Name: "p"}
	fmt.Println("no server:", watcher.AddWatcher(policy, secret) != nil)
}
