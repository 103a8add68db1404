// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub_test

import (
	"fmt"
	"testing"
)

// BenchmarkState measures the state of 20 applications on 200 clusters, which are 4,000 works, after
// all of them were written.
func BenchmarkState(b *testing.B) {
	const applications, clusters = 20, 200
	f := fixtureOf(b)
	f.start()
	for i := range clusters {
		if err := f.put(b.Context(), fmt.Sprintf("kind: Cluster\nmetadata: {name: cluster%d}\n", i)); err != nil {
			b.Fatal(err)
		}
	}
	for i := range applications {
		name := fmt.Sprintf("app%d", i)
		for _, text := range []string{
			fmt.Sprintf("kind: Application\nmetadata: {name: %s}\nspec:\n  parts:\n  - name: main\n    manifests:\n"+
				"    - template: '{apiVersion: v1, kind: ConfigMap, metadata: {name: %[1]s, namespace: x}}'\n", name),
			fmt.Sprintf("kind: Placement\nmetadata: {name: %s}\n"+
				"spec: {applications: [%[1]s], clusters: {selector: {}}}\n", name),
		} {
			if err := f.put(b.Context(), text); err != nil {
				b.Fatal(err)
			}
		}
		if err := f.rollouts.Settled(b.Context(), name); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if got := len(f.State(b.Context()).Applications); got != applications {
			b.Fatalf("%d applications", got)
		}
	}
}
