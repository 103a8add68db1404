// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use finds the apply configuration of a kind.
//
// Prints: true
package main

import (
	"fmt"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1/applyconfiguration"
)

func main() {
	fmt.Println(applyconfiguration.ForKind(v1alpha1.GroupVersion.WithKind("AppliedWork")) != nil)
}
