// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// configOf returns an application with a ConfigMap.
func configOf(name, version string) string {
	return fmt.Sprintf(documentHead+"kind: Application\nmetadata: {name: %s}\nspec:\n  parts:\n  - name: main\n"+
		"    manifests:\n    - template: '{apiVersion: v1, kind: ConfigMap, metadata: {name: %[1]s, namespace: shop}, "+
		"data: {v: \"%s\"}}'\n---\n"+documentHead+
		"kind: Placement\nmetadata: {name: %[1]s}\nspec: {applications: [%[1]s], clusters: {selector: {}}}\n", name, version)
}

// TestUnreachableCluster stops the API server of a cluster. The hub blames the cluster, and no object.
func TestUnreachableCluster(t *testing.T) {
	s := newSite(t, []string{"cluster1"})
	s.hub.write("clusters.yaml", clusters("cluster1"))
	s.hub.write("web.yaml", configOf("web", "1"))
	s.hub.start()
	s.spokes[0].start()
	s.hub.settled("web", "Synced", 1, "Healthy")
	shows := func(path string, wants ...string) {
		t.Helper()
		eventually(t, path, func() error {
			code, text, err := s.hub.call(http.MethodGet, path)
			for _, want := range wants {
				if err == nil && (code != http.StatusOK || !strings.Contains(text, want)) {
					err = fmt.Errorf("%d, without %s: %.3000s", code, want, text)
				}
			}
			return err
		})
	}
	s.spokes[0].cluster.StopAPIServer()
	s.hub.write("web.yaml", configOf("web", "2"))
	shows("/api/v1/status", `"health":"Degraded","reason":"The API server of the cluster does not answer: `)
	shows("/api/v1/applications/web/status", `"health":"Unknown"`, "The API server of the cluster does not answer: ")
	shows("/applications/web/cluster1", "its cluster cannot be read")
	s.spokes[0].cluster.StartAPIServer()
	s.hub.settled("web", "Synced", 1, "Healthy")
	shows("/api/v1/status", `"name":"cluster1","sync":"Synced","health":"Healthy"`)
}
