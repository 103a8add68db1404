// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const documentHead = "apiVersion: hub.spokewire.io/v1alpha1\n"

func clusters(names ...string) string {
	var out []string
	for _, name := range names {
		out = append(out, fmt.Sprintf(documentHead+"kind: Cluster\nmetadata: {name: %s}\n", name))
	}
	return strings.Join(out, "---\n")
}

// shop returns the application in a version, and its placement on all clusters.
func shop(version string) string {
	return strings.ReplaceAll(documentHead+`kind: Application
metadata: {name: shop}
spec:
  parts:
  - name: base
    manifests:
    - template: |
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: settings, namespace: shop}
        data: {version: VERSION, password: {{ fromSecret "default" "shop" "password" | quote }}}
        ---
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: only-VERSION, namespace: shop}
        ---
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: web, namespace: shop}
        spec:
          replicas: 1
          selector: {matchLabels: {app: web}}
          template:
            metadata: {labels: {app: web}}
            spec: {containers: [{name: web, image: example.com/web}]}
        ---
        apiVersion: example.com/v1
        kind: Pool
        metadata: {name: pool, namespace: shop}
        spec: {size: 3}
  - name: front
    dependsOn: [{part: base, condition: Ready}]
    manifests:
    - template: |
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: front, namespace: shop}
        data: {version: VERSION, cluster: {{ .Cluster.Name }}}
---
`+documentHead+`kind: Placement
metadata: {name: everywhere}
spec: {applications: [shop], clusters: {selector: {}}}
`, "VERSION", version)
}

// objectsOf returns the objects of the application on a cluster.
func objectsOf(cluster, version, password string) map[string]string {
	return map[string]string{
		"ConfigMap/settings":        fmt.Sprintf("map[password:%s version:%s]", password, version),
		"ConfigMap/only-" + version: "map[]",
		"ConfigMap/front":           fmt.Sprintf("map[cluster:%s version:%s]", cluster, version),
		"Deployment/web":            "1",
		"Pool/pool":                 "3",
	}
}

// victim is a program that is killed at every stage, and restarted.
type victim struct {
	name  string
	kill  func()
	start func()
}

// TestStory repeats the life of an application for each victim. The application is deployed, a
// Secret changes, and the application is updated and rolled back. Then a cluster is removed, and
// the application is deleted. At each stage the victim is killed, during the stage or directly
// after the request, and started again.
func TestStory(t *testing.T) {
	s := newSite(t, []string{"cluster1", "cluster2"})
	s.secret("first")
	s.hub.write("clusters.yaml", clusters("cluster1", "cluster2"))
	s.hub.write("webhooks.yaml", servePools(t, s.ca, s.certs))
	s.hub.start()
	for _, p := range s.spokes {
		p.start()
	}
	victims := []victim{
		{"hub", s.hub.kill, s.hub.start},
		{"agent1", s.spokes[0].kill, s.spokes[0].start},
		{"broker", s.broker.Kill, s.broker.Restart},
		{"agent2", s.spokes[1].kill, s.spokes[1].start},
	}
	for i, v := range victims {
		l := &life{site: s, victim: v, midst: i%2 == 0, browsed: i == 0}
		l.run(t)
		if t.Failed() {
			return
		}
	}
}

// life is one life of the application.
type life struct {
	*site
	victim  victim
	midst   bool
	browsed bool // whether a browser shows its page
}

// stage runs a step, kills the victim, and starts it again.
func (l *life) stage(t *testing.T, name string, do func()) {
	t.Helper()
	said := len(l.hub.run.Log())
	do()
	if l.midst {
		l.hub.awaitLog(said, "application=shop")
	}
	l.midst = !l.midst
	l.victim.kill()
	l.victim.start()
	t.Logf("%s, %s killed", name, l.victim.name)
}

func (l *life) run(t *testing.T) {
	one, two := l.spokes[0], l.spokes[1]
	both := func(version, password string) (uids [2]map[string]string) {
		t.Helper()
		for i, p := range l.spokes {
			uids[i] = p.has(objectsOf(p.name, version, password))
		}
		return uids
	}
	l.secret("first")
	l.stage(t, "deploy", func() { l.hub.write("shop.yaml", shop("v1")) })
	for _, p := range l.spokes {
		base := objectsOf(p.name, "v1", "first")
		// front waits until the Deployment is ready, and until the webhook finds the Pool healthy
		delete(base, "ConfigMap/front")
		p.has(base)
		if l.browsed && p == one {
			t.Run("page", l.page)
		}
		p.pretend("web")
		p.fill("pool", 2)
	}
	l.hub.settled("shop", "OutOfSync", 2, "Progressing")
	for _, p := range l.spokes {
		base := objectsOf(p.name, "v1", "first")
		delete(base, "ConfigMap/front")
		p.has(base)
		p.fill("pool", 3)
	}
	first := both("v1", "first")
	l.hub.settled("shop", "Synced", 2, "Healthy")

	l.stage(t, "Secret", func() { l.secret("second") })
	both("v1", "second")
	l.hub.settled("shop", "Synced", 2, "Healthy")

	l.loseSecret()
	both("v1", "second")

	l.stage(t, "update", func() { l.hub.write("shop.yaml", shop("v2")) })
	both("v2", "second")
	l.hub.settled("shop", "Synced", 2, "Healthy")

	l.stage(t, "rollback", func() {
		if code, text, err := l.hub.call(http.MethodPost, "/api/v1/applications/shop/rollback"); err != nil ||
			code != http.StatusAccepted {
			t.Fatalf("%d %s %v", code, text, err)
		}
	})
	last := both("v1", "second")
	l.hub.settled("shop", "Synced", 2, "Healthy")
	for i := range first {
		for _, name := range []string{"ConfigMap/settings", "ConfigMap/front", "Deployment/web", "Pool/pool"} {
			if first[i][name] != last[i][name] {
				t.Errorf("%s on %s was deleted and made anew", name, l.spokes[i].name)
			}
		}
	}

	l.stage(t, "remove cluster2", func() { l.hub.write("clusters.yaml", clusters("cluster1")) })
	two.clean()
	one.has(objectsOf("cluster1", "v1", "second"))
	l.hub.settled("shop", "Synced", 1, "Healthy")

	l.stage(t, "tear down", func() { l.hub.write("shop.yaml", "") })
	one.clean()
	two.clean()
	l.hub.nothing()
	l.nothingRetained(t)
	l.hub.write("clusters.yaml", clusters("cluster1", "cluster2"))
}

// loseSecret removes the Secret for a while, which changes nothing on clusters.
func (l *life) loseSecret() {
	l.t.Helper()
	secrets := l.spokes[0].core.CoreV1().Secrets(metav1.NamespaceDefault)
	if err := secrets.Delete(l.t.Context(), "shop", metav1.DeleteOptions{}); err != nil {
		l.t.Fatal(err)
	}
	l.hub.settled("shop", "OutOfSync", 2, "Healthy")
	l.secret("second")
	l.hub.settled("shop", "Synced", 2, "Healthy")
}
