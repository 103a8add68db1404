// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub_test

import (
	"fmt"
	"path/filepath"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/internal/e2e/kube"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
)

// on returns an application with manifests, in a document with its placement on clusters.
func on(name, clusters, rollout string, manifests ...string) string {
	text := documentHead + "kind: Application\nmetadata: {name: " + name + "}\nspec:\n" + rollout +
		"  parts:\n  - name: main\n    manifests:\n"
	for _, m := range manifests {
		text += "    - template: '" + m + "'\n"
	}
	return text + "---\n" + documentHead + fmt.Sprintf(
		"kind: Placement\nmetadata: {name: %s}\nspec: {applications: [%[1]s], clusters: {names: [%s]}}\n", name, clusters)
}

// configMap returns a ConfigMap in the namespace shop, or in another one on cluster1.
func configMap(name, version string) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: shop}, data: {v: "%s"}}`,
		name, version)
}

const elsewhere = `{apiVersion: v1, kind: ConfigMap, metadata: {name: roll, namespace: ` +
	`{{ if eq .Cluster.Name "cluster1" }}nowhere{{ else }}shop{{ end }}}, data: {v: "2"}}`

func service(port int) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: front, namespace: shop}, `+
		`spec: {ports: [{port: %d}]}}`, port)
}

func job(image string) string {
	return `{apiVersion: batch/v1, kind: Job, metadata: {name: migrate, namespace: shop}, spec: {` +
		`template: {spec: {restartPolicy: Never, containers: [{name: main, image: "` + image + `"}]}}}}`
}

const (
	canaryGroup = "  rollout: {progressDeadline: 3s, groups: [{name: canary, clusters: {names: [cluster1]}}]}\n"
	gatedGroup  = "  rollout: {groups: [{name: canary, clusters: {names: [cluster1]}, approveAfter: true}]}\n"
	degraded    = `spokewire_hub_applications\{health="Degraded",sync="OutOfSync"\} 1`
	applyFailed = `"Failed to apply a work, retrying"`
)

// incidents is a site during incidents.
type incidents struct {
	*site
	call     *onCall
	one, two *spoke
	thaw     func() // of a frozen API server
}

// TestIncidents prepares incidents one after the other. A person on call finds each cause with at most
// three pages and commands, and everything is as before after the repair.
func TestIncidents(t *testing.T) {
	s := newSite(t, []string{"cluster1", "cluster2"})
	i := &incidents{site: s, call: &onCall{hub: s.hub, t: t}, one: s.spokes[0], two: s.spokes[1]}
	rights := i.limit(i.one)
	i.hub.write("clusters.yaml", clusters("cluster1", "cluster2"))
	i.hub.write("good.yaml", on("good", "cluster1, cluster2", "", configMap("good", "1")))
	i.hub.start()
	i.one.start()
	i.two.start()
	i.call.shows("hub status", true, "good   Synced   Healthy   2/2")
	i.call.healthy()
	all := append(i.connections(), i.documents()...)
	all = append(all, i.missingRight(rights), i.secondHub())
	for _, one := range append(all, i.newClusters()...) {
		t.Run(one.name, func(t *testing.T) { i.call.run(t, one) })
	}
}

// write returns a function that writes a file of documents.
func (i *incidents) write(name, text string) func() { return func() { i.hub.write(name, text) } }

// limit starts an agent with the rights of a role, and returns a function that changes the resources of
// the role.
func (i *incidents) limit(p *spoke) (change func(resources ...string)) {
	const name = "works"
	roles := p.core.RbacV1().ClusterRoles()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}},
	}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "work-agent"}},
	}
	_, err := roles.Create(p.t.Context(), role, metav1.CreateOptions{})
	if err == nil {
		_, err = p.core.RbacV1().ClusterRoleBindings().Create(p.t.Context(), binding, metav1.CreateOptions{})
	}
	if err != nil {
		p.t.Fatal(err)
	}
	p.args = append(p.args, "--kubeconfig", kube.WriteKubeconfig(p.t, p.cluster.User("work-agent")))
	return func(resources ...string) {
		role.Rules[0].Resources = resources
		if _, err := roles.Update(p.t.Context(), role, metav1.UpdateOptions{}); err != nil {
			p.t.Fatal(err)
		}
	}
}

