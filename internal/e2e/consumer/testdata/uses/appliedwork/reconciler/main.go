// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use reconciles an AppliedWork on a cluster that does not answer.
//
// Prints: no server: true
package main

import (
	"context"
	"fmt"
	"log"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/reconciler"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

func main() {
	config := &rest.Config{Host: "https://127.0.0.1:1"} // where nobody listens
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		log.Fatal(err)
	}
	disco, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		log.Fatal(err)
	}
	r, err := reconciler.New(reconciler.Options{
		Options: appliedwork.Options{Client: client, Discovery: disco},
		Hub:     "hub",
		Desired: reconciler.DesiredFunc(func(context.Context, *v1alpha1.AppliedWork) (reconciler.Want, error) {
			return reconciler.Want{Removed: true}, nil
		}),
	})
	if err != nil {
		log.Fatal(err)
	}
	request := reconcile.Request{}
	request.Name = appliedwork.NameFor("hub", "cluster1", "shop")
	_, err = r.Reconcile(context.Background(), request)
	fmt.Println("no server:", err != nil)
}
