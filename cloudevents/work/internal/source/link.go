// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"math"
	"sync"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/internal/engine"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/quietlog"
)

// link is the way of a source to its agents, and what all parts of the source need.
type link struct {
	options  Options
	traits   codec.Traits
	engine   *engine.Engine
	ids      *peer.IDSequence
	presence *peer.Presence // nil with a SharedGroup
	metrics  *peer.Metrics  // nil without a registerer
	refusals *quietlog.Log
	budget   *peer.Budget
	mu       *sync.RWMutex // the source's mutex: that of its cache
	logger   klog.Logger   // guarded by mu
	started  bool          // likewise
}

func (k *link) now() time.Time { return k.options.Clock.Now() }

// header returns the header of an event for a cluster, or for all clusters.
func (k *link) header(cluster, resyncID string) codec.Header {
	return codec.Header{
		ID: k.ids.Next(), Time: k.now().UTC(), Source: k.options.SourceID, Cluster: cluster, ResyncID: resyncID,
	}
}

func (k *link) refuseLocked(topic string, err error, reason string, n int) {
	k.metrics.CountRefused(reason, n)
	k.refusals.Error(k.logger, err, reason, topic)
}

func (k *link) refuseEntryLocked(err error) { k.refuseLocked("", err, peer.RefusalReason(err), 1) }

// fits returns an error if the broker would refuse the event of an object. It encodes the event
// only if the object is near the limit.
func (k *link) fits(id string, obj *workv1.ManifestWork) error {
	limit := k.engine.MaxPacketSize()
	if (limit == 0 || 2*peer.RoughSize(obj)+4096 < limit) && !k.largeAttributes(&obj.ObjectMeta) {
		return nil
	}
	m, err := peer.Encode(k.options.Profile, &codec.Spec{
		Header:       k.header(obj.Namespace, uuid.Nil.String()),
		WorkRef:      codec.WorkRef{ResourceID: id, Version: k.traits.MaxVersion, UID: obj.UID, Name: obj.Name},
		AgentSession: uuid.Nil.String(),
		StatusSeq:    math.MaxInt64,
		Work:         obj,
	})
	if err != nil {
		return k.metrics.CountWrite(cannotSend(err))
	}
	if limit == 0 {
		return nil
	}
	return k.metrics.CountWrite(peer.CheckSize(m, limit))
}

// largeAttributes reports whether the metadata is near 64 KiB, the limit of an attribute. In a
// profile ManifestBundle, the metadata is sent in an attribute.
func (k *link) largeAttributes(m *metav1.ObjectMeta) bool {
	if !k.traits.Bundle {
		return false
	}
	size := 256 * len(m.OwnerReferences)
	for _, pairs := range []map[string]string{m.Labels, m.Annotations} {
		for k, v := range pairs {
			size += len(k) + len(v) + 8
		}
	}
	return size > 8<<10 // escapes may turn each byte into six
}

// roomLocked returns an error if the outbox has no room for one more work.
func (k *link) roomLocked(it engine.Item) error {
	return k.metrics.CountWrite(peer.CheckRoom(k.engine, it, k.options.Outbox))
}
