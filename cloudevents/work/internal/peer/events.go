// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"fmt"
	"math"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/internal/engine"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/codec"
)

// packetOverhead is the size of a packet without topic and event: fixed header, packet identifier,
// properties.
const packetOverhead = 64

// ChunkSize returns the largest size of a list: the limit of the protocol or of the broker.
func ChunkSize(e *engine.Engine) int { return min(codec.ResyncChunkSize, LargestList(e)) }

// LargestList returns the size of the largest list that the broker accepts.
func LargestList(e *engine.Engine) int {
	limit := e.MaxPacketSize()
	if limit == 0 {
		return math.MaxInt
	}
	return max(1, limit-packetOverhead-maxTopic)
}

// maxTopic is an upper bound for the topics of lists without the names of source and cluster.
const maxTopic = 256

// RoughSize estimates the bytes of an object's event. Escapes may double parts of it.
func RoughSize(obj *workv1.ManifestWork) int {
	size := 0
	for i := range obj.Spec.Workload.Manifests {
		size += len(obj.Spec.Workload.Manifests[i].Raw)
	}
	for k, v := range obj.Labels {
		size += len(k) + len(v)
	}
	for k, v := range obj.Annotations {
		size += len(k) + len(v)
	}
	return size + 512*len(obj.Spec.ManifestConfigs) + 256*len(obj.OwnerReferences)
}

// CheckSize returns RequestEntityTooLarge for a message over the limit. The structured form is the
// larger of the two content modes, so a message that fits in it fits in both.
func CheckSize(m cloudevents.Message, limit int) error {
	data, err := codec.AppendStructured(nil, m.Event)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if size := len(data) + len(m.Topic) + packetOverhead; size > limit {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
			"the event has %d bytes, the broker's limit is %d: split the work, or raise the broker's packet limit", size, limit))
	}
	return nil
}

// Encode returns the event of a message as the engine publishes it.
func Encode(profile codec.Profile, m codec.Message) (cloudevents.Message, error) {
	topic, event, err := profile.Encode(m)
	if err != nil {
		return cloudevents.Message{}, err
	}
	return cloudevents.Message{Topic: topic, Event: event}, nil
}

// InPart reports whether a resource ID is in a part of the works of source and agent.
func InPart(id string, p codec.Part) bool {
	if p.IsZero() {
		return true
	}
	_, ok := slices.BinarySearch(p.Listed, protocol.Bucket(id, p.Buckets))
	return ok
}
