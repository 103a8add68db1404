// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use requests the status of a Deployment, and makes a tracker of the works of a hub.
//
// Prints: deployments, 15 paths, 0 works
package main

import (
	"fmt"
	"log"

	"k8s.io/client-go/rest"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/interpreter/workhealth"
)

func main() {
	clientset, err := workclientset.NewForConfig(&rest.Config{Host: "https://192.0.2.1"})
	if err != nil {
		log.Fatal(err)
	}
	tracker, err := workhealth.New(clientset, workhealth.Options{})
	if err != nil {
		log.Fatal(err)
	}
	var m workv1.Manifest
	m.Raw = []byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop"}}`)
	config := workhealth.Configs([]workv1.Manifest{m})[0]
	fmt.Printf("%s, %d paths, %d works\n", config.ResourceIdentifier.Resource, len(config.FeedbackRules[0].JsonPaths),
		len(tracker.Works()))
}
