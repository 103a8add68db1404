// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/spokewire/sdk-go/appliedwork"
)

// TestNameFor checks that a name is valid, stable, and unique for a work, for any characters in its
// parts.
func TestNameFor(t *testing.T) {
	if got, want := appliedwork.NameFor("hub", "cluster1", "Work_01"), "work-01-"; got[:len(want)] != want ||
		got != appliedwork.NameFor("hub", "cluster1", "Work_01") {
		t.Error(got)
	}
	seen := map[string][3]string{}
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "a", "A", "a-", "-a", "a.b", "a/b", "ab"}))
		parts := [3]string{part.Draw(t, "hub"), part.Draw(t, "namespace"), part.Draw(t, "name")}
		name := appliedwork.NameFor(parts[0], parts[1], parts[2])
		if errs := validation.IsDNS1123Subdomain(name); len(errs) > 0 || len(name) > 133 {
			t.Fatalf("%q: %v", name, errs)
		}
		if other, ok := seen[name]; ok && other != parts {
			t.Fatalf("%q and %q are both %s", parts, other, name)
		}
		seen[name] = parts
	})
}
