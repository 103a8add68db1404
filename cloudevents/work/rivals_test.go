// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"testing"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/testing/conformance"
)

// TestRivals runs the rivalries that the end-to-end tests run on a real API server. Whichever
// client is faster, the results of its calls hold.
func TestRivals(t *testing.T) {
	for _, r := range conformance.Rivalries {
		t.Run(r.Name, func(t *testing.T) {
			works := offline(t, work.SourceOptions{}).ManifestWorks("cluster1")
			if err := r.Run(t.Context(), works, r.Rounds); err != nil {
				t.Error(err)
			}
		})
	}
}
