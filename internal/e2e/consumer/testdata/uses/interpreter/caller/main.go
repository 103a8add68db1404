// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use asks a caller that knows no webhooks yet.
//
// Prints: not ready: true
package main

import (
	"errors"
	"fmt"
	"log"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spokewire/sdk-go/interpreter/caller"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

func main() {
	webhooks, err := caller.New(caller.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer webhooks.Close()
	_, err = webhooks.Match(v1alpha1.InterpreterOperationInterpretHealth,
		schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Pool"}, true)
	fmt.Println("not ready:", errors.Is(err, caller.ErrNotReady))
}
