// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"crypto/pbkdf2"
	"crypto/sha512"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/testing/daemon"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

// plugin returns the path of Mosquitto's dynamic security plugin. Like many brokers, it also checks
// subscriptions.
func plugin(t *testing.T) string {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/*/mosquitto_dynamic_security.so")
	if err == nil && len(found) == 0 {
		found, err = filepath.Glob("/usr/lib*/mosquitto_dynamic_security.so")
	}
	if err != nil || len(found) == 0 {
		daemon.Missing(t, fmt.Sprintf("Mosquitto's plugin mosquitto_dynamic_security.so is not installed (%v)", err))
	}
	return found[0]
}

type object = map[string]any

// strict runs a broker that lets each user subscribe only to the listed filters, word for word.
func strict(t *testing.T, filters map[string][]string) *mosquitto.Broker {
	t.Helper()
	library := plugin(t)
	config := object{"defaultACLAccess": object{
		"publishClientSend": true, "publishClientReceive": true, "subscribe": false, "unsubscribe": true,
	}}
	var clients, roles []object
	for user, allowed := range filters {
		var acls []object
		for _, filter := range allowed {
			acls = append(acls, object{"acltype": "subscribeLiteral", "topic": filter, "priority": 0, "allow": true})
		}
		roles = append(roles, object{"rolename": user, "acls": acls})
		key, err := pbkdf2.Key(sha512.New, user, []byte("saltsaltsalt"), 101, sha512.Size)
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, object{
			"username": user, "password": key, "salt": []byte("saltsaltsalt"), "iterations": 101,
			"roles": []object{{"rolename": user}},
		})
	}
	config["clients"], config["roles"] = clients, roles
	content, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "dynamic-security.json")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return mosquitto.Start(t, mosquitto.Options{Config: func(port int) string {
		return strings.Join([]string{
			fmt.Sprintf("listener %d 127.0.0.1", port), "allow_anonymous false", "log_dest stderr",
			"log_type error", "log_type warning", "log_type notice", "log_type information",
			"plugin " + library, "plugin_opt_config_file " + file,
		}, "\n")
	}})
}

// TestSubscriptions: sources and agents subscribe only to the filters of the codec. When one of
// them is refused, the log names the filter and the remedy.
func TestSubscriptions(t *testing.T) {
	agents, sources := codec.ManifestWork.AgentFilters("cluster1"), codec.ManifestWork.SourceFilters("hub")
	broker := strict(t, map[string][]string{"hub": sources, "cluster1": agents, "hub-less": sources[1:],
		"cluster1-less": agents[:2]})
	as := func(user string) mqtt.Options {
		return mqtt.Options{BrokerURL: broker.URL(), Username: user, Password: user}
	}
	s, sourceLog := source(t, as("hub"), "hub")
	a, agentLog := agent(t, as("cluster1"), "cluster1")
	create(t, s, "cluster1", "app")
	apply(t, a, "cluster1", "app")
	applied(t, s, "cluster1", "app")
	const undetected = "Failed to publish the presence" // these rules are older than the presence topic
	eventually(t, "the source's log names what it does without",
		func() bool { return sourceLog.has(undetected, "/sources/hub/presence") })
	eventually(t, "the agent's log names what it does without",
		func() bool { return agentLog.has(undetected, "/clusters/cluster1/presence") })

	refused, log := agent(t, as("cluster1-less"), "cluster1")
	const advice = "not authorized (SUBACK 0x87): check the broker's access rules for this user"
	eventually(t, "the agent's log names the filter", func() bool { return log.has(agents[2], advice) })
	var reason *mqtt.ReasonError
	if err := refused.Healthy(); !errors.As(err, &reason) || reason.Code != notAuthorized {
		t.Errorf("Healthy returns %v", err)
	}
	_, log = source(t, as("hub-less"), "hub")
	eventually(t, "the source's log names the filter", func() bool { return log.has(sources[0], advice) })
}

// TestDocument: SECURITY.md lists the subscribed filters, and quotes the current rules.
func TestDocument(t *testing.T) {
	read := func(file string) string {
		content, err := os.ReadFile(filepath.Join("..", "..", "..", file))
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	doc, rules := read("SECURITY.md"), read("examples/hub/mosquitto/acl")
	filters := append(codec.ManifestWork.SourceFilters("hub"), codec.ManifestWork.AgentFilters("cluster1")...)
	filters = append(filters, codec.ManifestWork.PresenceFilter("hub", ""),
		codec.ManifestWork.PresenceFilter("", "cluster1"))
	for _, filter := range filters {
		if !strings.Contains(doc, " "+filter+"\n") {
			t.Errorf("SECURITY.md does not have the filter %s", filter)
		}
	}
	quoted := 0
	for line := range strings.Lines(doc) {
		if strings.HasPrefix(line, "user ") || strings.HasPrefix(line, "topic ") || strings.HasPrefix(line, "pattern ") {
			quoted++
			if !strings.Contains(rules, "\n"+line) {
				t.Errorf("the rules do not have the line %q of SECURITY.md", line)
			}
		}
	}
	if quoted == 0 {
		t.Error("SECURITY.md quotes no rule")
	}
}
