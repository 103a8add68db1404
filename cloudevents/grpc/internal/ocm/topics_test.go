// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package ocm_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	ce "github.com/cloudevents/sdk-go/v2/event"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/grpc/internal/ocm"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/grpcwire"
	"github.com/spokewire/sdk-go/internal/topicfilter"
)

// event makes an event of works. kind is the end of its type.
func event(kind, source, cluster, originalSource string) *ce.Event {
	e := ce.New()
	e.SetID("1")
	e.SetType(ocm.DataType + "." + kind)
	e.SetSource(source)
	e.SetExtension("clustername", cluster)
	e.SetExtension("originalsource", originalSource)
	return &e
}

func TestTopicOfAttributes(t *testing.T) {
	for _, c := range []struct {
		reason string
		event  *ce.Event
		topic  string // empty for an error
	}{
		{"a new work", event("spec.create_request", "s", "c", ""), "sources/s/clusters/c/sourceevents"},
		{"a changed work", event("spec.update_request", "s", "c", ""), "sources/s/clusters/c/sourceevents"},
		{"a deletion", event("spec.delete_request", "s", "c", ""), "sources/s/clusters/c/sourceevents"},
		{"an answer with a work", event("spec.resync_response", "s", "c", ""), "sources/s/clusters/c/sourceevents"},
		{"a status", event("status.update_request", "a", "c", "s"), "sources/s/clusters/c/agentevents"},
		{"an answer with a status", event("status.resync_response", "a", "c", "s"), "sources/s/clusters/c/agentevents"},
		{"a list for all sources", event("spec.resync_request", "a", "c", ""), "clusters/c/agentbroadcast"},
		{"a list for one source", event("spec.resync_request", "a", "c", "s"), "sources/s/clusters/c/agentevents"},
		{"hashes for all clusters", event("status.resync_request", "s", "", ""), "sources/s/sourcebroadcast"},
		{"hashes for one cluster", event("status.resync_request", "s", "c", ""), "sources/s/clusters/c/sourceevents"},
		{"a status of no source", event("status.update_request", "a", "c", ""), ""},
		{"a status of no cluster", event("status.update_request", "a", "", "s"), ""},
		{"a list of no cluster", event("spec.resync_request", "a", "", "s"), ""},
		{"a list of no cluster for all sources", event("spec.resync_request", "a", "", ""), ""},
		{"a work of no cluster", event("spec.create_request", "s", "", ""), ""},
		{"a source that is a filter", event("spec.create_request", "+", "c", ""), ""},
		{"a cluster that is a filter", event("status.update_request", "a", "#", "s"), ""},
		{"a source with a level", event("status.update_request", "a", "c", "s/t"), ""},
	} {
		topic, err := ocm.Topic(c.event)
		if (err == nil) != (c.topic != "") || err == nil && topic != c.topic {
			t.Errorf("%s: topic %q, %v; want %q", c.reason, topic, err, c.topic)
		}
	}
}

func TestOtherTypesHaveNoTopic(t *testing.T) {
	for _, kind := range []string{
		"", grpcwire.Heartbeat, ocm.DataType, ocm.DataType + ".spec", ocm.DataType + ".spec.watch_request",
		ocm.DataType + ".presence", ocm.DataType + ".other.create_request", "a.b.c.spec.create_request",
		ocm.DataType + ".spec.create_request.more",
	} {
		e := event("", "s", "c", "s")
		e.SetType(kind)
		if topic, err := ocm.Topic(e); !errors.Is(err, ocm.ErrType) {
			t.Errorf("type %q: topic %q, %v", kind, topic, err)
		}
	}
}

// TestTopicsOfCapturedEvents compares with the topics that OCM's SDK uses on MQTT.
func TestTopicsOfCapturedEvents(t *testing.T) {
	file, err := os.ReadFile("../../../../codec/testdata/manifestbundle/wire.json")
	if err != nil {
		t.Fatal(err)
	}
	var captured []struct {
		Topic          string
		UserProperties map[string]string
	}
	if err := json.Unmarshal(file, &captured); err != nil || len(captured) == 0 {
		t.Fatalf("%d events, %v", len(captured), err)
	}
	for _, c := range captured {
		of := func(name string) string { return c.UserProperties["ce-"+name] }
		kind := strings.TrimPrefix(of("type"), ocm.DataType+".")
		want := c.Topic
		if kind == "spec.resync_request" && of("originalsource") == "" {
			want = "clusters/c1/agentbroadcast" // on MQTT the topic alone has the source
		}
		got, err := ocm.Topic(event(kind, of("source"), of("clustername"), of("originalsource")))
		if err != nil || got != want {
			t.Errorf("%s of %s: topic %q, %v; want %q", kind, of("source"), got, err, want)
		}
	}
}

