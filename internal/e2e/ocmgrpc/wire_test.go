// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package ocmgrpc_test

import (
	"context"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/binding"
	ce "github.com/cloudevents/sdk-go/v2/event"
	"google.golang.org/protobuf/proto"
	pbv1 "open-cluster-management.io/sdk-go/pkg/cloudevents/generic/options/grpc/protobuf/v1"
	ocmprotocol "open-cluster-management.io/sdk-go/pkg/cloudevents/generic/options/grpc/protocol"
	ocmtypes "open-cluster-management.io/sdk-go/pkg/cloudevents/generic/types"

	"github.com/spokewire/sdk-go/internal/grpcwire"
)

// TestWireOfOCM compares the encoding of messages with the generated code and the SDK of OCM.
func TestWireOfOCM(t *testing.T) {
	e := ce.New()
	e.SetID("1")
	e.SetSource("hub")
	e.SetType(report)
	e.SetSubject("subject")
	e.SetTime(time.Unix(1700000000, 123456789).UTC())
	e.SetExtension("resourceversion", int32(-7))
	e.SetExtension("flag", true)
	e.SetExtension("blob", []byte{0, 255})
	e.SetExtension("clustername", "")
	e.SetExtension("stamp", time.Unix(1700000000, 0).UTC())
	if err := e.SetData(ce.ApplicationJSON, map[string]string{"a": "b"}); err != nil {
		t.Fatal(err)
	}

	ours, err := grpcwire.AppendEvent(nil, &e)
	if err != nil {
		t.Fatal(err)
	}
	var theirs pbv1.CloudEvent
	if err := proto.Unmarshal(ours, &theirs); err != nil {
		t.Fatal(err)
	}
	read, err := binding.ToEvent(t.Context(), ocmprotocol.NewMessage(&theirs))
	if err != nil {
		t.Fatal(err)
	}
	if read.String() != e.String() {
		t.Errorf("OCM's SDK reads\n%s\nwant\n%s", read, e)
	}

	var written pbv1.CloudEvent
	if err := ocmprotocol.WritePBMessage(context.Background(), binding.ToMessage(&e), &written); err != nil {
		t.Fatal(err)
	}
	b, err := proto.Marshal(&written)
	if err != nil {
		t.Fatal(err)
	}
	got, err := grpcwire.ParseEvent(b)
	if err != nil {
		t.Fatal(err)
	}
	e.SetExtension("blob", "AP8=") // attributes become text
	if got.String() != e.String() {
		t.Errorf("read from OCM's SDK\n%s\nwant\n%s", got, e)
	}
}

// TestRequestsOfOCM compares the other messages with OCM's generated code.
func TestRequestsOfOCM(t *testing.T) {
	subscription := &pbv1.SubscriptionRequest{Source: "hub", ClusterName: cluster, DataType: works}
	b, err := proto.Marshal(subscription)
	if err != nil {
		t.Fatal(err)
	}
	var request grpcwire.SubscriptionRequest
	if err := request.Decode(b); err != nil {
		t.Fatal(err)
	}
	var again pbv1.SubscriptionRequest
	if err := proto.Unmarshal(request.Encode().Materialize(), &again); err != nil || !proto.Equal(subscription, &again) {
		t.Errorf("subscription: %v, %v", &again, err)
	}

	publication := &pbv1.PublishRequest{Event: &pbv1.CloudEvent{Id: "1", Type: report}}
	if b, err = proto.Marshal(publication); err != nil {
		t.Fatal(err)
	}
	var publish grpcwire.PublishRequest
	if err := publish.Decode(b); err != nil {
		t.Fatal(err)
	}
	var same pbv1.PublishRequest
	if err := proto.Unmarshal(publish.Encode().Materialize(), &same); err != nil || !proto.Equal(publication, &same) {
		t.Errorf("publication: %v, %v", &same, err)
	}

	var heartbeat pbv1.CloudEvent
	if err := proto.Unmarshal(grpcwire.AppendHeartbeat(nil, "1"), &heartbeat); err != nil ||
		heartbeat.Type != ocmtypes.HeartbeatCloudEventsType || heartbeat.Id != "1" || heartbeat.SpecVersion != "1.0" {
		t.Errorf("heartbeat: %v, %v", &heartbeat, err)
	}
}