// connections are incidents of connections.
func (i *incidents) connections() []incident {
	const outage = "The API server of the cluster does not answer"
	return []incident{
		{
			name: "broker away", logs: i.hub.process, fail: i.broker.Kill, repair: i.broker.Restart,
			looks: map[string][]string{
				"/":                {"The broker is down", i.broker.URL(), "connection refused"},
				"hub get clusters": {"Down", "broker", i.broker.URL(), "connection refused"},
				"/api/v1/status":   {`"up":false`, `{"name":"broker","address":"` + i.broker.URL() + `","up":false`},
			},
			metric: `spokewire_hub_link_up\{link="broker"\} 0`,
			failed: `"Failed to connect to the broker, trying again"`, recovered: `"Connected to the broker again"`,
		},
		{
			name: "frozen API server of a cluster", logs: i.two.process,
			fail: func() { i.thaw = i.two.cluster.FreezeAPIServer() }, repair: func() { i.thaw() },
			looks: map[string][]string{
				"/clusters":        {outage, "cluster2"},
				"hub get clusters": {outage, "cluster2   Connected   Unknown"},
				"/api/v1/status":   {outage, `{"name":"cluster2","sync":"Unknown","health":"Degraded"`},
			},
			metric: `spokewire_hub_clusters\{agent="Connected",health="Degraded"\} 1`,
			failed: `"Lost the API server of the cluster"`, recovered: `"Reached the API server of the cluster again"`,
		},
		{
			name: "frozen API server of the hub", logs: i.hub.process,
			fail: func() { i.thaw = i.one.cluster.FreezeAPIServer() }, repair: func() { i.thaw() },
			looks: map[string][]string{
				"/":                {"The API server is down", "/version"},
				"hub get clusters": {"Down", "API server", outage},
				"/api/v1/status":   {`"up":false`, `{"name":"API server","address":"https://`},
			},
			metric: `spokewire_hub_link_up\{link="API server"\} 0`,
			failed: `"Lost the API server of --kubeconfig"`, recovered: `"Reached the API server of --kubeconfig again"`,
		},
	}
}

// documents are incidents of documents.
func (i *incidents) documents() []incident {
	return []incident{
		{
			name: "refused manifest", logs: i.two.process,
			fail:   i.write("bad.yaml", on("bad", "cluster2", "", configMap("next", "1"), service(70000))),
			repair: i.write("bad.yaml", on("bad", "cluster2", "", configMap("next", "1"), service(80))),
			looks: map[string][]string{
				"hub status bad":                     {"70000: must be between 1 and 65535", "cluster2", "Service shop/front"},
				"/applications/bad/cluster2":         {"70000: must be between 1 and 65535", "Service shop/front"},
				"hub get objects --cluster cluster2": {"70000", "ConfigMap   shop        next    Synced      Healthy"},
			},
			metric: degraded, failed: applyFailed, recovered: `"Recovered a work"`,
		},
		{
			name: "immutable field", logs: i.two.process,
			fail: func() {
				i.hub.write("job.yaml", on("job", "cluster2", "", job("example.com/a")))
				i.call.shows("hub get objects --cluster cluster2", true, "Job ")
				i.hub.write("job.yaml", on("job", "cluster2", "", job("example.com/b")))
			},
			repair: i.write("job.yaml", ""), // as for another name, the old object is removed
			looks: map[string][]string{
				"/":                          {"field is immutable", "job"},
				"hub status":                 {"field is immutable", "Job shop/migrate", "another name"},
				"/applications/job/cluster2": {"field is immutable", "Job shop/migrate", "another name"},
			},
			metric: degraded, failed: applyFailed,
			recovered: `"Removed a work, its objects are deleted or orphaned"`,
		},
		{
			name: "invalid file", logs: i.hub.process,
			fail: i.write("invalid.yaml", "kind: ["), repair: i.write("invalid.yaml", ""),
			looks: map[string][]string{
				"/":              {"invalid.yaml"},
				"hub status":     {"invalid.yaml"},
				"/api/v1/status": {"invalid.yaml"},
			},
			metric: `spokewire_hub_documents_refused 1`,
			failed: `"Rejected documents, the previous documents stay in effect"`, recovered: `"Accepted documents"`,
		},
		{
			name: "failed rollout", logs: i.one.process,
			fail: func() {
				i.hub.write("roll.yaml", on("roll", "cluster1, cluster2", canaryGroup, configMap("roll", "1")))
				i.call.shows("hub status", true, "roll   Synced   Healthy   2/2")
				i.hub.write("roll.yaml", on("roll", "cluster1, cluster2", canaryGroup, elsewhere))
				i.call.shows("hub status roll", true, "cluster2   OutOfSync   Healthy    1 ",
					"the rollout has ended before its turn")
			},
			repair: i.write("roll.yaml", on("roll", "cluster1, cluster2", canaryGroup, configMap("roll", "3"))),
			looks: map[string][]string{
				"hub status roll": {
					`namespaces "nowhere" not found`, "ConfigMap nowhere/roll", "canary     1          0             0           1",
				},
				"/applications/roll": {`namespaces "nowhere" not found`, "the rollout has ended before its turn"},
			},
			metric: degraded, failed: applyFailed,
			recovered: `"Removed a work, its objects are deleted or orphaned"`,
		},
		{
			name: "rollout waits for an approval", logs: i.hub.process,
			fail: func() {
				i.hub.write("gate.yaml", on("gate", "cluster1, cluster2", gatedGroup, configMap("gate", "1")))
				i.call.shows("hub status", true, "gate ")
			},
			repair: func() {
				if out, err := i.call.look("hub approve gate --group canary --gate After"); err != nil {
					i.call.t.Error(err, out)
				}
			},
			looks: map[string][]string{
				"hub status gate":    {`waits for an approval after group "canary"`, "cluster2"},
				"/applications/gate": {`waits for an approval after group "canary"`},
			},
			metric: `spokewire_hub_applications\{health="Suspended",sync="OutOfSync"\} 1`,
		},
	}
}