// TestTopicsOfTheProfile checks that an event of the profile keeps its topic on the way through OCM's
// service, and that the events of each side reach the subscriptions of the other side only.
func TestTopicsOfTheProfile(t *testing.T) {
	source, agent := codec.Header{ID: "1", Source: "s", Cluster: "c"}, codec.Header{ID: "1", Source: "s", Cluster: "c",
		Agent: "a"}
	all := agent
	all.Source = ""
	every := source
	every.Cluster = ""
	work := codec.WorkRef{ResourceID: "id", Name: "w", Version: 1}
	deletion := metav1.NewTime(time.Unix(1700000000, 0))
	for _, c := range []struct {
		reason  string
		message codec.Message
		agent   bool // the publisher
	}{
		{"spec", &codec.Spec{Header: source, WorkRef: work, Work: &workv1.ManifestWork{}}, false},
		{"deletion", &codec.Spec{Header: source, WorkRef: work, DeletionTimestamp: &deletion}, false},
		{"status", &codec.Status{Header: agent, WorkRef: work, SequenceID: 1}, true},
		{"list", &codec.SpecResync{Header: all, Broadcast: true}, true},
		{"list for one source", &codec.SpecResync{Header: agent, TargetSource: "s"}, true},
		{"hashes", &codec.StatusResync{Header: every, Broadcast: true}, false},
		{"hashes for one cluster", &codec.StatusResync{Header: source}, false},
	} {
		want, e, err := codec.ManifestBundle.Encode(c.message)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ocm.Topic(e)
		if err != nil || got != want {
			t.Errorf("%s: topic %q, %v; want %q", c.reason, got, err, want)
		}
		for _, s := range []struct {
			subscription grpcwire.SubscriptionRequest
			receives     bool
		}{
			{grpcwire.SubscriptionRequest{ClusterName: "c"}, !c.agent},
			{grpcwire.SubscriptionRequest{Source: "s", ClusterName: "c"}, !c.agent},
			{grpcwire.SubscriptionRequest{Source: "s"}, c.agent},
			{grpcwire.SubscriptionRequest{ClusterName: "c2"}, c.reason == "hashes"},
			{grpcwire.SubscriptionRequest{Source: "s2", ClusterName: "c"}, false},
			{grpcwire.SubscriptionRequest{Source: "s2"}, c.reason == "list"},
		} {
			if receives := matches(t, s.subscription, got); receives != s.receives {
				t.Errorf("%s: subscription %+v receives it: %v", c.reason, s.subscription, receives)
			}
		}
	}
}

func matches(t *testing.T, s grpcwire.SubscriptionRequest, topic string) bool {
	t.Helper()
	filters, err := ocm.Filters(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range filters {
		parsed, err := topicfilter.Parse(f)
		if err != nil {
			t.Fatal(err)
		}
		levels, matched := strings.Split(topic, "/"), true
		for i, level := range parsed.Levels {
			matched = matched && i < len(levels) && (level == "+" || level == levels[i])
		}
		if matched && len(levels) == len(parsed.Levels) {
			return true
		}
	}
	return false
}

func TestSubscriptionOfFilters(t *testing.T) {
	for _, c := range []struct {
		reason  string
		filters []string
		want    grpcwire.SubscriptionRequest
		fails   bool
	}{
		{"agent", codec.ManifestBundle.AgentFilters("c"), grpcwire.SubscriptionRequest{ClusterName: "c"}, false},
		{"source", codec.ManifestBundle.SourceFilters("s"), grpcwire.SubscriptionRequest{Source: "s"}, false},
		{"agent of one source", []string{"sources/s/sourcebroadcast", "sources/s/clusters/c/sourceevents"},
			grpcwire.SubscriptionRequest{Source: "s", ClusterName: "c"}, false},
		{"other profile", codec.ManifestWork.AgentFilters("c"), grpcwire.SubscriptionRequest{}, true},
		{"share group", codec.SharedFilters("g", codec.ManifestBundle.SourceFilters("s")), grpcwire.SubscriptionRequest{},
			true},
		{"everything", []string{"#"}, grpcwire.SubscriptionRequest{}, true},
		{"every cluster", codec.ManifestBundle.AgentFilters("+"), grpcwire.SubscriptionRequest{}, true},
		{"half of an agent's filters", codec.ManifestBundle.AgentFilters("c")[:1], grpcwire.SubscriptionRequest{}, true},
		{"two agents", append(codec.ManifestBundle.AgentFilters("c"), codec.ManifestBundle.AgentFilters("d")...),
			grpcwire.SubscriptionRequest{}, true},
		{"no filters", nil, grpcwire.SubscriptionRequest{}, true},
	} {
		got, err := ocm.Subscription(c.filters)
		c.want.DataType = ocm.DataType
		if (err != nil) != c.fails || err == nil && got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", c.reason, got, err, c.want)
		}
	}
}

func TestSubscriptionNeedsAName(t *testing.T) {
	for _, s := range []grpcwire.SubscriptionRequest{{}, {Source: "+"}, {ClusterName: "#"},
		{Source: "a/b", ClusterName: "c"}, {ClusterName: "\xff"}} {
		if filters, err := ocm.Filters(s); err == nil {
			t.Errorf("%+v has the filters %q", s, filters)
		}
	}
}
