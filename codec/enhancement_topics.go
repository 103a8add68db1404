// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import "strings"

// The last level of each topic.
const (
	levelSpec         = "manifests"
	levelStatus       = "manifestsstatus"
	levelSpecResync   = "specresync"
	levelStatusResync = "statusresync"
)

func (manifestWork) SourceFilters(source string) []string {
	return []string{
		pairTopic(source, "+", levelStatus),
		"/sources/resync/+/" + levelSpec,
		pairTopic(source, "+", levelSpecResync),
	}
}

func (manifestWork) AgentFilters(cluster string) []string {
	return []string{
		pairTopic("+", cluster, levelSpec),
		"/sources/+/resync/clusters/" + levelStatus,
		pairTopic("+", cluster, levelStatusResync),
	}
}

func (manifestWork) PresenceFilter(source, cluster string) string {
	if source != "" {
		return "/sources/" + source + "/" + wirePresence
	}
	return "/clusters/" + cluster + "/" + wirePresence
}

func pairTopic(source, cluster, last string) string {
	return "/sources/" + source + "/clusters/" + cluster + "/" + last
}

// topic is the inverse of parseTopic.
func (a address) topic() string {
	switch {
	case a.kind == kindSpec:
		return pairTopic(a.source, a.cluster, levelSpec)
	case a.kind == kindStatus:
		return pairTopic(a.source, a.cluster, levelStatus)
	case a.kind == kindSpecResync && a.broadcast:
		return "/sources/resync/" + a.cluster + "/" + levelSpec
	case a.kind == kindSpecResync:
		return pairTopic(a.source, a.cluster, levelSpecResync)
	case a.kind == kindPresence:
		return manifestWork{}.PresenceFilter(a.source, a.cluster)
	case a.broadcast:
		return "/sources/" + a.source + "/resync/clusters/" + levelStatus
	default:
		return pairTopic(a.source, a.cluster, levelStatusResync)
	}
}

// carries reports whether events of that type belong on the topic.
func (a address) carries(eventType string) bool {
	switch a.kind {
	case kindSpec:
		return eventType == typeSpecCreated || eventType == typeSpecUpdated || eventType == typeSpecDeleted
	case kindStatus:
		return eventType == typeStatus
	case kindSpecResync:
		return eventType == typeSpecResync || eventType == typeDigest && !a.broadcast
	case kindPresence:
		return eventType == typePresence
	default:
		return eventType == typeStatusResync
	}
}

func parseTopic(topic string) (address, *Error) {
	a, ok := splitTopic(topic)
	if !ok {
		return a, &Error{Code: CodeTopic, Reason: "is not a topic of the profile ManifestWork"}
	}
	var err *Error
	if !a.sourceless() {
		err = checkName("source", a.source)
	}
	if err == nil && !a.clusterless() {
		err = checkName("cluster", a.cluster)
	}
	return a, err
}

// sourceless reports whether the topic has no level for a source.
func (a address) sourceless() bool {
	return a.kind == kindSpecResync && a.broadcast || a.kind == kindPresence && !a.ofSource
}

// clusterless reports whether the topic has no level for a cluster.
func (a address) clusterless() bool {
	return a.kind == kindStatusResync && a.broadcast || a.kind == kindPresence && a.ofSource
}

// splitTopic distinguishes the topics by their number of levels and their fixed words. A source or
// cluster may have the name of a fixed word, such as "resync".
func splitTopic(topic string) (address, bool) {
	if id, ok := strings.CutSuffix(topic, "/"+wirePresence); ok {
		if source, ok := strings.CutPrefix(id, "/sources/"); ok && !strings.Contains(source, "/") {
			return address{kind: kindPresence, source: source, ofSource: true}, true
		}
		if cluster, ok := strings.CutPrefix(id, "/clusters/"); ok && !strings.Contains(cluster, "/") {
			return address{kind: kindPresence, cluster: cluster}, true
		}
	}
	rest, ok := strings.CutPrefix(topic, "/sources/")
	if !ok || strings.Count(rest, "/") < 2 {
		return address{}, false
	}
	first, rest, _ := strings.Cut(rest, "/")
	second, rest, _ := strings.Cut(rest, "/")
	if rest == levelSpec && first == "resync" {
		return address{kind: kindSpecResync, cluster: second, broadcast: true}, true
	}
	if second == "resync" && rest == "clusters/"+levelStatus {
		return address{kind: kindStatusResync, source: first, broadcast: true}, true
	}
	third, last, ok := strings.Cut(rest, "/")
	if !ok || second != "clusters" {
		return address{}, false
	}
	a := address{source: first, cluster: third}
	switch last {
	case levelSpec:
		a.kind = kindSpec
	case levelStatus:
		a.kind = kindStatus
	case levelSpecResync:
		a.kind = kindSpecResync
	case levelStatusResync:
		a.kind = kindStatusResync
	default:
		return address{}, false
	}
	return a, true
}
