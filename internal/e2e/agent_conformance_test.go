// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import "k8s.io/apimachinery/pkg/types"

// agentApplies returns the steps that run on the agent. The agent's object does not list the field
// managers of the source's fields.
func agentApplies() []step {
	condition := func(kind, state string) string {
		return "  - {type: " + kind + ", status: '" + state +
			"', reason: R, message: '', lastTransitionTime: '2026-01-01T00:00:00Z'}\n"
	}
	conditions := func(list string) string { return head + "metadata: {name: app}\nstatus:\n  conditions:\n" + list }
	hub := map[string]string{
		"managers":   "managedFields do not travel: the agent has its own writers' only",
		"metadata":   "finalizers do not travel, and labels the agent's alone do not come to the source",
		"generation": "see metadata",
	}
	return []step{
		{name: "status", reason: "the agent's own", onAgent: true, object: "app", differs: hub,
			call: applies("app", "agent", conditions(condition("A", "True")), status)},
		{name: "status again", reason: "no change", onAgent: true, object: "app", differs: hub,
			call: applies("app", "agent", conditions(condition("A", "True")), status)},
		{name: "status of another", reason: "conditions merge by type", onAgent: true, object: "app", differs: hub,
			call: applies("app", "other", conditions(condition("B", "True")), status)},
		{name: "status conflict", reason: "the same type, another value", onAgent: true, object: "app", differs: hub,
			call: applies("app", "other", conditions(condition("A", "False")), status)},
		{name: "status by force", reason: "takes it", onAgent: true, object: "app", differs: hub,
			call: applies("app", "other", conditions(condition("A", "False")), status, force)},
		{name: "status invalid", reason: "the schema's constraints", onAgent: true, object: "app", differs: hub,
			call: applies("app", "agent", conditions("  - {type: '!', status: Maybe}\n"), status)},
		{name: "status with labels", reason: "only the status counts", onAgent: true, object: "app", differs: hub,
			call: applies("app", "agent", head+"metadata: {name: app, labels: {x: v}}\nstatus: {}\n", status)},
		{name: "status dry run", reason: "not stored", onAgent: true, object: "app", differs: hub,
			call: applies("app", "dry", conditions(condition("C", "True")), status, dryRun)},
		{name: "status of none", reason: "does not create", onAgent: true, object: "none",
			call: applies("none", "agent", head+"metadata: {name: none}\nstatus: {}\n", status)},
		{name: "labels", reason: "metadata the agent owns", onAgent: true, object: "app", differs: hub,
			call: applies("app", "agent", head+"metadata: {name: app, labels: {agent: x}}\n")},
		{name: "patch of the status", reason: "tracked", onAgent: true, object: "app", differs: hub,
			call: patches("app", types.MergePatchType,
				`{"status":{"resourceStatus":{"manifests":[{"conditions":[],"resourceMeta":{"ordinal":0}}]}}}`, status)},
		{name: "no status", reason: "its own conditions go", onAgent: true, object: "app", differs: hub,
			call: applies("app", "other", head+"metadata: {name: app}\n", status)},
		{name: "seen by the hub", reason: "what all that led to", object: "app", call: gets("app"),
			differs: map[string]string{
				"managers":               "labels that the agent set stay with it",
				"managers of the status": "the source does not hear who set it",
				"metadata":               "labels that the agent set stay with it",
				"version":                "the source heard of each status at another time",
			}},
	}
}
