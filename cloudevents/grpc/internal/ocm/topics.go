// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package ocm maps the service io.cloudevents.v1.CloudEventService of OCM to topics. The service
// has no topics: a subscription has the name of a source or a cluster, and the attributes of an event
// decide which subscriptions receive it. The topics are those of codec.ManifestBundle.
package ocm

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	ce "github.com/cloudevents/sdk-go/v2/event"

	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/cut"
	"github.com/spokewire/sdk-go/internal/grpcwire"
)

// DataType is the data type of works, in subscriptions and at the beginning of event types.
const DataType = "io.open-cluster-management.works.v1alpha1.manifestbundles"

const (
	attrCluster  = "clustername"
	attrSource   = "originalsource"
	attrResource = "resourceid"
	attrDeletion = "deletiontimestamp"
	attrMetadata = "metadata"
)

const resyncRequest = "resync_request"

// ErrType is returned by [Topic] for events that are neither works nor requests about works.
var ErrType = errors.New("unsupported event type")

// Topic returns the topic of an event from its attributes. An agent's request without a source is for
// all sources, a source's request without a cluster for all clusters.
func Topic(e *ce.Event) (string, error) {
	part, action, err := split(e.Type())
	if err != nil {
		return "", err
	}
	cluster := text(e, attrCluster)
	switch {
	case part == "spec" && action == resyncRequest && text(e, attrSource) == "":
		return "clusters/" + cluster + "/agentbroadcast", codec.ValidateName(attrCluster, cluster)
	case part == "status" && action == resyncRequest && cluster == "":
		return "sources/" + e.Source() + "/sourcebroadcast", codec.ValidateName("source", e.Source())
	}
	// A request goes to the side that publishes the requested part.
	if (part == "spec") == (action != resyncRequest) {
		return pair(e.Source(), "source", cluster, "sourceevents")
	}
	return pair(text(e, attrSource), attrSource, cluster, "agentevents")
}

func pair(source, attribute, cluster, last string) (string, error) {
	err := errors.Join(codec.ValidateName(attribute, source), codec.ValidateName(attrCluster, cluster))
	return "sources/" + source + "/clusters/" + cluster + "/" + last, err
}

// split returns the part of the works that an event type is about, "spec" or "status", and the
// action.
func split(eventType string) (part, action string, err error) {
	rest, ok := strings.CutPrefix(eventType, DataType+".")
	part, action, _ = strings.Cut(rest, ".")
	if !ok || part != "spec" && part != "status" {
		return "", "", fmt.Errorf("%w %q", ErrType, cut.Text(eventType, longestReason))
	}
	switch action {
	case "create_request", "update_request", "delete_request", "resync_response", resyncRequest:
		return part, action, nil
	}
	return "", "", fmt.Errorf("%w %q: unsupported action", ErrType, cut.Text(eventType, longestReason))
}

func text(e *ce.Event, name string) string {
	value, _ := e.Extensions()[name].(string)
	return value
}

// Filters returns the topic filters of a subscription.
func Filters(s grpcwire.SubscriptionRequest) ([]string, error) {
	switch {
	case s.ClusterName == "" && s.Source == "":
		return nil, errors.New("invalid subscription request: missing cluster name and source")
	case s.ClusterName == "":
		return codec.ManifestBundle.SourceFilters(s.Source), codec.ValidateName("source", s.Source)
	case s.Source == "":
		return codec.ManifestBundle.AgentFilters(s.ClusterName), codec.ValidateName("cluster_name", s.ClusterName)
	}
	topic, err := pair(s.Source, "source", s.ClusterName, "sourceevents")
	return []string{topic, "sources/" + s.Source + "/sourcebroadcast"}, err
}

// Subscription returns the subscription with these topic filters, the inverse of [Filters].
func Subscription(filters []string) (s grpcwire.SubscriptionRequest, err error) {
	s.DataType = DataType
	for _, filter := range filters {
		levels := strings.Split(filter, "/")
		if len(levels) != 5 || levels[0] != "sources" || levels[2] != "clusters" {
			continue
		}
		switch levels[4] {
		case "agentevents":
			s.Source = levels[1]
		case "sourceevents":
			s.ClusterName = levels[3]
			if levels[1] != "+" {
				s.Source = levels[1]
			}
		}
	}
	served, err := Filters(s)
	if err == nil && slices.Equal(slices.Sorted(slices.Values(served)), slices.Sorted(slices.Values(filters))) {
		return s, nil
	}
	return s, fmt.Errorf("topic filters %q: the gRPC service of OCM has the filters of one source or agent "+
		"with the profile codec.ManifestBundle, and no others", filters)
}
