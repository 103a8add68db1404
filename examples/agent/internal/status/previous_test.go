// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package status_test

import (
	"fmt"
	"testing"
	"time"

	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/agent/internal/spoke"
)

// TestManyManifests checks that the time for a status grows linearly with the number of manifests.
// Manifests are matched with a status in any order, also if only their namespaces differ or if they
// are identical.
func TestManyManifests(t *testing.T) {
	for name, change := range map[string]func(*spoke.Outcome, int){
		"names":      func(o *spoke.Outcome, i int) { o.Object.SetName(fmt.Sprint("d", i)) },
		"namespaces": func(o *spoke.Outcome, i int) { o.Object.SetNamespace(fmt.Sprint("n", i)) },
		"same":       func(*spoke.Outcome, int) {},
		"unknown kind": func(o *spoke.Outcome, i int) {
			o.Resource.Resource = ""
			o.Object.SetNamespace(fmt.Sprint("n", i))
		},
	} {
		t.Run(name, func(t *testing.T) {
			// next measures the time for the second status of n manifests.
			next := func(n int) time.Duration {
				outcomes := make([]spoke.Outcome, n)
				for i := range outcomes {
					outcomes[i] = outcome("a", func(o *spoke.Outcome) {
						o.Live = nil
						change(o, i)
					})
				}
				b, r, w := builder(t), result(outcomes...), &workv1.ManifestWork{}
				w.Status, _ = b.Next(t.Context(), w, r, start)
				began := time.Now()
				next, _ := b.Next(t.Context(), w, r, start.Add(time.Hour))
				took := time.Since(began)
				for i, m := range next.ResourceStatus.Manifests {
					if at := m.Conditions[0].LastTransitionTime; !at.Time.Equal(start) {
						t.Fatalf("manifest %d has another time: %v", i, at)
					}
				}
				return took
			}
			best := func(n int) time.Duration { return min(next(n), next(n), next(n)) } // on a busy machine
			few, many := best(3000), best(15_000)
			if many > 15*few {
				t.Errorf("5 times the manifests take %.1f times as long: %v, %v", float64(many)/float64(few), few, many)
			}
		})
	}
}
