// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use says what to apply.
//
// Prints: work-01
package main

import (
	"fmt"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1/applyconfiguration/appliedwork/v1alpha1"
)

func main() {
	fmt.Println(*v1alpha1.AppliedWork("one").WithSpec(v1alpha1.AppliedWorkSpec().WithWorkName("work-01")).Spec.WorkName)
}
