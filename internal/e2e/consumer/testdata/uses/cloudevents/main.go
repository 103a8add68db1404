// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use runs an engine without a transport, which is refused.
//
// Prints: refused: true
package main

import (
	"fmt"

	"github.com/spokewire/sdk-go/cloudevents"
)

func main() {
	_, err := cloudevents.NewEngine(nil, cloudevents.Options{Name: "hub"})
	fmt.Println("refused:", err != nil)
}
