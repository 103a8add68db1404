// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use reads the CRD that comes with the types.
//
// Prints: appliedworks.multicluster.x-k8s.io is true
package main

import (
	"fmt"
	"log"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

func main() {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		log.Fatal(err)
	}
	fmt.Println(v1alpha1.CRD().GetName(), "is", scheme.Recognizes(v1alpha1.GroupVersion.WithKind("AppliedWork")))
}
