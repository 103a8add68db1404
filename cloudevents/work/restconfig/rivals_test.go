// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package restconfig_test

import (
	"testing"

	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"

	"github.com/spokewire/sdk-go/internal/testing/conformance"
)

// TestRivals runs the test bodies with many concurrent clients. They also pass on an API server.
func TestRivals(t *testing.T) {
	for _, r := range conformance.Rivalries {
		t.Run(r.Name, func(t *testing.T) {
			works := workclientset.NewForConfigOrDie(configOf(t, newSource(t))).WorkV1().ManifestWorks("cluster1")
			if err := r.Run(t.Context(), works, max(10, r.Rounds/50)); err != nil {
				t.Error(err)
			}
		})
	}
}
