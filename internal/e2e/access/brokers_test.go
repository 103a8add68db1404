// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"encoding/json"
	"encoding/xml"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the access rules of all brokers")

// rights are the topics of a source and of the agent of a cluster. {source} and {cluster} are their
// names, which are also their users at the broker.
type rights struct {
	publish, subscribe []string
}

// table has all access rules. The rules of all brokers are generated from it.
var table = map[string]rights{
	"source": {
		publish: []string{
			"/sources/{source}/clusters/+/manifests",
			"/sources/{source}/clusters/+/statusresync",
			"/sources/{source}/resync/clusters/manifestsstatus",
			"/sources/{source}/presence",
		},
		subscribe: []string{
			"/sources/{source}/clusters/+/manifestsstatus",
			"/sources/{source}/clusters/+/specresync",
			"/sources/resync/+/manifests",
			"/sources/{source}/presence",
		},
	},
	"cluster": {
		publish: []string{
			"/sources/{source}/clusters/{cluster}/manifestsstatus",
			"/sources/{source}/clusters/{cluster}/specresync",
			"/sources/resync/{cluster}/manifests",
			"/clusters/{cluster}/presence",
		},
		subscribe: []string{ // an agent subscribes to all sources
			"/sources/+/clusters/{cluster}/manifests",
			"/sources/+/clusters/{cluster}/statusresync",
			"/sources/+/resync/clusters/manifestsstatus",
			"/clusters/{cluster}/presence",
		},
	},
}

// named returns topics with the names of a source and a cluster.
func named(topics []string, source, cluster string) []string {
	out := make([]string, len(topics))
	for i, topic := range topics {
		out[i] = strings.NewReplacer("{source}", source, "{cluster}", cluster).Replace(topic)
	}
	return out
}

// received returns the topics of messages that a filter for all sources delivers.
func received(topics []string) []string {
	out := make([]string, len(topics))
	for i, topic := range topics {
		out[i] = strings.Replace(topic, "/sources/+/", "/sources/hub/", 1)
	}
	return out
}

// TestRulesOfBrokers checks that the rules of each broker are those of the table. With -update, it
// writes them.
func TestRulesOfBrokers(t *testing.T) {
	for file, want := range map[string]string{
		"mosquitto/acl":                        mosquittoRules(),
		"brokers/emqx-acl.conf":                emqxRules(),
		"brokers/hivemq-credentials.xml":       hivemqRules(t),
		"brokers/aws-iot-core-source.json":     awsPolicy(t, "source"),
		"brokers/aws-iot-core-cluster.json":    awsPolicy(t, "cluster"),
		"brokers/azure-event-grid-topics.json": azureTopics(t),
	} {
		path := "../../../examples/hub/" + file
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s: run this test with -update (-want +got):\n%s", file, diff)
		}
	}
}

func lines(prefix string, topics []string, suffix string) string {
	var b strings.Builder
	for _, topic := range topics {
		fmt.Fprintf(&b, "%s%s%s\n", prefix, topic, suffix)
	}
	return b.String()
}

// both splits topics into those for one direction, and those for both.
func both(r rights) (publish, subscribe, all []string) {
	for _, topic := range r.publish {
		if slices.Contains(r.subscribe, topic) {
			all = append(all, topic)
		} else {
			publish = append(publish, topic)
		}
	}
	for _, topic := range r.subscribe {
		if !slices.Contains(all, topic) {
			subscribe = append(subscribe, topic)
		}
	}
	return publish, subscribe, all
}

func mosquittoRules() string {
	var b strings.Builder
	b.WriteString(`# SPDX-FileCopyrightText: The Spokewire Authors
# SPDX-License-Identifier: Apache-2.0
#
# The topics that each user may use. All others are denied. The name of a user is the CN of its certificate.

# The source "hub". For another source, repeat these seven lines and those of the clusters with its ID.
user hub
`)
	publish, subscribe, all := both(table["source"])
	b.WriteString(lines("topic write ", named(publish, "hub", "%u"), ""))
	b.WriteString(lines("topic read ", named(subscribe, "hub", "%u"), ""))
	b.WriteString(lines("topic readwrite ", named(all, "hub", "%u"), ""))
	b.WriteString(`
# All clusters: %u is the name of the user, so a new cluster needs no new lines. Patterns also apply to sources.
# On the topic without %u, a source requests the lists of all clusters. Mosquitto warns about this pattern.
`)
	publish, subscribe, all = both(table["cluster"])
	b.WriteString(lines("pattern write ", named(publish, "hub", "%u"), ""))
	b.WriteString(lines("pattern read ", received(named(subscribe, "hub", "%u")), ""))
	b.WriteString(lines("pattern readwrite ", named(all, "hub", "%u"), ""))
	return b.String()
}

