// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use waits for an object of a cluster that does not answer.
//
// Prints: Current, no server: Unknown
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/health"
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
	tracker, err := appliedwork.NewTracker(appliedwork.Options{Client: client, Discovery: disco})
	if err != nil {
		log.Fatal(err)
	}
	settings := &unstructured.Unstructured{}
	settings.SetAPIVersion("v1")
	settings.SetKind("ConfigMap")
	settings.SetNamespace("shop")
	settings.SetName("settings")
	result, err := health.Of(settings)
	if err != nil {
		log.Fatal(err)
	}
	err = health.NewWaiter(tracker).Wait(context.Background(), []*unstructured.Unstructured{settings},
		health.Options{Timeout: time.Second})
	var notReady *health.NotReadyError
	if !errors.As(err, &notReady) {
		log.Fatal(err)
	}
	fmt.Printf("%s, no server: %s\n", result.Status, notReady.Result.Status)
}
