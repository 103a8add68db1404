// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import "strings"

// The last level of each topic of the profile ManifestBundle.
const (
	levelSourceEvents    = "sourceevents"
	levelAgentEvents     = "agentevents"
	levelSourceBroadcast = "sourcebroadcast"
	levelAgentBroadcast  = "agentbroadcast"
)

// bundleType is the prefix of every event type of the profile. Agents also set it as the data type
// of works.
const bundleType = "io.open-cluster-management.works.v1alpha1.manifestbundles"

// The actions at the end of an event type.
const (
	wireCreate        = "create_request"
	wireUpdate        = "update_request"
	wireDelete        = "delete_request"
	wireResyncRequest = "resync_request"
	wireAnswer        = "resync_response"
)

var wireActions = map[Action]string{
	ActionCreate: wireCreate, ActionUpdate: wireUpdate, ActionDelete: wireDelete, ActionAnswer: wireAnswer,
}

func (p *manifestBundle) SourceFilters(source string) []string {
	return SharedFilters(p.group, []string{
		p.pair(source, "+", levelAgentEvents),
		p.clusters + "/+/" + levelAgentBroadcast,
	})
}

func (p *manifestBundle) AgentFilters(cluster string) []string {
	return SharedFilters(p.group, []string{
		p.pair("+", cluster, levelSourceEvents),
		p.sources + "/+/" + levelSourceBroadcast,
	})
}

func (p *manifestBundle) PresenceFilter(source, cluster string) string {
	if source != "" {
		return p.sources + "/" + source + "/" + wirePresence
	}
	return p.clusters + "/" + cluster + "/" + wirePresence
}

func (p *manifestBundle) pair(source, cluster, last string) string {
	return p.sources + "/" + source + "/" + p.clusters + "/" + cluster + "/" + last
}

// topic returns the topic of a message. Requests to one peer share a topic with the data for it.
func (p *manifestBundle) topic(a address) string {
	switch {
	case a.broadcast && a.kind == kindSpecResync:
		return p.clusters + "/" + a.cluster + "/" + levelAgentBroadcast
	case a.broadcast:
		return p.sources + "/" + a.source + "/" + levelSourceBroadcast
	case a.kind == kindSpec || a.kind == kindStatusResync:
		return p.pair(a.source, a.cluster, levelSourceEvents)
	default:
		return p.pair(a.source, a.cluster, levelAgentEvents)
	}
}

// side is the publisher of a topic: the source or the agent.
type side int

const (
	bySource side = iota
	byAgent
)

// parse is the inverse of topic, except for the kind, which is in the event's type.
func (p *manifestBundle) parse(topic string) (address, side, *Error) {
	a, by, ok := p.split(topic)
	if !ok {
		return a, by, &Error{Code: CodeTopic, Reason: "is not a topic of the profile ManifestBundle"}
	}
	var err *Error
	if by == bySource || !a.broadcast { // agents broadcast to every source
		err = checkName("source", a.source)
	}
	if err == nil && (by == byAgent || !a.broadcast) { // sources broadcast to every cluster
		err = checkName("cluster", a.cluster)
	}
	return a, by, err
}

func (p *manifestBundle) split(topic string) (address, side, bool) {
	levels := strings.Split(topic, "/")
	switch {
	case len(levels) == 5 && levels[0] == p.sources && levels[2] == p.clusters:
		a := address{source: levels[1], cluster: levels[3]}
		switch levels[4] {
		case levelSourceEvents:
			return a, bySource, true
		case levelAgentEvents:
			return a, byAgent, true
		}
	case len(levels) == 3 && levels[0] == p.sources && levels[2] == levelSourceBroadcast:
		return address{source: levels[1], broadcast: true}, bySource, true
	case len(levels) == 3 && levels[0] == p.clusters && levels[2] == levelAgentBroadcast:
		return address{cluster: levels[1], broadcast: true}, byAgent, true
	case len(levels) == 3 && levels[0] == p.sources && levels[2] == wirePresence:
		return address{kind: kindPresence, source: levels[1], broadcast: true, ofSource: true}, bySource, true
	case len(levels) == 3 && levels[0] == p.clusters && levels[2] == wirePresence:
		return address{kind: kindPresence, cluster: levels[1], broadcast: true}, byAgent, true
	}
	return address{}, bySource, false
}

// kindOf returns the kind and action of an event type on a topic of this side. It returns false if
// the type does not belong there. Only requests are broadcast.
func (by side) kindOf(eventType string, broadcast bool) (kind, Action, bool) {
	rest, ok := strings.CutPrefix(eventType, bundleType+".")
	if !ok {
		return 0, "", false
	}
	part, wire, _ := strings.Cut(rest, ".")
	if wire == wireResyncRequest {
		// A request is for data that the other side publishes.
		if by == bySource {
			return kindStatusResync, "", part == "status"
		}
		return kindSpecResync, "", part == "spec"
	}
	for action, name := range wireActions {
		switch {
		case name != wire || broadcast:
		case by == bySource:
			return kindSpec, action, part == "spec"
		default:
			return kindStatus, action, part == "status"
		}
	}
	return 0, "", false
}