func emqxRules() string {
	list := func(topics []string) string { return "[\n  \"" + strings.Join(topics, "\",\n  \"") + "\"\n]" }
	source, cluster := table["source"], table["cluster"]
	return `%% SPDX-FileCopyrightText: The Spokewire Authors
%% SPDX-License-Identifier: Apache-2.0
%%
%% The topics that each user may use, for EMQX 5. README.md in this folder describes the use.

%% A name with a meaning in topics must not become a part of a rule.
{deny, {username, {re, "[+#/]"}}, all, ["#"]}.

%% The source "hub". For another source, repeat these rules and the third rule of the clusters with its ID.
{allow, {username, "hub"}, publish, ` + list(named(source.publish, "hub", "")) + `}.
{allow, {username, "hub"}, subscribe, ` + list(named(source.subscribe, "hub", "")) + `}.

%% All clusters.
{allow, all, publish, ` + list(named(cluster.publish, "hub", "${username}")) + `}.
{allow, all, subscribe, ` + list(named(cluster.subscribe, "hub", "${username}")) + `}.

{deny, all}.
`
}

type hivemqRole struct {
	ID          string             `xml:"id"`
	Permissions []hivemqPermission `xml:"permissions>permission"`
}

type hivemqPermission struct {
	Topic    string `xml:"topic"`
	Activity string `xml:"activity"`
	Retain   string `xml:"retain,omitempty"`
}

type hivemqUser struct {
	Name     string   `xml:"name"`
	Password string   `xml:"password"`
	Roles    []string `xml:"roles>id"`
}

func hivemqRules(t *testing.T) string {
	t.Helper()
	var file struct {
		XMLName xml.Name     `xml:"file-rbac"`
		Users   []hivemqUser `xml:"users>user"`
		Roles   []hivemqRole `xml:"roles>role"`
	}
	file.Users = []hivemqUser{{"hub", "REPLACE", []string{"source"}}, {"cluster1", "REPLACE", []string{"cluster"}}}
	for _, name := range []string{"source", "cluster"} {
		role := hivemqRole{ID: name}
		for _, topic := range named(table[name].publish, "hub", "${{username}}") {
			role.Permissions = append(role.Permissions, hivemqPermission{topic, "PUBLISH", "NOT_RETAINED"})
		}
		for _, topic := range named(table[name].subscribe, "hub", "${{username}}") {
			role.Permissions = append(role.Permissions, hivemqPermission{topic, "SUBSCRIBE", ""})
		}
		file.Roles = append(file.Roles, role)
	}
	text, err := xml.MarshalIndent(file, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return xml.Header + "<!-- SPDX-FileCopyrightText: The Spokewire Authors\n     SPDX-License-Identifier: Apache-2.0 -->\n" +
		string(text) + "\n"
}

type awsStatement struct {
	Effect, Action string
	Resource       []string
}

// awsPolicy returns the policy of a source or of all clusters. In the resources of a policy, * is a
// wildcard and + is not.
func awsPolicy(t *testing.T, who string) string {
	t.Helper()
	const subject = "${iot:Certificate.Subject.CommonName}"
	arns := func(kind string, topics []string) []string {
		out := named(topics, "hub", subject)
		for i := range out {
			out[i] = "arn:aws:iot:REGION:ACCOUNT:" + kind + "/" + out[i]
		}
		return out
	}
	wild := func(topics []string) []string {
		out := received(topics)
		for i := range out {
			out[i] = strings.ReplaceAll(out[i], "+", "*")
		}
		return out
	}
	r, client := table[who], "hub-*"
	if who == "cluster" {
		client = subject + "-work-agent-*"
	}
	return encoded(t, map[string]any{"Version": "2012-10-17", "Statement": []awsStatement{
		{"Allow", "iot:Connect", arns("client", []string{client})},
		{"Allow", "iot:Publish", arns("topic", wild(r.publish))},
		{"Allow", "iot:Subscribe", arns("topicfilter", r.subscribe)},
		{"Allow", "iot:Receive", arns("topic", wild(r.subscribe))},
	}})
}

// azureTopics returns topic spaces and permission bindings, as the properties of their resources.
func azureTopics(t *testing.T) string {
	t.Helper()
	type resource map[string]any
	spaces, bindings := resource{}, resource{}
	for _, who := range []string{"source", "cluster"} {
		for permission, topics := range map[string][]string{
			"Publisher": table[who].publish, "Subscriber": table[who].subscribe,
		} {
			name := who + "-" + strings.ToLower(permission)
			spaces[name] = resource{"topicTemplates": named(topics, "hub", "${client.authenticationName}")}
			bindings[name] = resource{"clientGroupName": who + "s", "topicSpaceName": name, "permission": permission}
		}
	}
	return encoded(t, resource{"topicSpaces": spaces, "permissionBindings": bindings})
}

func encoded(t *testing.T, v any) string {
	t.Helper()
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
