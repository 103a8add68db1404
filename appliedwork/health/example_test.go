// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package health_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/health"
)

func ExampleOf() {
	result, err := health.Of(parsed(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"shop","name":"web"},
		"spec":{"replicas":3},"status":{"replicas":3,"updatedReplicas":3,"readyReplicas":1,"availableReplicas":1}}`))
	fmt.Println(result.Status, "-", result.Message, err)
	// Output: InProgress - Available: 1/3 <nil>
}

// Two objects were applied, and a controller has reported one of them as stalled.
func ExampleNewWaiter() {
	objects := []*unstructured.Unstructured{ready("web"), gadget("db", "Stalled=True", "the disk is full")}
	// These stand for a cluster: a dynamic client and a discovery client.
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{gadgets: "GadgetList"}, objects[0], objects[1])
	disco := &served{}
	disco.served.Store(true)
	tracker, err := appliedwork.NewTracker(appliedwork.Options{Client: client, Discovery: disco})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = health.NewWaiter(tracker).Wait(context.Background(), objects, health.Options{
		Timeout: 5 * time.Minute,
		OnChange: func(e health.Event) {
			if e.Result.Status == health.StatusFailed {
				fmt.Println("event:", e.Key, e.Result.Status)
			}
		},
	})
	var notReady *health.NotReadyError
	if errors.As(err, &notReady) {
		fmt.Println("error:", notReady)
	}
	// Output:
	// event: Gadget.example.com shop/db Failed
	// error: Gadget.example.com shop/db is Failed: the disk is full
}