// missingRight takes a right from the agent of the first cluster.
func (i *incidents) missingRight(rights func(resources ...string)) incident {
	const right = `cannot get resource "services" in API group "" in the namespace "shop"`
	return incident{
		name: "missing right", logs: i.one.process,
		fail: func() {
			rights("configmaps", "namespaces", "events", "appliedworks", "appliedworks/status", "customresourcedefinitions")
			i.hub.write("right.yaml", on("right", "cluster1", "", service(80)))
		},
		repair: func() { rights("*") },
		looks: map[string][]string{
			"hub status right":             {right, "cluster1", "Service shop/front", "grant it the right"},
			"/applications/right/cluster1": {right, "Service shop/front"},
		},
		metric: degraded, failed: applyFailed, recovered: `"Recovered a work"`,
	}
}

// secondHub starts another hub with the same source.
func (i *incidents) secondHub() incident {
	second := newProcess(i.call.t, true, "hub", append(i.reach("hub"), "--source", "hub", "--store",
		filepath.Join(i.call.t.TempDir(), "second"), "--listen", "127.0.0.1:0")...)
	const problem = "newer process with the same ID"
	return incident{
		name: "second hub", logs: i.hub.process, fail: second.start, repair: second.end,
		looks: map[string][]string{
			"/": {problem}, "hub get clusters": {problem, "Down"}, "/api/v1/status": {problem},
		},
		metric:    `spokewire_hub_link_up\{link="broker"\} 0`,
		failed:    `"Stopped writing: a newer process with the same ID is connected"`,
		recovered: `"Resumed writing: no newer process with the same ID is connected"`,
	}
}

// newClusters are incidents of agents that have not connected before. Both have the same cluster.
func (i *incidents) newClusters() []incident {
	third := i.newSpoke("cluster3")
	fourth := newProcess(i.call.t, true, "agent", append(i.reach("cluster4"), "--cluster", "cluster4", "--source",
		"hubb", "--kubeconfig", third.cluster.Kubeconfig(), "--store", filepath.Join(i.call.t.TempDir(), "agent.db"))...)
	return []incident{
		{
			name: "foreign certificate", logs: third.process,
			fail: func() {
				certtest.New(i.call.t).Issue(i.call.t, "cluster3").Write(i.call.t, i.certs, "cluster3")
				i.hub.write("clusters.yaml", clusters("cluster1", "cluster2", "cluster3"))
				i.hub.write("third.yaml", on("third", "cluster3", "", configMap("third", "1")))
				third.start()
			},
			repair: func() { i.ca.Issue(i.call.t, "cluster3").Write(i.call.t, i.certs, "cluster3") },
			looks: map[string][]string{
				"/":                {"no agent of the cluster has ever connected", "cluster3"},
				"hub get clusters": {"no agent of the cluster has ever connected", "cluster3"},
			},
			metric: `spokewire_hub_clusters\{agent="NeverJoined",health="Missing"\} 1`,
			failed: `"Failed to connect to the broker, trying again"`,
		},
		{
			name: "wrong source", logs: fourth,
			fail: func() {
				i.hub.write("clusters.yaml", clusters("cluster1", "cluster2", "cluster3", "cluster4"))
				i.hub.write("fourth.yaml", on("fourth", "cluster4", "", configMap("fourth", "1")))
				fourth.start()
			},
			repair: func() {
				fourth.end()
				fourth.args = append(fourth.args, "--source", "hub")
				fourth.start()
			},
			looks: map[string][]string{
				"/":                {"check that it is started with --source hub", "cluster4"},
				"hub get clusters": {"check that it is started with --source hub", "cluster4"},
			},
			metric: `spokewire_hub_clusters\{agent="NeverJoined",health="Missing"\} 1`,
		},
	}
}
