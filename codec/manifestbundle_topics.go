// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"errors"
	"strings"
)

// The last level of each topic of the profile ManifestBundle.
const (
	levelSourceEvents    = "sourceevents"
	levelAgentEvents     = "agentevents"
	levelSourceBroadcast = "sourcebroadcast"
	levelAgentBroadcast  = "agentbroadcast"
)

// bundleType begins the type of every event of the profile; it is also what agents note as the data type.
const bundleType = "io.open-cluster-management.works.v1alpha1.manifestbundles"

// The actions that end a type. A request of a resync is a kind of message, the others say why data is sent.
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

// SharedFilters makes filters shared subscriptions of a group: a message that they match goes to one client of the
// group. With the group "" it returns the filters as they are. The group must pass [ValidateName].
func SharedFilters(group string, filters []string) []string {
	if group == "" {
		return filters
	}
	shared := make([]string, len(filters))
	for i, filter := range filters {
		shared[i] = "$share/" + group + "/" + filter
	}
	return shared
}

func (p *manifestBundle) pair(source, cluster, last string) string {
	return p.sources + "/" + source + "/" + p.clusters + "/" + cluster + "/" + last
}

// topic is where a message goes. Requests to one peer share a topic with the data to it.
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

// side tells who publishes on a topic.
type side int

const (
	bySource side = iota
	byAgent
)

// parse is the inverse of topic, but for the kind, which the event's type says.
func (p *manifestBundle) parse(topic string) (address, side, *Error) {
	a, by, ok := p.split(topic)
	if !ok {
		return a, by, &Error{Code: CodeTopic, Reason: "is none of the profile ManifestBundle"}
	}
	var e *Error
	if by == bySource || !a.broadcast { // agents broadcast to every source
		if err := ValidateName("source", a.source); errors.As(err, &e) {
			return a, by, e
		}
	}
	if by == byAgent || !a.broadcast { // sources broadcast to every cluster
		if err := ValidateName("cluster", a.cluster); errors.As(err, &e) {
			return a, by, e
		}
	}
	return a, by, nil
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

// kindOf tells what an event of that type is on a topic of this side; false where it does not belong. Only requests
// are broadcast.
func (by side) kindOf(eventType string, broadcast bool) (kind, Action, bool) {
	rest, ok := strings.CutPrefix(eventType, bundleType+".")
	if !ok {
		return 0, "", false
	}
	part, wire, _ := strings.Cut(rest, ".")
	if wire == wireResyncRequest {
		// A request asks for what the other side publishes.
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
