// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"encoding/json"
	"fmt"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1/applyconfiguration/appliedwork/v1alpha1"
)

// Fields that are not set are not sent.
func ExampleAppliedWork() {
	work := v1alpha1.AppliedWork("cluster1-work-01").
		WithLabels(map[string]string{"team": "shop"}).
		WithSpec(v1alpha1.AppliedWorkSpec().WithWorkNamespace("cluster1").WithWorkName("work-01"))
	text, err := json.MarshalIndent(work, "", "  ")
	fmt.Println(string(text), err)
	// Output:
	// {
	//   "kind": "AppliedWork",
	//   "apiVersion": "multicluster.x-k8s.io/v1alpha1",
	//   "metadata": {
	//     "name": "cluster1-work-01",
	//     "labels": {
	//       "team": "shop"
	//     }
	//   },
	//   "spec": {
	//     "workName": "work-01",
	//     "workNamespace": "cluster1"
	//   }
	// } <nil>
}
