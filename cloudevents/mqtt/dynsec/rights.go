// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynsec

import (
	"encoding/json"
	"os"
	"strings"

	"github.com/spokewire/sdk-go/cloudevents/join"
)

// acl is a rule of a role.
type acl struct {
	Type  string `json:"acltype"`
	Topic string `json:"topic"`
	Allow bool   `json:"allow"`
}

// rules returns the rules to read and to write topics.
func rules(read, write []string) []acl {
	var out []acl
	for _, topic := range read {
		out = append(out, acl{"publishClientReceive", topic, true}, acl{"subscribePattern", topic, true})
	}
	for _, topic := range write {
		out = append(out, acl{"publishClientSend", topic, true})
	}
	return out
}

// agentRules are the rules of an agent. An agent without a list of sources subscribes to the topics of
// all, and receives those of its source.
func agentRules(source, cluster string) []acl {
	pair := "/sources/" + source + "/clusters/" + cluster + "/"
	presence := "/clusters/" + cluster + "/presence"
	read := []string{pair + "manifests", pair + "statusresync",
		"/sources/" + source + "/resync/clusters/manifestsstatus"}
	out := rules(append(read, presence),
		[]string{pair + "manifestsstatus", pair + "specresync", "/sources/resync/" + cluster + "/manifests", presence})
	for _, topic := range read {
		out = append(out, acl{"subscribePattern", strings.Replace(topic, "/"+source+"/", "/+/", 1), true})
	}
	return out
}

// sourceRules are the rules of a source, which also manages the agents.
func sourceRules(source string) []acl {
	own := "/sources/" + source + "/"
	presence := own + "presence"
	read := []string{own + "clusters/+/manifestsstatus", own + "clusters/+/specresync", "/sources/resync/+/manifests",
		presence}
	out := rules(append(read, responses), []string{
		own + "clusters/+/manifests", own + "clusters/+/statusresync", own + "resync/clusters/manifestsstatus", presence,
		requests,
	})
	return append(out, acl{"subscribePattern", "$share/#", true})
}

// commandsFor returns the commands for a change.
func commandsFor(source string, c join.Change) []command {
	if c.Revoked {
		return []command{{ignored: "Client not found", fields: map[string]any{
			"command": "deleteClient", "username": c.Subject,
		}}}
	}
	role := "cluster/" + c.Cluster
	return []command{
		{ignored: "Role already exists", fields: map[string]any{
			"command": "createRole", "rolename": role, "acls": agentRules(source, c.Cluster),
		}},
		{ignored: "Client already exists", fields: map[string]any{
			"command": "createClient", "username": c.Subject, "roles": []map[string]any{{"rolename": role}},
		}},
	}
}

// Config returns the first content of the plugin's file: the rights of a source, by the subject of
// its certificate as in RFC 2253, for example CN=hub. All other rights are denied.
func Config(sourceID, subject string) []byte {
	role := "source/" + sourceID
	content, _ := json.MarshalIndent(map[string]any{ // it has only texts
		"defaultACLAccess": map[string]bool{
			"publishClientSend": false, "publishClientReceive": false, "subscribe": false, "unsubscribe": true,
		},
		"clients": []map[string]any{{"username": subject, "roles": []map[string]string{{"rolename": role}}}},
		"groups":  []any{},
		"roles":   []map[string]any{{"rolename": role, "acls": sourceRules(sourceID)}},
	}, "", "  ")
	return append(content, '\n')
}

// credentials returns the user and the password of the options.
func (c *Client) credentials() (user string, password []byte, err error) {
	o := c.options.Broker
	password = []byte(o.Password)
	if o.PasswordFile != "" {
		if password, err = os.ReadFile(o.PasswordFile); err != nil {
			return "", nil, err
		}
		password = []byte(strings.TrimRight(string(password), "\r\n"))
	}
	return o.Username, password, nil
}
