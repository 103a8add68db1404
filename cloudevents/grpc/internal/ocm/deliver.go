// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package ocm

import (
	"fmt"
	"strings"

	"github.com/spokewire/sdk-go/internal/cut"
	"github.com/spokewire/sdk-go/internal/grpcwire"
)

// Deliverable returns the event of a message as subscribers receive it. A subscriber of OCM's service
// sees no topic, but access is decided by the topic. So an event on a topic of [Filters] must have the
// attributes of its topic, and is encoded again, because readers may understand another encoding
// differently. Events on other topics are only checked.
func Deliverable(m grpcwire.Message) ([]byte, error) {
	if !served(m.Topic) {
		return m.Event, grpcwire.CheckEvent(m.Event)
	}
	e, err := grpcwire.ParseEvent(m.Event)
	if err != nil {
		return nil, err
	}
	own, err := Topic(e)
	if err != nil {
		return nil, err
	}
	if !within(m.Topic, own) {
		return nil, fmt.Errorf("the attributes of the event are for topic %q", cut.Text(own, longestReason))
	}
	const numbers = 64 // bytes by which they are longer as text
	return grpcwire.AppendEvent(make([]byte, 0, len(m.Event)+numbers), e)
}

// served reports whether [Filters] may match a topic.
func served(topic string) bool {
	levels := strings.SplitN(topic, "/", 6)
	switch len(levels) {
	case 3:
		return levels[0] == "sources" && levels[2] == "sourcebroadcast" ||
			levels[0] == "clusters" && levels[2] == "agentbroadcast"
	case 5:
		return levels[0] == "sources" && levels[2] == "clusters" &&
			(levels[4] == "sourceevents" || levels[4] == "agentevents")
	}
	return false
}

// within reports whether an event of topic own may be published on a served topic: on its own, or to
// one peer instead of all.
func within(topic, own string) bool {
	if cluster, ok := strings.CutSuffix(own, "/agentbroadcast"); ok && strings.HasSuffix(topic, "/agentevents") {
		return strings.HasSuffix(topic, "/"+cluster+"/agentevents")
	}
	if source, ok := strings.CutSuffix(own, "/sourcebroadcast"); ok && strings.HasSuffix(topic, "/sourceevents") {
		return strings.HasPrefix(topic, source+"/clusters/")
	}
	return topic == own
}
