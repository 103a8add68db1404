// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub_test

import (
	"os"
	"path/filepath"
	"testing"
)

// TestCustomization: a part waits for a custom resource of another part, until a customization of
// the hub finds the resource healthy. No webhook is configured. The agent reports the generation of
// the object, which no manifest has.
func TestCustomization(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pools.yaml")
	err := os.WriteFile(file, []byte(`apiVersion: config.karmada.io/v1alpha1
kind: InterpreterCustomization
metadata: {name: pools}
spec:
  targets: [{apiVersion: example.com/v1, kind: Pool}]
  health: object.metadata.generation == 1 && object.?status.size.orValue(0) >= object.spec.size
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, []string{"cluster1"}, "--customizations", file)
	s.secret("first")
	s.hub.write("clusters.yaml", clusters("cluster1"))
	s.hub.start()
	one := s.spokes[0]
	one.start()
	s.hub.write("shop.yaml", shop("v1"))
	base := objectsOf("cluster1", "v1", "first")
	delete(base, "ConfigMap/front")
	one.has(base)
	one.pretend("web")
	one.fill("pool", 2)
	s.hub.settled("shop", "OutOfSync", 1, "Progressing")
	one.has(base)
	one.fill("pool", 3)
	one.has(objectsOf("cluster1", "v1", "first"))
	s.hub.settled("shop", "Synced", 1, "Healthy")
}
