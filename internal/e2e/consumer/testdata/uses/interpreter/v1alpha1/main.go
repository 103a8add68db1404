// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use validates a configuration.
//
// Prints: faults: true
package main

import (
	"fmt"

	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

func main() {
	configuration := v1alpha1.ResourceInterpreterWebhookConfiguration{Webhooks: []v1alpha1.ResourceInterpreterWebhook{{}}}
	configuration.SetDefaults()
	fmt.Println("faults:", len(configuration.Validate()) > 0)
}
